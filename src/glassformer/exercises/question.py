"""The question of an exercise: its text, and the conventions needed to solve it from what is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from glassformer.exercises.exercise import Exercise, LayerNorm, Transport
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Exact
from glassformer.exercises.plan import head_size, width_of_tokens
from glassformer.exercises.printers import text as printed


def question(exercise: Exercise, *, limit: bool = False) -> str:
    """Return the text of the exercise, followed by its conventions: layout, scale, mask, rounding and the like.

    `limit` is for attention in the limit β → ∞, whatever the exercise's own scale.
    """
    return " ".join([(exercise.text or "").strip(), *_conventions(exercise, limit)]).strip()


def _conventions(exercise: Exercise, limit: bool) -> Iterator[str]:
    if exercise.transport:
        yield _transport(exercise.transport)
    elif exercise.cost:
        seen = "M" if exercise.cost.window else "all N"
        yield "QKV are the projections to Q, K and V, O is that of the outputs H: all are D×D."
        yield f"Each token attends to {seen} tokens."
    elif exercise.patches and exercise.patches.image:
        yield "Patches are counted row by row, and each is flattened row by row."
    if exercise.all_heads or exercise.layernorm or exercise.ffn or exercise.positions != "none":
        yield f"Tokens are {exercise.layout}."
        yield from _positions(exercise)
        yield from _attention(exercise, limit) if exercise.all_heads else ()
        yield from _layer(exercise)
        yield "Round to four decimals."


def _positions(exercise: Exercise) -> Iterator[str]:
    if exercise.positions == "none":
        return
    before = "the embedded patches" if exercise.patches else "X₀"
    yield f"X is {before} plus the positions PE."
    if exercise.positions == "sinusoidal":
        yield "Token t has sin(t/10000^(2i/d)) as feature 2i of PE and the cosine as feature 2i + 1, counted from 0."


def _attention(exercise: Exercise, limit: bool) -> Iterator[str]:
    if exercise.memory:
        yield "Queries come from X, keys and values from the memory Y."
    yield "β is infinite: the largest scores of a query share all of its weight." if limit else _scale(exercise)
    if exercise.mask == "causal":
        yield "Mask: the score of a query for a later key is −∞."
    elif isinstance(exercise.mask, Matrix):
        yield _mask(exercise.mask.rows if exercise.rows else exercise.mask.T.rows)


def _scale(exercise: Exercise) -> str:
    sizes = {head_size(exercise, head, "Q")[1] for head in exercise.all_heads}
    widths = {"dk": sizes, "d": {width_of_tokens(exercise) or size for size in sizes}}
    if all(exercise.beta(dk, d) == 1 for dk in widths["dk"] for d in widths["d"]):
        return "Do not scale the scores."
    written_scale = str(exercise.scale).replace("d_k", "dk")
    used = [name for name in widths if re.search(rf"\b{name}\b", written_scale) and len(widths[name]) == 1]
    where = f" with {' and '.join(f'{name} = {min(widths[name])}' for name in used)}" if used else ""
    root = re.fullmatch(r"1/sqrt\((dk|d)\)", written_scale)
    scale = f"Scale the scores by β: divide them by √{root[1]}" if root else f"Scale the scores by β = {written_scale}"
    return f"{scale}{where}.".replace("dk", "d_k")


def _mask(rows: Sequence[Sequence[Exact]]) -> str:
    """Describe a mask whose rows belong to queries."""
    if len(set(rows)) == 1:
        hidden = [str(key) for key, allowed in enumerate(rows[0], 1) if allowed.is_zero()]
        if not hidden:
            return "The mask hides no key."
        keys = f"keys {', '.join(hidden[:-1])} and {hidden[-1]}" if len(hidden) > 1 else f"key {hidden[0]}"
        return f"Mask: the scores for {keys} are −∞."
    written = "; ".join("".join("·" if cell.is_zero() else "1" for cell in row) for row in rows)
    return f"Mask, one group for each query, 1 for each key that it may attend to: {written}. Other scores are −∞."


def _layer(exercise: Exercise) -> Iterator[str]:
    norm, ffn = exercise.layernorm, exercise.ffn
    added = ["X to O"] * bool(exercise.all_heads) + ["the input of the feed-forward network to its output"] * bool(ffn)
    if exercise.residual and added:
        yield f"Residual connections add {' and '.join(added)}."
    if norm:
        yield _layernorm(norm)
    if ffn:
        one, two = ("" if bias is None else f" and b{i}" for i, bias in ((1, ffn.b1), (2, ffn.b2)))
        after = " LayerNorm follows attention and the feed-forward network." if norm and exercise.all_heads else ""
        yield f"The feed-forward network applies W1{one}, ReLU, then W2{two}.{after}"


def _layernorm(norm: LayerNorm) -> str:
    eps = f", plus ε = {printed.text(norm.eps.expression)}" if norm.eps else ""
    affine = ", then multiplies by γ and adds β." if norm.gamma or norm.beta else ". There is no γ and no β."
    return (
        "LayerNorm subtracts the mean of each token and divides by the square root of its variance, "
        f"which is the mean of the squared deviations{eps}{affine}"
    )


def _transport(transport: Transport) -> str:
    places = transport.positions or tuple(Exact(i) for i in range(1, len(transport.p) + 1))
    listed = ", ".join(printed.text(place.expression) for place in places)
    return (
        f"The bins are at the positions {listed}. F and G are the running sums of p and q, and W_c is the area between "
        "them. T tells how much mass moves from each bin of p (row) to each bin of q (column), in order. "
        "The moves are numbered row by row of T, each is mass times distance, and W is their sum."
    )
