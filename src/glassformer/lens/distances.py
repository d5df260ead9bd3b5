"""D_gh = mean_t d(A_gt, A_ht): distances between heads (Jensen-Shannon, earth mover's), and a map of the heads."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.transport import distance_1d, emd
from glassformer.errors import InputError, ShapeError
from glassformer.lens.paths import match
from glassformer.lens.trace import Run

Measure = Literal["js", "line", "grid"]


def entropy(A: Float[Tensor, "*b s"]) -> Float[Tensor, "*b"]:
    """−Σ_s A_s ln A_s: 0 for a row that attends to one key, ln s for one that attends to all s keys equally."""
    return torch.special.entr(A).sum(-1)


def jensen_shannon(A: Float[Tensor, "*b s"], B: Float[Tensor, "*b s"]) -> Float[Tensor, "*b"]:
    """H(½A + ½B) − ½H(A) − ½H(B): 0 for equal rows, ln 2 for rows that share no key. Its square root is a metric."""
    return (entropy((A + B) / 2) - (entropy(A) + entropy(B)) / 2).clamp_min(0)


def on_line(A: Float[Tensor, "*b s"], B: Float[Tensor, "*b s"]) -> Float[Tensor, "*b"]:
    """Earth mover's distance along the sequence, in positions."""
    return distance_1d(A, B)


def on_grid(A: Float[Tensor, "*b s"], B: Float[Tensor, "*b s"], grid: tuple[int, int]) -> Float[Tensor, "*b"]:
    """Earth mover's distance on the grid of patches, in patches: one linear programme per row.

    Patches are the last rows · cols positions; the weight on other positions (CLS) is dropped and the rest rescaled to
    sum to 1.
    """
    count = grid[0] * grid[1]
    if A.shape[-1] < count:
        raise ShapeError(f"{A.shape[-1]} positions are not a grid of {grid[0]} × {grid[1]}", "give the model's grid")
    C = grid_distances(grid)
    p, q = (part.double()[..., part.shape[-1] - count :].cpu() for part in (A, B))
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    pairs = zip(p.reshape(-1, count), q.reshape(-1, count), strict=True)
    return torch.tensor([emd(one, other, C).distance for one, other in pairs]).double().reshape(A.shape[:-1])


def grid_distances(grid: tuple[int, int]) -> Float[Tensor, "n n"]:
    """‖p_i − p_j‖ between the patches of a grid, in row-major order."""
    places = torch.cartesian_prod(*(torch.arange(size, dtype=torch.float64) for size in grid))
    return torch.cdist(places, places)


class HeadDistances(NamedTuple):
    """The name of each head (a path such as `encoder.3.attention`, and its index) and the distances D between them."""

    names: tuple[tuple[str, int], ...]
    D: Float[Tensor, "n n"]


def head_distances(
    run: Run,
    pattern: str = "*.attention.A",
    *,
    measure: Measure = "js",
    rows: slice | list[int] = slice(None),
    grid: tuple[int, int] | None = None,
) -> HeadDistances:
    """Compute D over all heads of all layers that match the pattern, averaged over inputs and query rows.

    "js" is the square root of the Jensen-Shannon divergence (a metric); "line" and "grid" are earth mover's distances.
    "grid" takes tens of milliseconds per pair of heads and query row on a 14 × 14 grid, so select the rows that matter
    (CLS: [0]).
    """
    names: list[tuple[str, int]] = []
    every: list[Tensor] = []
    shape: torch.Size | None = None
    for path in match((pattern,), run.paths):
        A = run.part(path, rows=rows).detach()
        shape = shape or A.shape
        if A.shape[2:] != shape[2:]:
            fact = f"weights of {path} are {tuple(A.shape[2:])}, those before {tuple(shape[2:])}"
            raise ShapeError(fact, "compare layers of one stack")
        names += [(path.rpartition(".")[0], head) for head in range(A.shape[1])]
        every.extend(A.transpose(0, 1).flatten(1, 2))  # each head: all rows of all inputs
    return HeadDistances(tuple(names), _pairs(torch.stack(every), measure, grid))


