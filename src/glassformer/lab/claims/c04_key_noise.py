"""k_i + ε changes every h_j and all of A: what column i gains, the other columns lose, since each row sums to 1."""

from __future__ import annotations

from matplotlib.figure import Figure

from glassformer.core import attend
from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, integers, largest, normal, random_qkv, tensor
from glassformer.lens import Layer, move_key

NOTHING = 1e-12


def measure(seed: int, *, queries: int = 6, keys: int = 6, width: int = 4, sigma: float = 0.5) -> Result:
    random = generator(seed)
    Q, K, V = random_qkv(random, queries, keys, width)
    noise = sigma * normal(random, width)
    change = move_key(Layer(Q, K, V, width**-0.5), 0, noise)
    dA = change.measured_A
    return {
        "outputs": change.measured_H.abs().amax(-1).tolist(),
        "column": largest(dA[:, 0]),
        "others": largest(dA[:, 1:]),
        "least_other": float(dA[:, 1:].abs().amax(0).min()),
        "row_sums": largest(dA.sum(1)),
        "dA": dA.tolist(),
        "counterexample": _smallest(),
    }


def _smallest() -> dict[str, object] | None:
    """Find the smallest key that, shifted by 1, changes the weight of another key."""
    q, V = [[1]], [[1], [0]]
    for K in integers((2, 1), (0, 1, 2)):
        moved = [[K[0][0] + 1], K[1]]
        before, after = (attend(tensor(q), tensor(keys), tensor(V), beta=1.0).A for keys in (K, moved))
        if largest((after - before)[:, 1]) > NOTHING:
            text = "Head 2 is head 1 with 1 added to its first key only. What happens to the weight of the second key?"
            return exercise("One key changes, both weights change", text, (q, K, V), (q, moved, V))
    return None


def judge(result: Result) -> tuple[Kind, str]:
    least = min(result["outputs"])
    if least <= NOTHING:
        return "fails", "some output does not change"
    if result["others"] <= NOTHING:
        return "holds", f"every output changes, by at least {least:.2g}, and only column i of A does"
    which = "every column" if result["least_other"] > NOTHING else "more than column i"
    return "fails", (
        f"every output changes (by at least {least:.2g}), but so does {which} of A: columns other than i by up to "
        f"{result['others']:.2g}. {NOT_JUDGED}: column i changes by up to {result['column']:.2g}, and the changes in "
        f"a row sum to at most {result['row_sums']:.1g}"
    )


def draw(result: Result) -> Figure:
    return plots.maps({"change of A (row: query, column: key)": result["dA"]}, title="noise on the first key")


CLAIM = Experiment(
    number=4,
    name="noise on one key",
    statement="Noise on one key k_i changes every output h_j, but only column i of A: the weights on that key.",
    formula="k_i → k_i + ε, ΔA_{jl} = 0 for l ≠ i",
    measured="The change of every output and of every column of A (its rows are queries) when noise is added to one "
    "key.",
    rule="“fails” if some output does not change, or if a column of A other than i changes, by more than 10⁻¹²; "
    "otherwise “holds”.",
    falsified_by="Columns of A other than i that do not change, for example because the weights are normalised over "
    "the wrong axis.",
    measure=measure,
    judge=judge,
    draw=draw,
    least={"keys": 2},
)
