"""k_i + ε changes every h_j, and all of A: what row i gains, the others lose, since each column sums to 1."""

from __future__ import annotations

from matplotlib.figure import Figure

from glassformer.core import attend, attend_columns
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import exercise, generator, integers, largest, normal, random_qkv, tensor
from glassformer.lens import Layer, move_key

NOTHING = 1e-12


def measure(seed: int, *, queries: int = 6, keys: int = 6, width: int = 4, sigma: float = 0.5) -> Result:
    random = generator(seed)
    Q, K, V = random_qkv(random, queries, keys, width)
    noise = sigma * normal(random, width)
    change = move_key(Layer(Q, K, V, width**-0.5), 0, noise)
    columns = [attend_columns(Q.mT, k.mT, V.mT) for k in (K, _moved(K, noise))]
    dA = columns[1].A - columns[0].A
    return {
        "outputs": change.measured_H.abs().amax(-1).tolist(),
        "row": largest(dA[0]),
        "others": largest(dA[1:]),
        "least_other": float(dA[1:].abs().amax(1).min()),
        "columns": largest(dA.sum(0)),
        "dA": dA.tolist(),
        "counterexample": _smallest(),
    }


def _moved(K, noise):  # type: ignore[no-untyped-def]
    K = K.clone()
    K[0] += noise
    return K


def _smallest() -> dict[str, object] | None:
    """Find the smallest key that, shifted by 1, changes the weight of another key."""
    q, V = [[1]], [[1], [0]]
    for K in integers((2, 1), (0, 1, 2)):
        moved = [[K[0][0] + 1], K[1]]
        before, after = (attend(tensor(q), tensor(keys), tensor(V), beta=1.0).A for keys in (K, moved))
        if largest((after - before)[:, 1]) > NOTHING:
            text = "Head 2 is head 1 with 1 added to its first key alone. What happens to the weight of the second key?"
            return exercise("One key moves, both weights change", text, (q, K, V), (q, moved, V))
    return None


def judge(result: Result) -> tuple[Kind, str]:
    least = min(result["outputs"])
    if least <= NOTHING:
        return "fails", "some output does not change at all"
    if result["others"] <= NOTHING:
        return "holds", f"every output changes by at least {least:.2g}, and of A row i alone"
    which = "every row" if result["least_other"] > NOTHING else "more than row i"
    sums = f"; the changes of each column sum to 0 (to {result['columns']:.1g})" if result["columns"] < NOTHING else ""
    return "fails", (
        f"every output changes (by at least {least:.2g}), but so does {which} of A: row i by up to "
        f"{result['row']:.2g}, the others by up to {result['others']:.2g}{sums}"
    )


def draw(result: Result) -> Figure:
    return plots.maps({"change of A (row: key, column: query)": result["dA"]}, title="noise on the first key")


CLAIM = Experiment(
    number=4,
    name="noise on one key",
    statement="Noise on one key k_i changes every output h_j; of A it changes row i, and no other.",
    formula="k_i → k_i + ε, ΔA_{jl} = 0 for l ≠ i",
    measured="The change of every output and of every row of A (tokens as columns) when one key moves.",
    rule="fails if some output stays, or if a row of A other than i changes (by more than 10⁻¹²); else holds.",
    falsified_by="An output that does not change, or no change in any other row of A: for example weights normalised "
    "over the wrong axis.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={
        "queries": "number of queries",
        "keys": "number of keys",
        "width": "width (d)",
        "sigma": "standard deviation of the noise",
    },
    least={"keys": 2},
)
