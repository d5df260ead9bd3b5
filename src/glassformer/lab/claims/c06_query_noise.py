"""q_i + ε changes h_i only; x_i + ε changes every output, since a token is query, key and value at once."""

from __future__ import annotations

from matplotlib.figure import Figure
from torch import Tensor

from glassformer.core import attend
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, integers, largest, normal, tensor
from glassformer.nn import MultiHeadAttention, heads, initialise

NOTHING = 1e-12


def measure(seed: int, *, tokens: int = 6, width: int = 4, sigma: float = 0.5) -> Result:
    random = generator(seed)
    Q, K, V = (normal(random, tokens, width) for _ in range(3))
    layer = MultiHeadAttention(heads(width, 1)).double()
    initialise(layer, seed)
    X, noise = normal(random, 1, tokens, width), sigma * normal(random, width)
    apart = (attend(_noisy(Q, noise), K, V).H - attend(Q, K, V).H).abs().amax(-1)
    itself = (layer(_noisy(X, noise)) - layer(X)).detach()[0].abs().amax(-1)
    return {"apart": apart.tolist(), "itself": itself.tolist(), "counterexample": _smallest()}


def _noisy(X: Tensor, noise: Tensor) -> Tensor:
    """Return X with noise added to the first token."""
    X = X.clone()
    X[..., 0, :] += noise
    return X


def _smallest() -> dict[str, object] | None:
    """Find the smallest pair of tokens for which adding 1 to the first changes the second's output."""
    for X in integers((2, 1), (0, 1, 2)):
        moved = [[X[0][0] + 1], X[1]]
        before, after = (attend(*[tensor(rows)] * 3, beta=1.0).H for rows in (X, moved))
        if largest((after - before)[1]) > NOTHING:
            text = "Self-attention: Q = K = V. Head 2 adds 1 to the first token. Does the second row of H change?"
            return exercise("A token is query, key and value", text, (X, X, X), (moved, moved, moved))
    return None


def judge(result: Result) -> tuple[Kind, str]:
    apart, itself = result["apart"], result["itself"]
    if apart[0] <= NOTHING or max(apart[1:]) > NOTHING:
        return "fails", f"h_i changes by {apart[0]:.2g}, and the other outputs by up to {max(apart[1:]):.2g}"
    if max(itself[1:]) > NOTHING:
        return "holds when", (
            f"only the query changes: with fixed keys and values the other outputs change by at most "
            f"{max(apart[1:]):.1g}. In self-attention a token is query, key and value at once, and the other outputs "
            f"change by up to {max(itself[1:]):.2g}"
        )
    return "holds", "in self-attention too"


def draw(result: Result) -> Figure:
    lines = {"query only": result["apart"], "self-attention": result["itself"]}
    x = list(range(len(result["apart"])))
    return plots.curves(x, lines, across="output j", up="|Δh_j|", title="noise on the first query or token")


CLAIM = Experiment(
    number=6,
    name="noise on one query",
    statement="Noise on one query q_i changes the output h_i and no other.",
    formula="q_i → q_i + ε, Δh_j = 0 for j ≠ i",
    measured="The change of every output when noise is added to one query, and when it is added to one token of a "
    "self-attention layer.",
    rule="“fails” if h_i does not change or another output does, by more than 10⁻¹²; “holds when only the query "
    "changes” if other outputs change in self-attention; otherwise “holds”.",
    falsified_by="Another output that changes when one query does, or a self-attention layer in which no other output "
    "changes.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"tokens": 2},
)