def _pairs(heads: Tensor, measure: Measure, grid: tuple[int, int] | None) -> Tensor:
    """Compute D from the rows (n, t, s) of all heads."""
    heads = heads.double()  # float32 rounds the divergence to 1e-7, whose square root is 3e-4
    heads = heads / heads.sum(-1, keepdim=True)
    if measure == "line":  # the area between cumulative sums: one L1 distance of long vectors per pair
        P = heads.cumsum(-1)[..., :-1].flatten(1)
        return torch.cdist(P, P, p=1) / heads.shape[1]
    if measure == "grid" and grid is None:
        raise InputError("the grid distance needs a grid", "give grid=(rows, cols), the model's config.grid")
    if measure not in ("js", "grid"):
        raise InputError(f"there is no distance {measure!r}", "choose js, line or grid")
    D = torch.zeros(len(heads), len(heads), dtype=torch.float64, device=heads.device)
    own = entropy(heads)
    for g in range(len(heads) - 1):  # one head against all later ones: never holds n² · t · s numbers
        one, others = heads[g], heads[g + 1 :]
        if measure == "grid" and grid is not None:
            apart = on_grid(one.expand_as(others), others, grid)
        else:  # jensen_shannon, with the entropy of each head computed once
            apart = (entropy((one + others) / 2) - (own[g] + own[g + 1 :]) / 2).clamp_min(0).sqrt()
        D[g, g + 1 :] = apart.mean(-1)
    return D + D.mT


class HeadMap(NamedTuple):
    """A layout for plotting: `order` places heads of one group together, `group` counts from 0, `xy` are coordinates.

    `kept` is the share of D² (doubly centred) that the two dimensions explain.
    """

    order: tuple[int, ...]
    group: tuple[int, ...]
    xy: Float[Tensor, "n 2"]
    kept: float


def head_map(D: Float[Tensor, "n n"], *, groups: int = 4) -> HeadMap:
    """Cluster a distance matrix by average linkage (SciPy, optimal leaf order) and embed it by classical scaling."""
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage  # imported here because it takes half a second
    from scipy.spatial.distance import squareform

    n = len(D)
    if D.shape != (n, n) or not torch.equal(D, D.mT) or bool((D.diagonal() != 0).any()):
        fact = f"D of shape {tuple(D.shape)} is not a distance matrix"
        raise ShapeError(fact, "make it symmetric, 0 on its diagonal")
    if n < 2 or groups < 1:
        raise InputError(
            f"{n} heads in {groups} groups cannot be mapped", "give two heads or more, and at least one group"
        )
    tree = linkage(squareform(D.double().cpu().numpy()), "average", optimal_ordering=True)
    order = tuple(int(leaf) for leaf in leaves_list(tree))
    labels = [int(label) for label in fcluster(tree, min(groups, n), "maxclust")]
    ranks = {label: rank for rank, label in enumerate(dict.fromkeys(labels[leaf] for leaf in order))}
    xy, kept = classical_scaling(D)
    return HeadMap(order, tuple(ranks[label] for label in labels), xy, kept)


def classical_scaling(D: Float[Tensor, "n n"]) -> tuple[Float[Tensor, "n 2"], float]:
    """B = −½ C D² C = X Xᵀ, C = I − 1/n: X = U √λ for the two largest eigenvalues of B (Torgerson 1952)."""
    D2 = D.double().square()
    B = -0.5 * (D2 - D2.mean(0) - D2.mean(1, keepdim=True) + D2.mean())
    values, vectors = torch.linalg.eigh(B)
    top = values[-2:].flip(0).clamp_min(0)
    U = vectors[:, -2:].flip(1)
    U = U * U.gather(0, U.abs().argmax(0, keepdim=True)).sign()  # the sign of an eigenvector is arbitrary: fix it
    total = values.clamp_min(0).sum().item()
    return U * top.sqrt(), top.sum().item() / total if total > 0 else 1.0
