"""argmax, large β, Gumbel noise, straight-through: four forms of hard attention, and which of them can be trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.core import attend, gumbel_softargmax, hardargmax, softargmax, straight_through
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, normal
from glassformer.progress import tracked

HARD = 0.5  # one key outweighs all others together
ERRORS = 3  # standard errors above chance, which random choices exceed once in 700 trials
RATE = 0.3
Normalise = Callable[[Tensor], Tensor]


def measure(seed: int, *, starts: int = 24, keys: int = 6, steps: int = 200, beta: float = 20.0) -> Result:
    ways: dict[str, Normalise] = {
        "argmax": hardargmax,
        "large β": partial(softargmax, beta=beta),
        "Gumbel": partial(gumbel_softargmax, beta=beta, generator=generator(seed + 1)),
        "straight-through": straight_through,
    }
    names = tracked(ways, "Training by method")
    found = {name: _learn(ways[name], generator(seed), starts, keys, steps) for name in names}
    return {
        "chance": 1 / keys,
        "error": math.sqrt((1 - 1 / keys) / keys / starts),
        "hardness": {name: each[0] for name, each in found.items()},
        "gradient": {name: each[1] for name, each in found.items()},
        "solved": {name: each[2] for name, each in found.items()},
    }


def _learn(way: Normalise, random: torch.Generator, starts: int, keys: int, steps: int) -> tuple[float, float, float]:
    """Train random queries to attend to key 0 by minimising ‖h − v₀‖²; return largest weight, gradient, success rate.

    Queries start pointing away from key 0, so that a method that never learns scores 0.
    """
    K = torch.eye(keys, dtype=torch.float64).expand(starts, keys, keys)
    V = K  # as far apart as possible, so that only the gradient decides
    Q = normal(random, starts, 1, keys)
    Q[..., 0] = Q.amin(-1) - 0.5
    hardness = gradient = 0.0
    for step in range(steps):
        Q.requires_grad_()
        _, A, H = attend(Q, K, V, beta=1.0, normalise=way)
        loss = (H[:, 0] - V[:, 0]).square().sum()
        (slope,) = torch.autograd.grad(loss, Q) if loss.requires_grad else (torch.zeros_like(Q),)
        if step == 0:
            hardness = float(A.detach().amax(-1).mean())
            gradient = float(slope.flatten(1).norm(dim=1).median())
        Q = Q.detach() - RATE * slope  # plain gradient descent, since Adam would rescale any gradient
    looks = hardargmax(Q)[..., 0]
    return hardness, gradient, float(looks.mean())


def judge(result: Result) -> tuple[Kind, str]:
    rates = result["solved"]
    soft = [name for name, hardness in result["hardness"].items() if hardness <= HARD]
    chance = result["chance"]
    useful = [name for name, rate in rates.items() if rate > chance + ERRORS * result["error"]]
    useless = [name for name, rate in rates.items() if rate <= chance]
    unclear = [name for name in rates if name not in useful + useless]
    groups = {f"above chance ({chance:.0%})": useful, "not above chance": useless, "not clearly above chance": unclear}
    shown = "; ".join(
        f"{what}: {', '.join(f'{name} {rates[name]:.0%}' for name in names)}" for what, names in groups.items() if names
    )
    if soft:
        return "fails", f"the mean largest weight is at most {HARD} with {', '.join(soft)}"
    if useful and useless:
        return "holds", f"fraction of the queries that learned to attend to the right key: {shown}"
    which = "no method is clearly better than chance" if not useful else "every method is better than chance"
    return "fails", f"{which}: {shown}"


def draw(result: Result) -> Figure:
    title = "learning through hard attention (dotted: chance)"
    return plots.bars(result["solved"], up="success rate", title=title, level=result["chance"])


CLAIM = Experiment(
    number=3,
    name="forms of hard attention",
    statement="Hard attention can be obtained with argmax, a very large β, Gumbel noise, or a straight-through "
    "estimator; only some of them provide a useful gradient.",
    formula="A = softargmax_{β→∞}(S + g), ∂A = ∂softargmax_1(S)",
    measured="For each method, how hard it is (the mean largest weight), the median gradient norm at the start, and "
    "the fraction of random queries that learn by gradient descent to attend to the right key.",
    rule=f"“holds” if all methods are hard (the mean largest weight is above {HARD}, so that one key outweighs all "
    f"others together), at least one learns (its success rate exceeds chance, 1/keys, by more than {ERRORS} standard "
    "errors) and at least one does not (its success rate does not exceed chance); otherwise “fails”.",
    falsified_by="A method whose mean largest weight is at most one half, or success rates that exceed chance for all "
    "methods or for none.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={
        "starts": "number of random queries to train",
        "steps": "gradient descent steps",
        "beta": "β of the softargmax with a large β and of the Gumbel-softargmax",
    },
    least={"starts": 10, "keys": 2, "beta": 1.0},  # 10: with fewer, no success rate exceeds chance by 3 standard errors
)
