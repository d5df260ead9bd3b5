"""A = softargmax(β q·Kᵀ): one row of a model's head as an exercise that can be solved by hand.

The keys with the largest weights are kept and all others are merged into one; the coordinates with the largest
|q_c k_c| are kept and the rest of each score becomes one more coordinate, with q = 1. No weight changes:

    β q·k_s + bias_s = β (Σ_kept q_c k_sc + 1 · r_s),    r_s = (S_s / β) − Σ_kept q_c k_sc,
    Σ_others exp(S_s) = exp(β r),                        r = logsumexp_others(S) / β, its value Σ A_s v_s / Σ A_s.

Numbers are rounded to as few decimals as keep the weights within `TOLERANCE`; r is computed after q and k are rounded,
so that their rounding errors cancel. The exercise shows the same two decimals as the head does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.core import scores, softargmax
from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.lens.sensitivity import layer_at
from glassformer.lens.trace import Run

TOLERANCE = 1e-4  # on every weight
MOST = 32  # the largest number of keys, or of coordinates, of an exercise
DECIMALS = range(3, 13)


class PaperRow(NamedTuple):
    """An exercise, and the keys and coordinates of the model that its rows and columns stand for."""

    exercise: Exercise
    keys: tuple[int, ...]
    """The keys that are kept, in order of decreasing weight."""
    others: int
    """The number of keys that the last row of K stands for; 0 if there is no such row."""
    coordinates: tuple[int, ...]
    """The coordinates of queries and keys that are kept; one more column has the rest of each score."""
    value_coordinates: tuple[int, ...]
    weights: tuple[float, ...]
    """The head's own weights of these rows; the solution of the exercise equals them within `TOLERANCE`."""


def on_paper(
    trace: Run,
    path: str,
    head: int,
    query: int,
    keys: int = 5,
    coordinates: int = 2,
    *,
    batch: int = 0,
    tokens: Sequence[str] | None = None,
) -> Exercise:
    """Convert one query of one head to an exercise: `on_paper(run, "decoder.0.attention", 2, 7)`.

    The run must have traced A and V.
    """
    return paper_row(trace, path, head, query, keys, coordinates, batch=batch, tokens=tokens).exercise


@torch.no_grad()
def paper_row(
    trace: Run,
    path: str,
    head: int,
    query: int,
    keys: int = 5,
    coordinates: int = 2,
    *,
    batch: int = 0,
    tokens: Sequence[str] | None = None,
) -> PaperRow:
    """Return the exercise with the keys and coordinates that it keeps. `tokens` names the keys in its text."""
    path = path.removesuffix(".A")
    for name, count in (("keys", keys), ("coordinates", coordinates)):
        if not 1 <= count <= MOST:
            raise InputError(f"{name} is {count}", f"choose from 1 to {MOST}")
    if f"{path}.V" not in trace and f"{path}.A" in trace:
        raise InputError(f"the run has no values of {path}", f'trace "{path}.V" too')
    layer = layer_at(trace, path).head(batch, head)
    t = layer.Q.shape[0]
    if not -t <= query < t:
        raise InputError(f"there is no query {query}", f"choose one from 0 to {t - 1}")
    if layer.beta == 0:
        raise InputError("β is 0, so queries and keys have no effect", "choose a layer whose β is not 0")
    query %= t
    row = layer.rows([query])
    bias = None if row.bias is None else row.bias.double()
    q, K, V = row.Q[0].double(), row.K.double(), row.V.double()
    S = scores(q[None], K, beta=layer.beta, mask=row.mask, bias=bias)[0]
    A = softargmax(S)
    chosen, rest = _split(S, A, keys)
    kept = _largest((q * K[chosen]).abs().amax(0), coordinates)
    shown = _largest((A @ V).abs(), coordinates)
    weights, values = A[chosen], V[chosen][:, shown]
    sums = S[chosen] / layer.beta
    if len(rest):
        weights = torch.cat([weights, A[rest].sum()[None]])
        share = torch.softmax(S[rest], 0)
        values = torch.cat([values, (share @ V[rest][:, shown])[None]])
        sums = torch.cat([sums, S[rest].logsumexp(0)[None] / layer.beta])
    near = torch.cat([K[chosen][:, kept], K.new_zeros(min(1, len(rest)), len(kept))])
    data = _rounded(q[kept], near, sums, values, weights, layer.beta)
    width = layer.Q.shape[1]
    plain = math.isclose(layer.beta, 1 / math.sqrt(width), rel_tol=1e-12)
    names = [_name(s, tokens) for s in chosen.tolist()]
    exercise = from_data(
        {
            **data,
            "title": f"{path}, head {head}, query {query}"[:200],
            "text": _text(_name(query, tokens if t == len(K) else None), names, len(rest), kept, plain, width)[:4000],
            "scale": f"1/sqrt({width})" if plain else repr(layer.beta),
        }
    )
    return PaperRow(exercise, tuple(chosen.tolist()), len(rest), tuple(kept), tuple(shown), tuple(weights.tolist()))


