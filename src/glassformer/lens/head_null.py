"""score = mean over queries t of Σ_s A_ts d_ts, and its null: the same weights randomly permuted over the allowed keys.

With n allowed keys, weights a, and d̄ the mean of d over those keys, a randomly permuted row has exactly
    E = Σa · d̄,    Var = Σ(a − ā)² Σ(d − d̄)² / (n − 1)
(Hoeffding, "A combinatorial central limit theorem", 1951). For d = 1 on k target keys this gives E = k/n, the score of
uniform attention, and Var = Σ(a − ā)² k(n − k) / (n(n − 1)): a sharp head may deviate far by chance, a flat one cannot.
Rows are permuted independently. All sums are accumulated as inputs are streamed; no A is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.errors import ShapeError


class Score(NamedTuple):
    """A mean over `rows` queries, with its mean and standard deviation under the null."""

    value: float
    null: float
    sd: float
    rows: int

    @property
    def excess(self) -> float:
        """(value − null) / (1 − null): 0 for random attention, 1 for a head that does only this."""
        return (self.value - self.null) / (1 - self.null) if self.null < 1 else 0.0

    @property
    def z(self) -> float:
        return (self.value - self.null) / self.sd if self.sd > 0 else 0.0


class RowStatistics(NamedTuple):
    """The score of each row (b, h, t), its mean and variance under the null, and which rows count."""

    value: Tensor
    null: Tensor
    variance: Tensor
    use: Tensor


class AttentionRows:
    """Query rows of a layer's A (b, h, t, s), their allowed keys (b, h or 1, t, s), and the query positions."""

    def __init__(self, A: Tensor, allowed: Tensor, where: Tensor, real: Tensor | None = None) -> None:
        self.A, self.allowed, self.where = A, allowed, where
        self.n = allowed.sum(-1)
        self.total = A.sum(-1).double()
        self.square = A.square().sum(-1).double()
        self.spread = (self.square - self.total.square() / self.n).clamp_min(0)  # Σ(a − ā)²
        some = self.n >= 2  # a row with a single allowed key carries no information
        self.use = some if real is None else some & real[:, None, :]

    def at(self, keys: Tensor) -> RowStatistics:
        """Score the weight on one key per query; `keys` (b or 1, t) is −1 where a query has none."""
        mass, k = self.gather(keys)
        return self.mass(mass, k)

    def gather(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        index = keys.clamp_min(0)[:, None, :, None]
        seen, mass = (x.gather(-1, index.expand(*x.shape[:3], 1)).squeeze(-1) for x in (self.allowed, self.A))
        k = seen & (keys >= 0)[:, None, :]
        return mass.double() * k, k

    def within(self, targets: Tensor) -> RowStatistics:
        """Score the weight on a set of keys (b or 1, t, s) per query."""
        chosen = targets[:, None] & self.allowed
        return self.mass(self.A.masked_fill(~chosen, 0).sum(-1).double(), chosen.sum(-1))

    def mass(self, mass: Tensor, k: Tensor) -> RowStatistics:
        """Score the weight on k target keys. Rows in which all or none of the allowed keys are targets do not count."""
        k, n = k.double(), self.n.double()
        variance = self.spread * k * (n - k) / (n * (n - 1).clamp_min(1))
        return RowStatistics(mass, self.total * k / n, variance, self.use & (k > 0) & (k < n))

    def entropy(self) -> RowStatistics:
        """−Σ a log a / log n. The null is attention drawn uniformly from the simplex, Dirichlet(1, …, 1):

        E = (ψ(n+1) − ψ(2)) / log n, Var = (2/(n+1) ψ′(2) − ψ′(n+1)) / log² n (Wolpert, Wolf 1995).
        """
        n = self.n.double()
        log = n.log().clamp_min(1e-300)
        two = torch.tensor(2.0, dtype=torch.float64, device=n.device)
        null = (torch.digamma(n + 1) - torch.digamma(two)) / log
        variance = (2 / (n + 1) * torch.polygamma(1, two) - torch.polygamma(1, n + 1)).clamp_min(0) / log.square()
        return RowStatistics(torch.special.entr(self.A).sum(-1).double() / log, null, variance, self.use)

    def mean_of(self, d: Tensor, among: Tensor) -> RowStatistics:
        """Σ a d / Σ a over a subset of the keys (t, s). For distances d, this is the mean attention distance."""
        chosen = self.allowed & among
        n = chosen.sum(-1).double()
        a = self.A.double().masked_fill(~chosen, 0)
        total = a.sum(-1, keepdim=True)
        a = a / total.clamp_min(1e-300)
        mean = (d * chosen).sum(-1) / n.clamp_min(1)
        spread_d = ((d - mean[..., None]).square() * chosen).sum(-1)
        spread_a = (a.square().sum(-1) - 1 / n.clamp_min(1)).clamp_min(0)
        variance = spread_a * spread_d / (n - 1).clamp_min(1)
        return RowStatistics((a * d).sum(-1), mean, variance, self.use & (n >= 2) & (total.squeeze(-1) > 0))


def _per_head(x: Tensor, use: Tensor) -> Tensor:
    return torch.where(use, x, 0).sum((0, 2)).double().cpu()  # rows that do not count may hold NaN


class Tally:
    """Accumulates one score of every head over rows."""

    def __init__(self) -> None:
        self._sums: Tensor | None = None

    def add(self, found: RowStatistics) -> None:
        value, null, variance, use = torch.broadcast_tensors(*found)
        sums = torch.stack([_per_head(x, use) for x in (value, null, variance, torch.ones_like(value))])
        self._sums = sums if self._sums is None else self._sums + same_heads(self._sums, sums)

    def scores(self) -> list[Score | None]:
        """Return one score per head; None where no row counted."""
        if self._sums is None:
            return []
        made: list[Score | None] = []
        for value, null, variance, rows in self._sums.T.tolist():
            made.append(Score(value / rows, null / rows, math.sqrt(variance) / rows, round(rows)) if rows else None)
        return made


class Profile:
    """c(δ) = mean of A_ts over pairs with s − t = δ: the kernel of the convolution nearest to the head.

    It explains 1 − Σ(A − c)² / Σ(A − 1/n)² of the deviation of A from uniform attention, with c = 0 outside the window.
    """

    def __init__(self, offsets: Sequence[object]) -> None:
        self.offsets = list(offsets)
        self._sums: list[Tensor | None] = [None] * len(self.offsets)  # Σa, count, Σ1/n, Σ variance of one entry
        self._all: Tensor | None = None  # ΣA², Σ1/n over whole rows

    def begin(self, rows: AttentionRows) -> None:
        sums = torch.stack([_per_head(rows.square, rows.use), _per_head(rows.total.square() / rows.n, rows.use)])
        self._all = sums if self._all is None else self._all + same_heads(self._all, sums)

    def add(self, i: int, rows: AttentionRows, mass: Tensor, k: Tensor) -> None:
        use = rows.use & k
        each = (mass, torch.ones_like(mass), rows.total / rows.n, rows.spread / rows.n)
        sums = torch.stack([_per_head(x, use) for x in each])
        old = self._sums[i]
        self._sums[i] = sums if old is None else old + sums

    def kernel(self, head: int) -> dict[object, float]:
        """Return the mean weight by offset, for offsets that occur."""
        found = {}
        for offset, sums in zip(self.offsets, self._sums, strict=True):
            if sums is not None and sums[1, head] > 0:
                found[offset] = float(sums[0, head] / sums[1, head])
        return found

    def explained(self, head: int, window: Sequence[object]) -> Score | None:
        """Return the share of the deviation from uniform attention that the kernel within `window` explains.

        Null: randomly permuted rows; S² has mean μ² + v and, S being nearly normal, variance 4μ²v + 2v².
        """
        if self._all is None:
            return None
        square, base = self._all[:, head].tolist()
        chosen = [s[:, head] for o, s in zip(self.offsets, self._sums, strict=True) if o in window and s is not None]
        entries = [tuple(s.tolist()) for s in chosen if s[1] > 0]
        apart = square - base
        if not entries or apart <= 1e-6 * square:  # uniform attention: nothing to explain
            return None
        value = 1 - (square - sum(S * S / N for S, N, _, _ in entries)) / apart
        null = 1 - (square - sum((mu * mu + v) / N for _, N, mu, v in entries)) / apart
        sd = math.sqrt(sum((4 * mu * mu * v + 2 * v * v) / N**2 for _, N, mu, v in entries)) / apart
        return Score(value, null, sd, round(max(N for _, N, _, _ in entries)))


def same_heads(old: Tensor, new: Tensor) -> Tensor:
    if old.shape != new.shape:
        raise ShapeError(
            f"a layer had {old.shape[1]} heads and now {new.shape[1]}", "score the heads of one model at a time"
        )
    return new
