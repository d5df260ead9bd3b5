"""A_{t,t+δ} = w_δ: a band is a convolution in the interior; at borders its weights sum to 1, unlike the kernel's."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import conv1d

from glassformer.core import attend
from glassformer.core.masks import window
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, largest, normal, tensor
from glassformer.lens.construct import build, convolution

EXACT = 1e-9


def measure(seed: int, *, tokens: int = 10, beta: float = 60.0) -> Result:
    X = normal(generator(seed), 1, tokens, 1)
    kernels = {"[¼, ½, ¼]": [0.25, 0.5, 0.25], "⅓ each": [1 / 3, 1 / 3, 1 / 3]}
    errors = {}
    for name, kernel in kernels.items():
        made = build(convolution(kernel, edges="renormalised"), tokens, beta=beta)
        with torch.no_grad():
            errors[name] = _off(made(X)[0, :, 0], X, kernel)
    zero = torch.zeros(tokens, 1, dtype=torch.float64)
    mask = window(tokens, width=3, causal=False)
    errors["⅓ each, by a mask"] = _off(attend(zero, zero, X[0], mask=mask).H[:, 0], X, kernels["⅓ each"])
    return {
        "errors": errors,
        "inside": max(max(each[1:-1]) for each in errors.values()),
        "border": max(max(each[0], each[-1]) for each in errors.values()),
        "counterexample": _smallest(),
    }


def _off(O: Tensor, X: Tensor, kernel: list[float]) -> list[float]:
    """|O − convolution| at each position, with zero padding."""
    weights = torch.tensor(kernel, dtype=torch.float64)[None, None]
    return (O - conv1d(X.mT, weights, padding=1)[0, 0]).abs().tolist()


def _smallest() -> dict[str, object] | None:
    """Find the fewest tokens of value 1 for which a band of three is not their convolution with ⅓."""
    for n in range(1, 5):
        zero, ones = [[0]] * n, [[1]] * n
        band = [[int(abs(i - j) <= 1) for j in range(n)] for i in range(n)]
        H = attend(tensor(zero), tensor(zero), tensor(ones), mask=tensor(band).bool()).H[:, 0]
        if largest(H - conv1d(tensor(ones).mT[None], torch.full((1, 1, 3), 1 / 3).double(), padding=1)[0, 0]) > EXACT:
            text = (
                "Each token attends to itself and its neighbours. A convolution with ⅓ and zero padding gives less at "
                "the ends."
            )
            return exercise("A band at the border", text, (zero, zero, ones), mask=band)
    return None


def judge(result: Result) -> tuple[Kind, str]:
    inside, border = result["inside"], result["border"]
    if inside > EXACT:
        return "fails", f"even in the interior the error is {inside:.2g}"
    if border > EXACT:
        return "holds when", (
            f"the whole band is inside the sequence: there the error is {inside:.1g}. At the borders it is up to "
            f"{border:.2g}, since the weights of each row sum to 1 and the remaining part of the kernel does not"
        )
    return "holds", f"at the borders too, to {border:.1g}"


def draw(result: Result) -> Figure:
    lines = result["errors"]
    x = list(range(len(next(iter(lines.values())))))
    return plots.curves(x, lines, across="token", up="|O − convolution|", title="a banded A", log="y")


CLAIM = Experiment(
    number=19,
    name="a banded A",
    statement="A banded A, with weights such as [¼, ½, ¼] or [⅓, ⅓, ⅓], makes the layer a convolution with kernel "
    "size 3.",
    formula="A_{t,t+δ} = w_δ ⇒ O_t = Σ_δ w_δ X_{t+δ}",
    measured="The error at every token of a banded A, built from position encodings or from a mask over equal scores, "
    "against torch's convolution with zero padding.",
    rule=f"“fails” if the error exceeds {EXACT:g} in the interior; “holds when the whole band is inside the sequence” "
    "if it exceeds it at a border; otherwise “holds”.",
    falsified_by="An error in the interior of the sequence, or no error at its borders.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"beta": "scale β of the constructed band"},
    least={"tokens": 3},
)
