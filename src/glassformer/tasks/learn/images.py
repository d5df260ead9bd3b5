"""loss = −Σ log p(class | image): learning to name what is in a picture, for every model that sees pictures."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.checkpoints import Preprocess, save
from glassformer.checkpoints.native import replace_file
from glassformer.checkpoints.origin import Origin, origin_of, with_origin
from glassformer.checkpoints.preprocess import FILE
from glassformer.errors import ConfigError, InputError
from glassformer.tasks.data import augment_images as change
from glassformer.tasks.data.faults import Fault, Faults
from glassformer.tasks.data.fingerprint import of_images
from glassformer.tasks.data.images import Images
from glassformer.tasks.data.order import batches
from glassformer.tasks.seeing import classes_of, logits_of
from glassformer.tasks.training.lesson import Batch

BILINEAR = 2  # Pillow's number: images are scaled so for training, and so they must be for use


@dataclass(frozen=True, kw_only=True)
class Augment:
    """How images are changed while learning; 0 leaves a change out.

    `crop`: a window moved by up to so many pixels. `flip`: left and right exchanged in half of them. `affine`: turned,
    moved, scaled, sheared by up to so many times 10° and 10 %. `rand`: RandAugment of this strength, `rand_count`
    changes for each. `erase`: the share of images with a hidden rectangle. `mixup`: the α of what two images share.
    """

    crop: int = 0
    flip: bool = False
    affine: float = 0.0
    rand: float = 0.0
    rand_count: int = 1
    erase: float = 0.0
    mixup: float = 0.0
    needs: ClassVar[dict[str, str]] = {"rand": "rand_count", "rand_count": "rand"}  # without which it does nothing

    def __post_init__(self) -> None:
        for name in ("crop", "affine", "rand", "rand_count", "erase", "mixup"):
            if getattr(self, name) < 0:
                raise ConfigError(f"augmentation has {name} {getattr(self, name)}", "choose 0 (none) or more")

    def __call__(self, X: Tensor, random: torch.Generator) -> Tensor:
        """Values from 0 to 1 in and out; mixup, which changes the answers too, comes later."""
        if self.affine:
            k = self.affine
            X = change.affine(X, random, degrees=10 * k, shift=0.1 * k, scale=0.1 * k, shear=0.1 * k)
        if self.crop:
            X = change.crop(X, random, margin=self.crop)
        if self.flip:
            X = change.flip(X, random)
        if self.rand:
            X = change.rand_augment(X, random, count=self.rand_count, strength=self.rand)
        return change.erase(X, random, share=self.erase) if self.erase else X


@dataclass(kw_only=True)
class ImageLesson:
    """Images of one size and their classes; what is measured is the share of held-out images that is named rightly."""

    train: Images
    held: Images
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: Augment = Augment()
    smoothing: float = 0.0
    size: int = 128  # of a batch
    seed: int = 0
    better: Literal["higher", "lower"] = "higher"

    def __post_init__(self) -> None:
        if self.train.labels != self.held.labels or self.train.shape != self.held.shape:
            fact = f"{self.train.shape} in {len(self.train.labels)} classes to learn from, {self.held.shape} held out"
            raise InputError(fact, "open the second with the labels, size and channels of the first")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"labels are smoothed by {self.smoothing}", "choose a number from 0 to 1, such as 0.1")
        if not len(self.mean) == len(self.std) == self.train.shape[0] or not all(self.std):
            fact = f"mean {self.mean} and deviation {self.std} for images of {self.train.shape[0]} channels"
            raise ConfigError(fact, "give one number for each channel, no deviation of 0")
        self.faults = Faults()

    @property
    def labels(self) -> tuple[str, ...]:
        return self.train.labels

    def about(self) -> dict[str, object]:
        own = {"smoothing": self.smoothing, "augment": asdict(self.augment), "batch": self.size, "seed": self.seed}
        data = {"data": of_images(self.train), "held": of_images(self.held)}
        # measured from the data, as a rule: another machine may add it up in another order
        return data | own | {name: [f"{x:.6g}" for x in getattr(self, name)] for name in ("mean", "std")}

    @property
    def preprocess(self) -> Preprocess:
        """How a picture of any size becomes what the model learned from."""
        _, rows, columns = self.train.shape
        return Preprocess(
            resize=(rows, columns), resample=BILINEAR, crop=None, scale=1 / 255, mean=self.mean, std=self.std
        )

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return batches(len(self.train), self.size, self.seed, number)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        found = self._read(self.train, rows)
        if found is None:
            return None
        X, y = found
        random = torch.Generator().manual_seed(seed)
        X = self.augment(X, random)
        if not self.augment.mixup:
            return {"X": self._normal(X), "y": y}
        mixed = change.mixup(X, random, alpha=self.augment.mixup)
        return {"X": self._normal(mixed.images), "y": change.mixed_targets(y, mixed, len(self.labels))}

    def weigh(self, batch: Batch) -> float:
        return float(len(batch["X"]))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = logits_of(model, batch["X"])
        return cross_entropy(logits, batch["y"], reduction="sum", label_smoothing=self.smoothing)

    def measure(self, model: nn.Module) -> dict[str, float]:
        """The share of held-out images whose likeliest class is theirs, and −log p of theirs on average."""
        logits, y = self.answers(model)
        right = int((logits.argmax(-1) == y).sum())
        return {"accuracy": right / len(y), "loss": float(cross_entropy(logits, y))}

    @torch.inference_mode()
    def answers(self, model: nn.Module) -> tuple[Tensor, Tensor]:
        """Logits (n, classes) of the held-out images that can be read, and their classes (n,)."""
        training, place = model.training, next(model.parameters())
        model.eval()
        logits, classes = [], []
        for start in range(0, len(self.held), 256):
            found = self._read(self.held, range(start, min(start + 256, len(self.held))))
            if found is not None:
                logits.append(logits_of(model, self._normal(found[0]).to(place)).float().cpu())
                classes.append(found[1])
        model.train(training)
        if not classes:
            raise InputError("none of the held-out images can be read", "; ".join(self.faults.told()))
        return torch.cat(logits), torch.cat(classes)

    def confusion(self, model: nn.Module) -> Tensor:
        """C[i, j]: how many held-out images of class i were taken for class j."""
        logits, y = self.answers(model)
        n = len(self.labels)
        return torch.bincount(y * n + logits.argmax(-1), minlength=n * n).reshape(n, n)

    def _read(self, images: Images, rows: Sequence[int]) -> tuple[Tensor, Tensor] | None:
        """(b, c, h, w) from 0 to 1, and the classes; what cannot be read is counted and left out."""
        shape = images.shape

        def one(row: int) -> tuple[Tensor, int]:
            pixels = images.image(row)
            if tuple(pixels.shape) != shape:
                raise Fault(f"image of another size (not {shape[1]}×{shape[2]})", images.files[row])
            return pixels, images.label(row)

        found = self.faults.each(rows, one)
        self.faults.check()
        if not found:
            return None
        return torch.stack([x for x, _ in found]).float() / 255, torch.tensor([y for _, y in found])

    def _normal(self, X: Tensor) -> Tensor:
        mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (self.mean, self.std))
        return (X - mean) / std


def statistics(images: Images, most: int = 2000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel over up to `most` images spread evenly, values from 0 to 1."""
    step = max(1, len(images) // most)
    read = Faults().each(range(0, len(images), step), images.image)
    pixels = torch.cat([x.flatten(1) for x in read], 1).double() / 255
    std = pixels.std(1).clamp_min(1e-3)  # a channel that is the same everywhere
    return tuple(pixels.mean(1).tolist()), tuple(std.tolist())


def save_images(
    model: nn.Module, folder: str | Path, labels: Sequence[str], preprocess: Preprocess, *, half: bool = False
) -> Path:
    """A folder that `load` and `classify` take: weights (as float16 if `half`), names of classes, how to see."""
    folder, count = Path(folder), classes_of(model)
    if count != len(labels):
        raise InputError(f"{len(labels)} names for {count} classes", "give one for each class")
    before = origin_of(model)
    raw = {**(before.raw if before is not None and not before.family else {})}
    raw |= {"id2label": {str(i): name for i, name in enumerate(labels)}}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_described(preprocess), indent=1) + "\n"
    replace_file(folder / FILE, lambda path: path.write_text(text, encoding="utf-8"))
    with_origin(model, Origin(folder=folder, raw=raw))
    return save(copy.deepcopy(model).half() if half else model, folder)


def _described(how: Preprocess) -> dict[str, object]:
    """As Hugging Face writes it, every step said."""
    if how.mean is None or how.std is None or how.scale is None or not isinstance(how.resize, tuple):
        raise ConfigError(f"images are prepared by {how}", "give a size, a scale, a mean and a deviation")
    sides = lambda pair: {"height": pair[0], "width": pair[1]}
    crop = {"do_center_crop": True, "crop_size": sides(how.crop)} if how.crop else {"do_center_crop": False}
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": sides(how.resize),
        "resample": how.resample,
        **crop,
        "do_rescale": True,
        "rescale_factor": how.scale,
        "do_normalize": True,
        "image_mean": list(how.mean),
        "image_std": list(how.std),
    }
