"""Test accuracy of a CNN and a vision Transformer of equal size on real images, as the training set grows."""

from __future__ import annotations

from itertools import count

from matplotlib.figure import Figure

from glassformer.errors import InputError
from glassformer.lab import plots
from glassformer.lab.comparison.data import trained
from glassformer.lab.comparison.objectives import EvalScore, search
from glassformer.lab.comparison.plan import SEARCH_SEED, DataPlan
from glassformer.lab.comparison.results import estimate
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.progress import report

NAMES = {"CNN": "CNN", "vision Transformer": "Transformer"}
DATASET, EMBEDDED, VALIDATION = "fashion-mnist", 3_500, 500
RATES = (2e-3, 5e-3, 1.2e-2)
CLASSES = 10


def measure(seed: int, *, fewest: int = 40, most: int = 3_000, steps: int = 100, pairs: int = 4) -> Result:
    if fewest >= most:
        raise InputError(f"fewest={fewest} is not below most={most}", "choose more images for most than for fewest")
    sizes = sorted({fewest, round((fewest * most) ** 0.5), most})
    data = DataPlan(
        datasets=(DATASET,),
        embedded=most <= EMBEDDED,
        budget=19_000,
        sizes=tuple(sizes),
        rates=RATES,
        search=(sizes[1],),
        size_steps=(steps,) * len(sizes),
        batch_size=64,
        validation=VALIDATION,
        tests=700,
        patches=4,
    )
    seeds = [pairs * seed + k for k in range(pairs)]
    rates, counts, every = {}, {}, {}
    runs, done = len(NAMES) * (len(RATES) + len(sizes) * len(seeds)), count()

    def run(kind: str, n: int, lr: float, each: int) -> tuple[EvalScore, EvalScore, int]:
        report("Training run", next(done), runs)
        return trained(data, DATASET, kind, n, lr, each)

    for name, kind in NAMES.items():
        trial = lambda lr, n, kind=kind: run(kind, n, lr, SEARCH_SEED + seed)[0]
        rates[name] = search(RATES, data.search, trial)["lr"]
        found = [[run(kind, n, rates[name], each) for each in seeds] for n in sizes]
        every[name] = [[test.accuracy for _, test, _ in row] for row in found]
        counts[name] = found[0][0][2]
    gaps = [[a - b for a, b in zip(*each, strict=True)] for each in zip(*every.values(), strict=True)]
    narrower = estimate(a - b for a, b in zip(gaps[0], gaps[-1], strict=True))
    return {
        "sizes": sizes,
        "seeds": seeds,
        "learning_rates": rates,
        "accuracy": {name: [estimate(each).mean for each in found] for name, found in every.items()},
        "gap": [estimate(each).mean for each in gaps],
        "half": [estimate(each).half for each in gaps],  # half-width of the 95 % interval
        "narrower": [narrower.mean, narrower.half],
        "parameters": counts,
        "chance": 1 / CLASSES,
    }


def judge(result: Result) -> tuple[Kind, str]:
    sizes, gaps, halves = result["sizes"], result["gap"], result["half"]
    table = [
        f"{100 * gap:.1f} ± {100 * half:.1f} points with {n:,} images"
        for n, gap, half in zip(sizes, gaps, halves, strict=True)
    ]
    accuracies = zip(sizes, *result["accuracy"].values(), strict=True)
    shown = "; ".join(f"{a:.0%} and {b:.0%} with {n:,}" for n, a, b in accuracies)
    between = "".join(f"the gap is {each}; " for each in table[1:-1])
    better = gaps[0] > halves[0]
    narrower, half = result["narrower"]
    trend = "narrows" if narrower > half else "widens" if -narrower > half else "does not change by more than chance"
    closed = gaps[-1] <= halves[-1] and narrower > half
    found = (
        f"it is {table[0]} and {table[-1]}: the gap {trend}. {NOT_JUDGED}: {between}the accuracy of the CNN and of "
        f"the vision Transformer is {shown}"
    )
    if better and closed:
        return "holds", f"the CNN is better with the fewest images, and with the most the gap has closed; {found}"
    first = "the CNN is better with the fewest images" if better else "there is no clear gap with the fewest images"
    second = "the gap closes" if closed else f"the gap does not close up to {sizes[-1]:,}"
    return "fails", f"{first}, and {second}; {found}"


def draw(result: Result) -> Figure:
    title = "accuracy as the training set grows"
    levels = {"chance": result["chance"]}
    return plots.curves(
        result["sizes"], result["accuracy"], across="images", up="accuracy", title=title, log="x", levels=levels
    )


CLAIM = Experiment(
    number=31,
    name="little data",
    statement="A convolutional network is better than a vision Transformer on little data, and the gap closes as the "
    "data grow.",
    formula="accuracy_{conv}(n) - accuracy_{ViT}(n) → 0",
    measured="The test accuracy on Fashion-MNIST of a CNN and a vision Transformer of equal size, trained from "
    "scratch for the same number of steps on few, more and many images. The gap is the mean over several seeds, with "
    "its 95 % confidence interval (Student's t). Each network uses the best of three learning rates on validation "
    "images.",
    rule="“holds” if the confidence interval of the gap lies above 0 with the fewest images, includes 0 or lies below "
    "it with the most, and the gap narrows by more than the confidence interval of that change; otherwise “fails”.",
    falsified_by="With the most images, a confidence interval that includes 0, and a gap that has narrowed by more "
    "than chance: the claim would then hold.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={
        "fewest": "smallest number of training images",
        "most": "largest number of training images; more than 3,500 need glassformer data fetch fashion-mnist",
        "pairs": "number of seeds, each with its own weights and images",
    },
    least={"fewest": 10, "pairs": 2},
    circumstances="28×28 greyscale images, about 19,000 parameters per network, batches of 64 images, no "
    "augmentation. In 100 steps 3,000 images are seen about twice; whether the networks have converged is not tested. "
    "`glassformer compare` covers more images, CIFAR-10 and the published curve, in which the gap closes between 14 "
    "and 303 million images.",
)
