"""Published accuracy over the number of images, for comparison: values printed in tables, none read off figures.

Dosovitskiy et al., “An Image is Worth 16x16 Words”, 2021 (arXiv 2010.11929): Table 5 has the numbers of the vision
Transformers in Figure 3; those of Figure 4 are not tabulated. Figure 3 shows BiT residual nets as a shaded area; the
numbers of the largest, ResNet152x4, are in Kolesnikov et al., “Big Transfer”, 2020 (arXiv 1912.11370), Tables 1 and 2.
"""

from __future__ import annotations

from typing import NamedTuple


class PublishedAccuracy(NamedTuple):
    """Top-1 accuracy on ImageNet in %, after pre-training on `images` and fine-tuning; None if not trained."""

    data: str
    images: float
    base: float  # ViT-B/16
    large: float  # ViT-L/16
    huge: float | None  # ViT-H/14
    residual: float  # BiT ResNet152x4

    @property
    def gap(self) -> float:
        """Residual net minus the best vision Transformer, in points; the sign shows which is better."""
        return self.residual - max(self.base, self.large, self.huge or 0.0)


FIGURE_3 = (
    PublishedAccuracy("ImageNet", 1.3e6, 77.91, 76.53, None, 81.30),
    PublishedAccuracy("ImageNet-21k", 14e6, 83.97, 85.15, 85.13, 85.39),
    PublishedAccuracy("JFT-300M", 303e6, 84.15, 87.12, 88.04, 87.54),
)

# Section 4.3 of Figure 4: ViT-B/32 is worse than ResNet50 on the first, better on the second; L/16 and 152x2 likewise
FIGURE_4 = (9e6, 90e6)

NOTE = (
    "Published, not measured here: top-1 on ImageNet in %, pre-trained on this many images, then fine-tuned. Vision "
    "Transformers: Dosovitskiy et al. 2021 (arXiv 2010.11929), Table 5, the numbers of its Figure 3. BiT ResNet152x4: "
    "Kolesnikov et al. 2020 (arXiv 1912.11370), Tables 1 and 2, of the family that Figure 3 shows as shaded area; the "
    "budgets differ. The gap is residual net minus best vision Transformer, in points. Figure 4 (few-shot accuracy "
    "after subsets of JFT) is not tabulated; according to Section 4.3, ViT-B/32 does much worse than ResNet50 on 9 "
    "million images and better on 90 million and more, and the same is true of ViT-L/16 and ResNet152x2."
)
