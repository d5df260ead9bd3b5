"""An exercise: tokens, matrices and the operations on them, read from YAML.

Row layout: tokens are the rows of X, Q = X·WQ, S = Q·Kᵀ, softargmax by row, H = A·V. Column layout: tokens are the
columns of X, Q = WQ·X, S = Kᵀ·Q, softargmax by column, H = V·A. Matrices are entered as they appear on paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from glassformer.errors import GlassError, InputError, MaskError, ShapeError
from glassformer.exercises.arithmetic import EXACT
from glassformer.exercises.evaluation import evaluate_expression
from glassformer.exercises.expression import parse, shorten
from glassformer.exercises.fields import (
    MAX_SIDE,
    Count,
    ExactMatrix,
    ExactNumber,
    ExactVector,
    Strict,
    nothing,
    switch,
)
from glassformer.exercises.matrix import Matrix, size
from glassformer.exercises.numbers import Exact
from glassformer.exercises.safe_yaml import load_yaml, read_text


class Head(Strict):
    """An attention head: projections with optional biases, or Q, K and V themselves."""

    WQ: ExactMatrix | None = None
    WK: ExactMatrix | None = None
    WV: ExactMatrix | None = None
    bQ: ExactVector | None = None
    bK: ExactVector | None = None
    bV: ExactVector | None = None
    Q: ExactMatrix | None = None
    K: ExactMatrix | None = None
    V: ExactMatrix | None = None


class LayerNorm(Strict):
    """γ (x − μ)/√(σ² + ε) + β; on paper ε is 0 unless specified."""

    gamma: ExactVector | None = None
    beta: ExactVector | None = None
    eps: ExactNumber = Field(default_factory=Exact)


class FeedForward(Strict):
    """relu(X·W1 + b1)·W2 + b2"""

    W1: ExactMatrix
    b1: ExactVector | None = None
    W2: ExactMatrix
    b2: ExactVector | None = None


class Patches(Strict):
    """Square patches of side `size`, flattened by row, embedded by W. Height and width alone give the patch count."""

    size: Count
    image: ExactMatrix | None = None
    height: Count | None = None
    width: Count | None = None
    W: ExactMatrix | None = None


class Transport(Strict):
    """The earth mover's distance between the histograms p and q over the same positions (1, 2, … by default)."""

    p: ExactVector
    q: ExactVector
    positions: ExactVector | None = None


class Cost(Strict):
    """4ND² + 2N²D: multiplications of one layer on N tokens of width D; 4ND² + 2MND with windows of M tokens."""

    N: Count
    D: Count
    window: Count | None = None


class Exercise(Strict):
    """One exercise, as defined in its file."""

    title: str = Field(default="Exercise", max_length=200)
    text: str | None = Field(default=None, max_length=4000, description="the question in words")
    labels: tuple[Annotated[str, Field(max_length=40)], ...] = Field(
        default=(), max_length=64, description="what the tokens are called, in their order"
    )
    layout: Literal["rows", "columns"] = "rows"
    X: ExactMatrix | None = None
    Q: ExactMatrix | None = None
    K: ExactMatrix | None = None
    V: ExactMatrix | None = None
    heads: tuple[Head, ...] = Field(default=(), max_length=16)
    WO: ExactMatrix | None = None
    bO: ExactVector | None = None
    scale: Annotated[str | int | float, nothing] = Field(
        default="1/sqrt(dk)", description="none, or a number or expression in dk (head width) and d (model width)"
    )
    mask: Annotated[Literal["none", "causal"] | ExactMatrix, nothing] = "none"
    positions: Annotated[Literal["none", "sinusoidal"] | ExactMatrix, nothing] = "none"
    memory: ExactMatrix | None = None
    residual: bool = False
    layernorm: Annotated[LayerNorm | None, switch] = None
    ffn: FeedForward | None = None
    patches: Patches | None = None
    transport: Transport | None = None
    cost: Cost | None = None

    @model_validator(mode="after")
    def _fits(self) -> Exercise:
        _check_shapes(self)
        return self

    @property
    def kind(self) -> Literal["attention", "tokens", "patches", "transport", "cost"]:
        """The kind of exercise; `tokens` is LayerNorm, feed-forward or positions without attention."""
        if self.transport:
            return "transport"
        if self.cost:
            return "cost"
        if self.all_heads:
            return "attention"
        return "patches" if self.patches and not (self.layernorm or self.ffn) else "tokens"

    @property
    def all_heads(self) -> tuple[Head, ...]:
        """All heads; a top-level Q, K, V counts as the only one."""
        return (Head(Q=self.Q, K=self.K, V=self.V),) if self.Q or self.K or self.V else self.heads

    @property
    def rows(self) -> bool:
        return self.layout == "rows"

    def tokens(self, matrix: Matrix[Any]) -> tuple[int, int]:
        """Return (tokens, width) of a matrix of tokens in this layout."""
        return matrix.shape if self.rows else (matrix.shape[1], matrix.shape[0])

    def beta(self, dk: int, d: int) -> Exact:
        """Return the scale β of the scores, for heads of width dk in a model of width d."""
        if self.scale == "none":
            return Exact(1)
        names = {"dk": Exact(dk), "d_k": Exact(dk), "d": Exact(d), "D": Exact(d)}
        result: Exact = evaluate_expression(parse(str(self.scale)), EXACT, names)
        return result

    def allowed(self, queries: int, keys: int) -> tuple[tuple[bool, ...], ...] | None:
        """Return the mask M in the orientation of S in this layout, True = may attend; None without a mask."""
        if isinstance(self.mask, Matrix):
            return tuple(tuple(not cell.is_zero() for cell in row) for row in self.mask)
        if self.mask == "none":
            return None
        seen = Matrix.of([j <= i for j in range(keys)] for i in range(queries))
        return (seen if self.rows else seen.T).rows


