"""f(shift x) = shift f(x): convolutional features move with the image by whole strides; those of patches do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator, normal
from glassformer.models import ConvNet2d, ConvNet2dConfig, ViT
from glassformer.models.vit import plain
from glassformer.nn import initialise

SAME = 1e-9
CHANGED = 0.05  # relative to the response to the image: a larger error means that f does not commute


def measure(seed: int, *, size: int = 48, patch: int = 4) -> Result:
    random = generator(seed)
    image = torch.zeros(1, 1, size, size, dtype=torch.float64)
    a, b = size // 2 - patch, size // 2 + patch
    image[..., a:b, a:b] = normal(random, 1, 1, b - a, b - a)  # far from the border
    one = ConvNet2dConfig(channels=1, classes=2, widths=(4,), depths=(1,), stem="small")
    two = replace(one, widths=(4, 4), depths=(1, 1))
    errors = {}
    for name, config, shift in (("stride 1, by 1", one, 1), ("stride 2, by 2", two, 2), ("stride 2, by 1", two, 1)):
        net = ConvNet2d(config, seed=seed).double().eval()
        errors[f"convolution: {name}"] = _error(net.features, image, shift, config.stride)
    corner = image.roll((-a, -a), (-2, -1))
    errors["convolution: stride 1, by 1, at the border"] = _error(
        ConvNet2d(one, seed=seed).double().eval().features, corner, 1, one.stride
    )
    vit = ViT(plain(size, patch, 8, 1, 2, classes=2, channels=1), seed=seed).double().eval()
    initialise(vit, seed)
    grid = lambda X: vit.features(X)[:, vit.config.prefix :].mT.unflatten(-1, vit.config.grid)
    with torch.no_grad():
        vit.positions.normal_(generator=random)
        vit.positions.mul_(_content(vit, image) / float(vit.positions.square().mean().sqrt()))
    with torch.no_grad():
        response = float((grid(image) - grid(torch.zeros_like(image))).norm() / grid(image).norm())
    errors["patches: by 1"] = _error(grid, image, 1, patch)
    errors["patches: by a whole patch"] = _error(grid, image, patch, patch)
    with torch.no_grad():
        vit.positions.zero_()
    errors["patches, no positions: by 1"] = _error(grid, image, 1, patch)
    errors["patches, no positions: by a patch"] = _error(grid, image, patch, patch)
    return {"errors": errors, "response": response, "patch": patch, "counterexample": _example()}


@torch.no_grad()
def _content(vit: ViT, image: Tensor) -> float:
    """Return the root mean square of the embedded non-blank patches, to which positions are scaled."""
    E = vit.embed(image)
    return float(E[E.abs().sum(-1) > 0].square().mean().sqrt())


def _shifted(X: Tensor, by: int) -> Tensor:
    return X.roll((by, by), (-2, -1))


@torch.no_grad()
def _error(features: Callable[[Tensor], Tensor], image: Tensor, by: int, stride: int) -> float:
    """‖R(shift x) − shift R(x)‖ / ‖R(x)‖, R(x) = f(x) − f(0); for part of a stride, the better of two shifts."""
    blank = features(torch.zeros_like(image))
    Y, Z = features(image) - blank, features(_shifted(image, by)) - blank
    steps = {by // stride, -(-by // stride)}
    return min(float((Z - _shifted(Y, step)).norm() / Y.norm()) for step in steps)


def _example() -> dict[str, object]:
    """Return an exercise with a dot moved by one pixel, whose patch no longer matches any earlier patch."""
    text = (
        "The image has one dot. Shifted one pixel to the right, it is in the second patch of the first row. What does "
        "that patch contain?"
    )
    image = [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    return {"title": "A dot in patches", "text": text, "patches": {"size": 2, "image": image}}


def judge(result: Result) -> tuple[Kind, str]:
    errors = dict(result["errors"])
    part = errors.pop("patches, no positions: by 1")
    shown = "; ".join(f"{error:.1g} for {name.replace(': ', ', ')}" for name, error in errors.items())
    share = f"the image accounts for {result['response']:.0%} of the Transformer's features"
    rest = (
        f"‖R(shift x) − shift R(x)‖ / ‖R(x)‖ is {shown} ({share}). {NOT_JUDGED}: it is {part:.1g} for patches without "
        "positions, by 1"
    )
    exact = errors["convolution: stride 1, by 1"], errors["convolution: stride 2, by 2"]
    patches = errors["patches: by 1"], errors["patches: by a whole patch"]
    if max(exact) > SAME or min(patches) < CHANGED or result["response"] < CHANGED:
        return "fails", rest
    if errors["convolution: stride 2, by 1"] > CHANGED:
        conditions = ["the shift is a whole number of strides"]
        if errors["convolution: stride 1, by 1, at the border"] > SAME:
            conditions.append("the content is away from the border")
        if errors["patches, no positions: by a patch"] < SAME:
            conditions.append("patches have position embeddings (without them, attention commutes with whole patches)")
        return "holds when", f"{', '.join(conditions)}: {rest}"
    return "holds", rest


def draw(result: Result) -> Figure:
    values = {name.replace(": ", "\n"): error for name, error in result["errors"].items()}
    return plots.bars(values, up="|R(shift x) − shift R(x)| / |R(x)|", title="shifted images", log=True)


CLAIM = Experiment(
    number=30,
    name="shifted images",
    statement="Convolutions commute with shifts of the image; patch attention does not.",
    formula="f(T_s x) = T_s f(x)",
    measured="The difference between the response R(x) = f(x) − f(0) to a shifted image and the shifted response, "
    "relative to the response, for residual convolutional networks with stride 1 and 2 and for a vision Transformer, "
    "all with random weights; the latter with position embeddings as large as the patch embeddings, and without.",
    rule=f"“fails” if a convolution does not commute with shifts by whole strides (to {SAME:g}), if patch attention "
    f"with position embeddings does (to {CHANGED:.0%}), or if the image accounts for less than {CHANGED:.0%} of the "
    "Transformer's features; “holds when the shift is a whole number of strides” if the error of the convolution for "
    f"part of a stride is above {CHANGED:.0%}, with the conditions “the content is away from the border” if its error "
    f"at the border is above {SAME:g} and “patches have position embeddings” if without them the error for a whole "
    f"patch is below {SAME:g}; otherwise “holds”.",
    falsified_by="A convolution that does not commute with shifts by its stride, patch attention with position "
    "embeddings that does, or a network that hardly responds to the image.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"size": "image size, a multiple of the patch size", "patch": "patch size"},
    least={"size": 40, "patch": 2},
)
