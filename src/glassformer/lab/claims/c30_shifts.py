"""f(shift x) = shift f(x): a convolution's features move with the image by whole strides; patches cut it anew."""

from __future__ import annotations

from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.lab import pictures
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator, normal
from glassformer.models import ConvNet2d, ConvNet2dConfig, ViT, ViTConfig
from glassformer.models.vit import plain

SAME = 1e-9


def measure(seed: int, *, size: int = 48, patch: int = 4) -> Result:
    random = generator(seed)
    image = torch.zeros(1, 1, size, size, dtype=torch.float64)
    a, b = size // 2 - patch, size // 2 + patch
    image[..., a:b, a:b] = normal(random, 1, 1, b - a, b - a)  # far enough from the border that it does not matter
    one = ConvNet2dConfig(channels=1, classes=2, widths=(4,), depths=(1,), stem="small")
    two = replace(one, widths=(4, 4), depths=(1, 1))
    errors = {}
    for name, config, shift in (("stride 1, by 1", one, 1), ("stride 2, by 2", two, 2), ("stride 2, by 1", two, 1)):
        net = ConvNet2d(config, seed=seed).double().eval()
        errors[f"convolution: {name}"] = _convolved(net, image, shift)
    vit = ViT(plain(size, patch, 8, 1, 2, classes=2, channels=1), seed=seed).double().eval()
    with torch.no_grad():
        vit.positions.normal_(generator=random)
    errors["patches: by 1"] = _patched(vit, image, 1)
    errors["patches: by a whole patch"] = _patched(vit, image, patch)
    with torch.no_grad():
        vit.positions.zero_()
    errors["patches, no positions: by 1"] = _patched(vit, image, 1)
    errors["patches, no positions: by a patch"] = _patched(vit, image, patch)
    return {"errors": errors, "patch": patch, "counterexample": _example()}


def _shifted(X: Tensor, by: int) -> Tensor:
    return X.roll((by, by), (-2, -1))


@torch.no_grad()
def _convolved(net: ConvNet2d, image: Tensor, by: int) -> float:
    """|f(shift x) − shift f(x)| over |f(x)|; by 1 under a stride of 2 no whole shift is right, and the best counts."""
    Y, Z = net.features(image), net.features(_shifted(image, by))
    steps = {by // net.config.stride, -(-by // net.config.stride)}
    return min(float((Z - _shifted(Y, step)).norm() / Y.norm()) for step in steps)


@torch.no_grad()
def _patched(vit: ViT, image: Tensor, by: int) -> float:
    config: ViTConfig = vit.config
    grid = lambda X: vit.features(X)[:, config.prefix :].mT.unflatten(-1, config.grid)
    Y, Z = grid(image), grid(_shifted(image, by))
    steps = {by // config.patch[0], -(-by // config.patch[0])}
    return min(float((Z - _shifted(Y, step)).norm() / Y.norm()) for step in steps)


def _example() -> dict[str, object]:
    """A dot moved by one pixel: its patch no longer looks like any patch before."""
    text = (
        "The image has one dot. Moved one pixel to the right it stands in the second patch of the first row: as what?"
    )
    image = [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    return {"title": "A dot in patches", "text": text, "patches": {"size": 2, "image": image}}


def judge(result: Result) -> tuple[Kind, str]:
    errors = result["errors"]
    told = "; ".join(f"{name} {error:.1g}" for name, error in errors.items())
    exact = errors["convolution: stride 1, by 1"], errors["convolution: stride 2, by 2"]
    patches = errors["patches: by 1"], errors["patches: by a whole patch"]
    if max(exact) > SAME or min(patches) < SAME:
        return "fails", f"off by, of the features: {told}"
    if errors["convolution: stride 2, by 1"] > SAME:
        return "holds when", (
            "the shift is a whole number of strides and nothing meets the border: then convolutions commute, "
            "and by half "
            "a stride they do not. Patch attention commutes only without positions and by whole patches. Off "
            "by, of the "
            f"features: {told}"
        )
    return "holds", told


def draw(result: Result) -> Figure:
    values = {name.replace(": ", "\n"): max(error, 1e-17) for name, error in result["errors"].items()}
    return pictures.bars(values, up="|f(shift x) − shift f(x)|", title="shifted images", log=True)


CLAIM = Experiment(
    number=30,
    name="shifted images",
    statement="Convolutions commute with shifts of the image; patch attention does not.",
    formula="f(T_s x) = T_s f(x)",
    measured="How far the features of a shifted image are from the shifted features, of residual convolutions with "
    "stride 1 and 2 and of a vision Transformer with random weights, with positions and without.",
    rule="fails if a convolution does not commute with whole strides (to 10⁻⁹) or patch attention with positions does; "
    "holds when shifts are whole strides if by a part of one the convolution does not; else holds.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"size": "the image's side, a multiple of the patch", "patch": "the patch's side"},
    least={"size": 40, "patch": 2},
)