def load_exercise(source: str | Path) -> Exercise:
    """Load an exercise from a path, or from YAML text (recognised by a line break or a colon)."""
    is_text = isinstance(source, str) and ("\n" in source or (":" in source and not Path(source).exists()))
    return from_data(load_yaml(str(source) if is_text else read_text(source)))


def from_data(data: object) -> Exercise:
    """Build an exercise from plain dictionaries and lists."""
    if data is None:
        raise InputError("the exercise is empty", "give keys such as X: and heads:")
    if not isinstance(data, dict):
        raise InputError(f"{shorten(str(data))!r} is not an exercise", "give keys such as X: and heads:")
    try:
        return Exercise.model_validate(data)
    except ValidationError as error:
        raise one_line(error, Exercise, _PARTS) from None


def schema() -> dict[str, Any]:
    """Return the JSON schema of an exercise file."""
    return Exercise.model_json_schema()


# the models of the nested keys, for suggestions
_PARTS: dict[str, type[Strict]] = {
    "heads": Head,
    "layernorm": LayerNorm,
    "ffn": FeedForward,
    "patches": Patches,
    "transport": Transport,
    "cost": Cost,
}


def one_line(error: ValidationError, model: type[Strict], parts: Mapping[str, type[Strict]]) -> GlassError:
    """Report the first validation error of a file with its location; `parts` are the models of nested keys."""
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    place = [part for part in first["loc"] if not str(part).startswith(("function-", "literal["))]
    where = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, GlassError):
        return type(cause)(f"{where}: {cause.fact}" if where else cause.fact, cause.remedy)
    value = shorten(str(first["input"]))
    if first["type"] == "extra_forbidden":
        return _unknown_key(where, [str(part) for part in place if not isinstance(part, int)], model, parts)
    if first["type"] == "missing":
        return InputError(f"{where} is missing", "give it")
    return InputError(f"{where} is {value!r}", first["msg"][0].lower() + first["msg"][1:])


def _unknown_key(where: str, path: list[str], model: type[Strict], parts: Mapping[str, type[Strict]]) -> InputError:
    from difflib import get_close_matches

    names = list(next((parts[part] for part in reversed(path[:-1]) if part in parts), model).model_fields)
    by_lower = {name.lower(): name for name in names}
    inside = [part for part, nested in parts.items() if path[-1] in nested.model_fields and part not in path]
    if inside and path[-1].lower() not in by_lower:
        return InputError(f"the key {shorten(where, 30)!r} is not known here", f"write it under {' or '.join(inside)}")
    near = [by_lower[name] for name in get_close_matches(path[-1].lower(), list(by_lower), 1, 0.5)]
    remedy = f"did you mean {near[0]}?" if near else f"use one of {', '.join(names)}"
    return InputError(f"the key {shorten(where, 30)!r} is not known", remedy)


# -- shapes ------------------------------------------------------------------------------------------------------------


def _check_shapes(exercise: Exercise) -> None:
    """Raise on the first size mismatch, reporting both sizes, before any arithmetic."""
    alone = [name for name in ("transport", "cost") if getattr(exercise, name)]
    if alone:
        others = exercise.model_fields_set - {"title", "text", alone[0]}
        if others:
            raise InputError(
                f"{alone[0]} cannot be combined with {', '.join(sorted(others))}", "ask for one thing per exercise"
            )
        if exercise.transport:
            _transport(exercise.transport)
        return
    if (exercise.Q or exercise.K or exercise.V) and exercise.heads:
        raise InputError("both heads and a Q, K or V are given", "put Q, K and V into the heads, or leave heads out")
    tokens = _tokens(exercise)
    if exercise.all_heads:
        tokens = _attention(exercise, tokens)
    else:
        extra = [name for name in ("WO", "memory") if getattr(exercise, name)]
        if extra:
            raise InputError(f"{extra[0]} is given without heads", "give heads with WQ, WK and WV")
    _rest(exercise, tokens)