def _split(S: Tensor, A: Tensor, keys: int) -> tuple[Tensor, Tensor]:
    """Split the unmasked keys into those with the largest weights and all others."""
    allowed = (~torch.isneginf(S)).nonzero().flatten()
    order = allowed[A[allowed].argsort(descending=True, stable=True)]
    return (order, order[:0]) if len(order) <= keys + 1 else (order[:keys], order[keys:])


def _largest(size: Tensor, count: int) -> list[int]:
    return sorted(size.argsort(descending=True, stable=True)[:count].tolist())


def _rounded(q: Tensor, K: Tensor, sums: Tensor, V: Tensor, weights: Tensor, beta: float) -> dict[str, Any]:
    """Write Q, K and V with the fewest decimals that keep every weight within the tolerance.

    A page shows these numbers and those of the head with two decimals, weights with three. More decimals are kept where
    rounding twice, first here and then on the page, would show a different number from the head's.
    """
    output = weights @ V
    possible: list[tuple[list[str], list[list[str]], list[str], list[list[str]]]] = []
    for decimals in DECIMALS:
        near, far, values = (_written(x, decimals) for x in (q, K, V))
        products = _numbers(far) @ _numbers(near)
        for digits in range(decimals, DECIMALS.stop):
            rest = _written(sums - products, digits)
            scored = products + _numbers(rest)
            solved = softargmax(beta * scored)
            if (solved - weights).abs().max() > TOLERANCE / 2:
                continue
            possible.append((near, far, rest, values))
            shown = ((scored, sums, 2), (beta * scored, beta * sums, 2), (solved, weights, 3))
            if all(_looks_alike(*each) for each in (*shown, (solved @ _numbers(values), output, 2))):
                return _exercise_data(*possible[-1])
    return _exercise_data(*possible[0])  # a number of the head is halfway between two decimals


def _exercise_data(near: list[str], far: list[list[str]], rest: list[str], values: list[list[str]]) -> dict[str, Any]:
    return {"Q": [[*near, "1"]], "K": [[*row, r] for row, r in zip(far, rest, strict=True)], "V": values}


def _written(x: Tensor, decimals: int) -> Any:
    """Format the numbers of a tensor with this many decimals.

    A text such as 0.125 gets more decimals, so that rounding it to two decimals gives the same as rounding the number.
    """
    if x.dim():
        return [_written(each, decimals) for each in x]
    text = ""
    for digits in range(decimals, DECIMALS.stop):
        text = f"{x.item():.{digits}f}".rstrip("0").rstrip(".")
        if text[-4:-3] != "." or text[-1] != "5":
            break
    return "0" if text == "-0" else text


def _numbers(texts: list[Any]) -> Tensor:
    numbers = [[float(x) for x in row] if isinstance(row, list) else float(row) for row in texts]
    return torch.tensor(numbers, dtype=torch.float64)


def _looks_alike(a: Tensor, b: Tensor, decimals: int) -> bool:
    """Return whether both tensors round to the same numbers with this many decimals, and no number of `a` is a tie."""
    shown = lambda x: [round(each, decimals) for each in x.flatten().tolist()]
    return shown(a - 1e-9) == shown(a + 1e-9) == shown(b)


def _name(s: int, tokens: Sequence[str] | None) -> str:
    return f"{s}" if tokens is None or s >= len(tokens) else f"{tokens[s]!r} ({s})"


def _text(query: str, names: list[str], others: int, kept: list[int], plain: bool, width: int) -> str:
    """Return the text of the exercise, which explains its rows and columns."""
    more = f"; the last row stands for the {others} other keys together" if others else ""
    columns = ", ".join(map(str, kept))
    scale = f" The head is {width} wide, so β = 1/√{width}." if plain else ""
    return (
        f"A row of a real attention head: query {query} attends to keys {', '.join(names)}{more}. The first columns of "
        f"Q and K are coordinates {columns} of the head; the last one has the rest of each score.{scale}"
    )
