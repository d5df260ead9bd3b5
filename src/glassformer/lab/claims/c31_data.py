"""Test accuracy of a convolutional net and a vision Transformer of one budget, as the training set grows."""

from __future__ import annotations

from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.lab import pictures
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator
from glassformer.models import ConvNet2d, ConvNet2dConfig, ViT
from glassformer.models.convolutional import GroupNorm
from glassformer.models.vit import plain
from glassformer.nn import initialise

SIZE, SHAPE, CLASSES = 16, 6, 4


def measure(seed: int, *, fewest: int = 64, most: int = 2048, steps: int = 200) -> Result:
    sizes = sorted({fewest, round((fewest * most) ** 0.5), most})
    random = generator(seed)
    X, y = _images(most, random)
    test = _images(512, random)
    accuracy: dict[str, list[float]] = {"convolutional": [], "vision Transformer": []}
    for n in sizes:
        for name, net in zip(accuracy, _nets(seed), strict=True):
            accuracy[name].append(_learned(net, X[:n], y[:n], test, steps, seed))
    budgets = [sum(weight.numel() for weight in net.parameters()) for net in _nets(seed)]
    return {"sizes": sizes, "accuracy": accuracy, "parameters": budgets}


def _nets(seed: int) -> tuple[ConvNet2d, ViT]:
    """About 7,500 parameters each."""
    norm = GroupNorm(groups=2)
    conv = ConvNet2dConfig(channels=1, classes=CLASSES, widths=(10, 20), depths=(1, 1), stem="small", norm=norm)
    vit = ViT(replace(plain(SIZE, 4, 16, 2, 2, classes=CLASSES, channels=1), prefix=0, pool="mean"), seed=seed)
    initialise(vit, seed)
    return ConvNet2d(conv, seed=seed), vit


def _images(n: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """A bar lying or standing, a cross, or a frame, anywhere in a noisy image."""
    shapes = torch.zeros(CLASSES, SHAPE, SHAPE)
    shapes[0, 2:4] = shapes[2, 2:4] = shapes[3] = 1
    shapes[1, :, 2:4] = shapes[2, :, 2:4] = 1
    shapes[3, 1:5, 1:5] = 0
    y = torch.randint(0, CLASSES, (n,), generator=random)
    X = 0.3 * torch.randn(n, 1, SIZE, SIZE, generator=random)
    corners = torch.randint(0, SIZE - SHAPE + 1, (n, 2), generator=random).tolist()
    for image, kind, (row, column) in zip(X, y.tolist(), corners, strict=True):
        image[0, row : row + SHAPE, column : column + SHAPE] += shapes[kind]
    return X, y


def _learned(net: nn.Module, X: Tensor, y: Tensor, test: tuple[Tensor, Tensor], steps: int, seed: int) -> float:
    random = generator(seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(steps):
        chosen = torch.randint(0, len(X), (32,), generator=random)
        loss = cross_entropy(net(X[chosen]), y[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return float((net(test[0]).argmax(-1) == test[1]).float().mean())


def judge(result: Result) -> tuple[Kind, str]:
    conv, vit = (result["accuracy"][name] for name in ("convolutional", "vision Transformer"))
    gaps = [a - b for a, b in zip(conv, vit, strict=True)]
    told = "; ".join(
        f"{n} images: {a:.0%} against {b:.0%}" for n, a, b in zip(result["sizes"], conv, vit, strict=True)
    )
    if gaps[0] > 0.1 and gaps[-1] < max(gaps) / 2:
        left = "it is closed" if gaps[-1] < 0.02 else f"{100 * gaps[-1]:.0f} points are left"
        return "holds", f"convolutional against Transformer, {told}; {left}"
    return "fails", f"convolutional against Transformer, {told}"


def draw(result: Result) -> Figure:
    title = "accuracy as the training set grows"
    levels = {"chance": 1 / CLASSES}
    return pictures.curves(
        result["sizes"], result["accuracy"], across="images", up="accuracy", title=title, log="x", levels=levels
    )


CLAIM = Experiment(
    number=31,
    name="little data",
    statement="A convolutional net is better than a vision Transformer on little data, and the gap closes as "
    "data grows.",
    formula="accuracy_{conv}(n) - accuracy_{ViT}(n) → 0",
    measured="Test accuracy of both, of one budget and trained from scratch for as many steps, with few "
    "training images, "
    "more, and many.",
    rule="holds if the convolutional net is more than 10 points better with the fewest images, and with the "
    "most the gap is "
    "less than half of its largest; else fails.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"fewest": "the fewest training images", "most": "the most", "steps": "steps of training"},
    circumstances="Images made from a seed, not photographs: four shapes of 6×6 anywhere in 16×16, in noise; "
    "about 7,500 "
    "parameters each, 200 steps of Adam. On so little the verdict depends on the seed: try several. Real images are "
    "left to the comparison of architectures.",
)