def _tokens(exercise: Exercise) -> tuple[int, int] | None:
    """Return (tokens, width) of X, whatever its source."""
    found: tuple[int, int] | None = None
    if exercise.patches:
        if exercise.X:
            raise InputError("both X and patches are given", "leave one of them out")
        found = _patches(exercise, exercise.patches)
    elif exercise.X:
        found = exercise.tokens(exercise.X)
    elif not exercise.all_heads:
        raise InputError("the exercise has neither X nor Q, K and V", "give X: with heads:, or Q:, K: and V:")
    if isinstance(exercise.positions, Matrix):
        _expect(exercise, "positions", exercise.positions, found, "as X has")
    if exercise.positions != "none" and found is None:
        raise InputError("positions are given without X", "give X, to which they are added")
    return found


def _patches(exercise: Exercise, patches: Patches) -> tuple[int, int] | None:
    if patches.image:
        if patches.height or patches.width:
            raise InputError("patches have both an image and a height or width", "leave height and width out")
        height, width = patches.image.shape
    elif patches.height and patches.width:
        height, width = patches.height, patches.width
        if patches.W or exercise.all_heads or exercise.layernorm or exercise.ffn:
            raise InputError("patches have a height and a width but no image", "give the image's rows")
    else:
        raise InputError("patches have no image", "give image: rows of numbers, or height: and width:")
    if height % patches.size or width % patches.size:
        raise ShapeError(
            f"an image of {height}×{width} does not split into patches of {patches.size}×{patches.size}",
            "choose a size that divides both",
        )
    if not patches.image:
        return None
    count, inside = (height // patches.size) * (width // patches.size), patches.size**2
    if count > MAX_SIDE or inside > MAX_SIDE:
        raise ShapeError(f"{count} patches of {inside} numbers are too many", f"the limit is {MAX_SIDE}")
    if not patches.W:
        return count, inside
    return count, _meets(exercise, "patches.W", patches.W, inside, "numbers in a patch")


def _meets(exercise: Exercise, name: str, W: Matrix[Any], width: int, what: str) -> int:
    """Check the input width of a projection and return its output width."""
    inner, outer = W.shape if exercise.rows else (W.shape[1], W.shape[0])
    if inner != width:
        side = "rows" if exercise.rows else "columns"
        raise ShapeError(f"{name} is {size(W)}, but there are {width} {what}", f"give {name} {width} {side}")
    return outer


def _expect(exercise: Exercise, name: str, matrix: Matrix[Any], wanted: tuple[int, int] | None, why: str) -> None:
    if wanted and exercise.tokens(matrix) != wanted:
        n, m = wanted if exercise.rows else (wanted[1], wanted[0])
        raise ShapeError(f"{name} is {size(matrix)}", f"make it {n}×{m}, {why}")


def _length(name: str, vector: tuple[Exact, ...] | None, width: int) -> None:
    if vector is not None and len(vector) != width:
        raise ShapeError(f"{name} has {len(vector)} entries", f"give it {width}, one for each feature")


def _attention(exercise: Exercise, tokens: tuple[int, int] | None) -> tuple[int, int]:
    """Return (tokens, width) of O."""
    memory = exercise.tokens(exercise.memory) if exercise.memory else tokens
    sizes = []
    for number, head in enumerate(exercise.all_heads, 1):
        place = f"heads[{number}]." if exercise.heads else ""
        sources = {"Q": tokens, "K": memory, "V": memory}
        sizes.append({name: _projected(exercise, head, name, place, sources[name]) for name in sources})
    if exercise.memory and all(head.K and head.V for head in exercise.all_heads):
        raise InputError("memory is given, but K and V are given too", "leave memory out, or give WK and WV")
    width = 0
    queries, keys = sizes[0]["Q"][0], sizes[0]["K"][0]
    for number, found in enumerate(sizes, 1):
        which = f" of head {number}" if len(sizes) > 1 else ""
        if found["Q"][1] != found["K"][1]:
            raise ShapeError(
                f"Q{which} has width {found['Q'][1]} and K has width {found['K'][1]}",
                "give queries and keys the same width",
            )
        if found["K"][0] != found["V"][0]:
            raise ShapeError(f"K{which} has {found['K'][0]} tokens, V has {found['V'][0]}", "give each key its value")
        if (found["Q"][0], found["K"][0]) != (queries, keys):
            raise ShapeError(
                f"head {number} and head 1 have different numbers of tokens", "give all heads the same tokens"
            )
        width += found["V"][1]
        exercise.beta(found["Q"][1], tokens[1] if tokens else found["Q"][1])
    _mask(exercise, queries, keys)
    if exercise.WO:
        width = _meets(exercise, "WO", exercise.WO, width, "features after concatenation")
    elif exercise.bO:
        raise InputError("bO is given without WO", "give WO, or leave bO out")
    _length("bO", exercise.bO, width)
    return queries, width


def _projected(
    exercise: Exercise, head: Head, name: str, place: str, source: tuple[int, int] | None
) -> tuple[int, int]:
    """Return (tokens, width) of Q, K or V of one head."""
    direct, W, bias = getattr(head, name), getattr(head, f"W{name}"), getattr(head, f"b{name}")
    if (direct is None) == (W is None):
        fault = "both are given" if direct else "neither is given"
        raise InputError(f"{place}{name} or {place}W{name}: {fault}", "give exactly one of them")
    if direct:
        if bias:
            raise InputError(f"{place}b{name} is given with {name}", f"leave it out, or give W{name}")
        found = exercise.tokens(direct)
    else:
        if source is None:
            raise InputError(f"{place}W{name} is given, but no X", "give X")
        found = (source[0], _meets(exercise, f"{place}W{name}", W, source[1], "features in each token"))
    _length(f"{place}b{name}", bias, found[1])
    return found


def _mask(exercise: Exercise, queries: int, keys: int) -> None:
    if isinstance(exercise.mask, Matrix):
        if exercise.tokens(exercise.mask) != (queries, keys):
            n, m = (queries, keys) if exercise.rows else (keys, queries)
            raise MaskError(f"the mask is {size(exercise.mask)}", f"make it {n}×{m}, as S is")
        for i, j, cell in exercise.mask.cells():
            if cell != 0 and cell != 1:
                raise MaskError(f"the mask has {cell} in row {i + 1}, column {j + 1}", "write 1 (may attend) or 0")
    allowed = exercise.allowed(queries, keys)
    if allowed:
        lines = Matrix(allowed) if exercise.rows else Matrix(allowed).T
        for index, line in enumerate(lines, 1):
            if not any(line):
                raise MaskError(f"query {index} may attend to nothing under the mask", "allow it at least one key")


def _rest(exercise: Exercise, tokens: tuple[int, int] | None) -> None:
    """Check residual, LayerNorm and feed-forward against the preceding output."""
    if tokens is None:
        return
    width = tokens[1]
    if exercise.residual and exercise.all_heads:
        source = _tokens(exercise)
        if source is None:
            raise InputError("a residual connection needs X", "give X, or leave residual out")
        if source != tokens:
            raise ShapeError(
                f"the residual adds O, {tokens[0]} tokens of width {tokens[1]}, to X, {source[0]} of width {source[1]}",
                "choose WO so that O is as wide as X",
            )
    if exercise.layernorm:
        _length("layernorm.gamma", exercise.layernorm.gamma, width)
        _length("layernorm.beta", exercise.layernorm.beta, width)
        if exercise.layernorm.eps.sign() < 0:
            raise InputError(f"layernorm.eps is {exercise.layernorm.eps}", "give a number that is not negative")
    if exercise.ffn:
        hidden = _meets(exercise, "ffn.W1", exercise.ffn.W1, width, "features in each token")
        _length("ffn.b1", exercise.ffn.b1, hidden)
        out = _meets(exercise, "ffn.W2", exercise.ffn.W2, hidden, "hidden features")
        _length("ffn.b2", exercise.ffn.b2, out)
        if exercise.residual and out != width:
            raise ShapeError(f"ffn.W2 gives width {out}, the residual has {width}", f"let W2 give width {width}")
        if exercise.layernorm and out != width and (exercise.layernorm.gamma or exercise.layernorm.beta):
            raise ShapeError(f"ffn.W2 gives width {out}, LayerNorm has {width}", f"let W2 give width {width}")


def _transport(transport: Transport) -> None:
    if len(transport.p) != len(transport.q):
        raise ShapeError(
            f"p has {len(transport.p)} bins and q has {len(transport.q)}", "give both the same bins (with zeros)"
        )
    for name, histogram in (("p", transport.p), ("q", transport.q)):
        for index, mass in enumerate(histogram, 1):
            if mass < 0:
                raise InputError(f"{name} has the mass {mass} in bin {index}", "give masses that are not negative")
    p, q = sum(transport.p, Exact(0)), sum(transport.q, Exact(0))
    if p != q:
        raise InputError(f"p has the mass {p} and q the mass {q}", "give both the same total")
    if not p:
        raise InputError("p and q have no mass", "give at least one bin a positive mass")
    places = transport.positions
    if places:
        _length("positions", places, len(transport.p))
        if any(a >= b for a, b in pairwise(places)):
            raise InputError("the positions of the bins do not increase", "write them in increasing order")
