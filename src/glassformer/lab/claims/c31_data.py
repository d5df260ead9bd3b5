"""Test accuracy of a convolutional net and a vision Transformer of one budget on real images, as there are more."""

from __future__ import annotations

from matplotlib.figure import Figure
from torch import nn

from glassformer.errors import InputError
from glassformer.lab import pictures
from glassformer.lab.comparison.data import pictures as images
from glassformer.lab.comparison.lessons import Pictures, learn
from glassformer.lab.comparison.nets import image, parameters
from glassformer.lab.comparison.plan import DataPlan
from glassformer.lab.comparison.results import estimate
from glassformer.lab.experiment import Experiment, Kind, Result

NAMES = {"convolutional": "CNN", "vision Transformer": "Transformer"}
EMBEDDED = 4000  # images to learn from that come along
CLASSES = 10


def measure(seed: int, *, fewest: int = 40, most: int = 4000, steps: int = 120, pairs: int = 6) -> Result:
    if fewest >= most:
        raise InputError(f"from {fewest} images to {most}", "choose more for most than for fewest")
    sizes = sorted({fewest, round((fewest * most) ** 0.5), most})
    data = DataPlan(
        source="fashion-mnist",
        embedded=most <= EMBEDDED,
        budget=19_000,
        sizes=tuple(sizes),
        steps=steps,
        batch=64,
        rate=3e-3,
        tests=700,
        patch=7,
    )
    seeds = [pairs * seed + k for k in range(pairs)]
    every = {name: [[_learned(kind, n, data, each) for each in seeds] for n in sizes] for name, kind in NAMES.items()}
    gaps = [[a - b for a, b in zip(*each, strict=True)] for each in zip(*every.values(), strict=True)]
    narrower = estimate(a - b for a, b in zip(gaps[0], gaps[-1], strict=True))
    return {
        "sizes": sizes,
        "accuracy": {name: [estimate(each).mean for each in found] for name, found in every.items()},
        "gap": [estimate(each).mean for each in gaps],
        "half": [estimate(each).half for each in gaps],  # of the 95 % interval
        "narrower": [narrower.mean, narrower.half],
        "parameters": [parameters(_net(kind, data, seed)) for kind in NAMES.values()],
        "chance": 1 / CLASSES,
    }


def _net(kind: str, data: DataPlan, seed: int) -> nn.Module:
    return image(kind, data.budget, size=28, channels=1, patch=data.patch, classes=CLASSES, seed=seed)


def _learned(kind: str, size: int, data: DataPlan, seed: int) -> float:
    """From scratch, with as many steps whatever the size; a seed has its own images, weights and order."""
    (X, y), held = images(data, size, data.tests, seed)
    lesson = Pictures(X=X, y=y, held=held, size=min(data.batch, size), seed=seed)
    return learn(_net(kind, data, seed), lesson, steps=data.steps, rate=data.rate, seed=seed)


def judge(result: Result) -> tuple[Kind, str]:
    sizes, gaps, halves = result["sizes"], result["gap"], result["half"]
    both = zip(sizes, *result["accuracy"].values(), gaps, halves, strict=True)
    told = "; ".join(
        f"{n} images: {a:.0%} against {b:.0%} (gap {100 * gap:.1f} ± {100 * half:.1f} points)"
        for n, a, b, gap, half in both
    )
    words = f"convolutional against Transformer, {told}"
    if gaps[0] <= halves[0]:
        return "fails", f"it is not better with the fewest; {words}"
    narrower, half = result["narrower"]
    if gaps[-1] <= halves[-1] and narrower > half:
        return "holds", f"with {sizes[-1]} no gap is left that luck would not explain; {words}"
    return "holds when", (
        f"only its first half is meant: up to {sizes[-1]:,} images the convolutional net is better, but the gap does "
        f"not close (it gets narrower by {100 * narrower:.1f} ± {100 * half:.1f} points); {words}"
    )


def draw(result: Result) -> Figure:
    title = "accuracy as the training set grows"
    levels = {"chance": result["chance"]}
    return pictures.curves(
        result["sizes"], result["accuracy"], across="images", up="accuracy", title=title, log="x", levels=levels
    )


CLAIM = Experiment(
    number=31,
    name="little data",
    statement="A convolutional net is better than a vision Transformer on little data, and the gap closes as "
    "data grows.",
    formula="accuracy_{conv}(n) - accuracy_{ViT}(n) → 0",
    measured="Test accuracy on real images of both, of one budget and trained from scratch for as many steps, with few "
    "training images, more, and many; the gap's mean over several pairs, and its 95 % interval (Student's t).",
    rule="fails if with the fewest images the interval of the gap reaches 0 or below, since luck would explain it; "
    "else holds if with the most it does, and the gap got narrower by more than luck explains (to see no gap is not "
    "enough: with few pairs none would be seen); else holds when only the first half is meant.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={
        "fewest": "the fewest training images",
        "most": "the most; above 4,000 needs glassformer data fetch fashion-mnist",
        "steps": "steps of training",
        "pairs": "how many of each are trained, from other weights on other images",
    },
    least={"fewest": 10, "pairs": 2},
    circumstances="Fashion-MNIST, 28×28 grey, as it comes along; about 19,000 parameters each, 120 steps of 64 images. "
    "`glassformer compare` has larger sets and the published curve beside them: there the gap closes between 14 and "
    "303 million images.",
)
