"""O_i = x_{π(i)}: a head whose query i attends to position π(i), for which it needs position encodings."""

from __future__ import annotations

from itertools import permutations

import torch
from matplotlib.figure import Figure

from glassformer.core import attend
from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, integers, largest, normal, tensor
from glassformer.lens import edit
from glassformer.lens.construct import Constructed, build, permutation

BETAS = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
EXACT = 1e-9


def measure(seed: int, *, tokens: int = 4, many: int = 16) -> Result:
    random = generator(seed)
    every = [[i + 1 for i in order] for order in permutations(range(min(tokens, 5)))]
    long = [(torch.randperm(many, generator=random) + 1).tolist() for _ in range(4)]
    worst, needed = [0.0] * len(BETAS), 0.0
    for order in every + long:
        made = build(permutation(order, channels=2), len(order))
        X = normal(random, 1, len(order), 2)
        worst = [max(old, new) for old, new in zip(worst, _errors(made, X), strict=True)]
        needed = max(needed, made.beta_for(1e-6, largest(X)))
    blind = build(permutation([*range(2, many + 1), 1], channels=2), many)
    blind.E.zero_()  # the same layer, without position information
    X = normal(random, 1, many, 2)
    return {
        "orders": len(every) + len(long),
        "betas": BETAS,
        "error": worst,
        "blind": min(_errors(blind, X)),
        "needed": needed,
        "counterexample": _smallest(),
    }


def _errors(made: Constructed, X: torch.Tensor) -> list[float]:
    errors = []
    for beta in BETAS:
        with edit(made, "attention.beta", beta), torch.no_grad():
            errors.append(largest(made(X) - made.target(X)))
    return errors


def _smallest() -> dict[str, object] | None:
    """Find the smallest triple of tokens that a rotation distinguishes but attention without positions does not."""
    for X in integers((3, 1), (0, 1)):
        rotated = [X[2], X[0], X[1]]
        H = attend(*[tensor(X)] * 3, beta=1.0).H
        alike = [(i, j) for i in range(3) for j in range(i) if X[i] == X[j] and rotated[i] != rotated[j]]
        if alike and all(torch.equal(H[i], H[j]) for i, j in alike):
            text = (
                "Two tokens are equal, so their outputs are equal for any weights. The rotation 3, 1, 2 would need "
                "different outputs."
            )
            return exercise("A rotation without positions", text, (X, X, X))
    return None


def judge(result: Result) -> tuple[Kind, str]:
    last = result["error"][-1]
    if last > EXACT:
        return "fails", f"the error of some permutation is {last:.2g} at β = {BETAS[-1]:g}"
    conditions = [
        *(["the tokens carry their positions"] if result["blind"] > EXACT else []),
        *(["β is large"] if result["error"][0] > EXACT else []),
    ]
    found = (
        f"all {result['orders']} permutations tried are exact to {last:.1g} at β = {BETAS[-1]:g}, with an error of "
        f"{result['error'][0]:.2g} at β = {BETAS[0]:g}. Without position encodings the error of a layer is at least "
        f"{result['blind']:.2g}. {NOT_JUDGED}: the error is bounded by 10⁻⁶ for β ≥ {result['needed']:.3g}"
    )
    return ("holds when", f"{' and '.join(conditions)}: {found}") if conditions else ("holds", found)


def draw(result: Result) -> Figure:
    lines = {"with positions": result["error"]}
    levels = {"without positions": result["blind"]}
    return plots.curves(
        result["betas"], lines, across="β", up="|O − target|", title="permutations", log="xy", levels=levels
    )


CLAIM = Experiment(
    number=17,
    name="any permutation",
    statement="Any permutation of the tokens can be implemented by a self-attention layer.",
    formula="O_i = X_{π(i)}",
    measured="The error of layers constructed for every permutation of a few tokens and for some permutations of "
    "many, as β grows; and that of one layer without its position encodings.",
    rule=f"“fails” if a layer's error exceeds {EXACT:g} at β = {BETAS[-1]:g}; “holds when the tokens carry their "
    "positions” if the error of the layer without position encodings exceeds it at every β, and “when β is large” if "
    f"some error exceeds it at β = {BETAS[0]:g}; otherwise "
    "“holds”.",
    falsified_by="A permutation that the constructed layer does not produce, a layer without position "
    "encodings that produces one, or small errors already at the smallest β.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={
        "tokens": "number of tokens of which every permutation is tried (at most 5)",
        "many": "number of tokens in the random permutations",
    },
    least={"tokens": 2, "many": 3},
)
