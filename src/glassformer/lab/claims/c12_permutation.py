"""f(P X) = P f(X): without positions self-attention is equivariant; only its pooled output is invariant."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.core import attend
from glassformer.core.positions import sinusoidal
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, integers, largest, normal, tensor
from glassformer.nn import MultiHeadAttention, heads, initialise

SAME = 1e-12


def measure(seed: int, *, tokens: int = 6, width: int = 8) -> Result:
    random = generator(seed)
    layer = MultiHeadAttention(heads(width, 2 if width % 2 == 0 else 1)).double()
    initialise(layer, seed)
    X = normal(random, 1, tokens, width)
    order = _moved(tokens, random)
    E = sinusoidal(tokens, width, dtype=torch.float64)
    with torch.no_grad():
        Y, Y_moved = layer(X), layer(X[:, order])
        Z, Z_moved = layer(X + E), layer(X[:, order] + E)
    return {
        "invariant": largest(Y_moved - Y),
        "equivariant": largest(Y_moved - Y[:, order]),
        "pooled": largest(Y_moved.mean(1) - Y.mean(1)),
        "pooled_with_positions": largest(Z_moved.mean(1) - Z.mean(1)),
        "counterexample": _smallest(),
    }


def _moved(n: int, random: torch.Generator) -> torch.Tensor:
    """Return a random permutation other than the identity."""
    order = torch.randperm(n, generator=random)
    return order.roll(1) if torch.equal(order, torch.arange(n)) else order


def _smallest() -> dict[str, object] | None:
    """Find the smallest pair of tokens whose output differs when they are swapped."""
    for X in integers((2, 1), (0, 1, 2)):
        H, H_moved = (attend(*[tensor(rows)] * 3, beta=1.0).H for rows in (X, X[::-1]))
        if largest(H - H_moved) > SAME:
            text = "Self-attention: Q = K = V. Head 2 has the same tokens in reverse order. Is its output the same?"
            return exercise("Two tokens swapped", text, (X, X, X), (X[::-1], X[::-1], X[::-1]))
    return None


def judge(result: Result) -> tuple[Kind, str]:
    if result["pooled_with_positions"] <= SAME:
        return "fails", "the control failed: even with position encodings the mean output does not depend on the order"
    if result["invariant"] < SAME:
        return "holds", "the outputs do not change"
    if result["equivariant"] > SAME or result["pooled"] > SAME:
        moved, mean = result["equivariant"], result["pooled"]
        return "fails", f"the outputs are {moved:.2g} from the permuted outputs, and their mean changes by {mean:.2g}"
    return "holds when", (
        f"the outputs are pooled over the tokens (their mean changes by {result['pooled']:.1g}). Per token, "
        f"self-attention is equivariant: the outputs are permuted along with the tokens (to "
        f"{result['equivariant']:.1g}), so the output at a position changes by up to {result['invariant']:.2g}. With "
        f"sinusoidal position encodings even the mean changes, by {result['pooled_with_positions']:.2g}"
    )


def draw(result: Result) -> Figure:
    names = {"invariant": "|f(PX) − f(X)|", "equivariant": "|f(PX) − Pf(X)|", "pooled": "pooled"}
    values = {label: result[name] for name, label in names.items()}
    values["pooled, with positions"] = result["pooled_with_positions"]
    return plots.bars(values, up="largest change", title="permuted tokens", log=True)


CLAIM = Experiment(
    number=12,
    name="permuted tokens",
    statement="Without position encodings, self-attention is permutation invariant.",
    formula="f(P X) = f(X)",
    measured="The outputs of a self-attention layer for permuted tokens, compared with the original outputs and with "
    "the original outputs permuted in the same way; the change of their mean; and that of the mean with position "
    "encodings.",
    rule="“fails” if the mean does not change (by more than 10⁻¹²) even with position encodings, since the experiment "
    "then cannot detect the order; “holds” if the outputs do not change; “holds when the outputs are pooled over the "
    "tokens” if they are permuted along with the tokens and their mean does not change; otherwise “fails”.",
    falsified_by="Outputs that do not change, outputs that are not permuted along with the tokens, or a mean that "
    "does not change with position encodings.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"tokens": 2, "width": 2},
)
