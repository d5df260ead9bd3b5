"""An exercise: tokens, matrices and what to do with them, read from YAML.

Row layout: tokens are the rows of X, Q = X·WQ, S = Q·Kᵀ, softargmax by row, H = A·V. Column layout: tokens are the
columns of X, Q = WQ·X, S = Kᵀ·Q, softargmax by column, H = V·A. Matrices are given as they stand on paper.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from glassformer.errors import GlassError, InputError
from glassformer.worked.arithmetic import EXACT
from glassformer.worked.expression import evaluate, parse, shorten
from glassformer.worked.fields import Count, ExactMatrix, ExactNumber, ExactVector, Strict, nothing, switch
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import Exact
from glassformer.worked.safeyaml import load_yaml, read_text


class Head(Strict):
    """Projections with optional biases, or Q, K and V themselves."""

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
    """γ (x − μ)/√(σ² + ε) + β; on paper ε is 0 unless given."""

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
    """Square patches of side `size`, each flattened row by row; W embeds them. Height and width alone give a count."""

    size: Count
    image: ExactMatrix | None = None
    height: Count | None = None
    width: Count | None = None
    W: ExactMatrix | None = None


class Transport(Strict):
    """The earth mover's distance between the histograms p and q over the same positions (1, 2, … unless given)."""

    p: ExactVector
    q: ExactVector
    positions: ExactVector | None = None


class Cost(Strict):
    """4ND² + 2N²D: multiplications of one layer on N tokens of width D; 4ND² + 2MND with windows of M tokens."""

    N: Count
    D: Count
    window: Count | None = None


class Exercise(Strict):
    """One exercise, as its file says it."""

    title: str = Field(default="Exercise", max_length=200)
    text: str | None = Field(default=None, max_length=4000, description="the question in words")
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
        from glassformer.worked.shapes import check

        check(self)
        return self

    @property
    def kind(self) -> Literal["attention", "tokens", "patches", "transport", "cost"]:
        """What is asked for; `tokens` is LayerNorm, feed-forward or positions without attention."""
        if self.transport:
            return "transport"
        if self.cost:
            return "cost"
        if self.all_heads:
            return "attention"
        return "patches" if self.patches and not (self.layernorm or self.ffn) else "tokens"

    @property
    def all_heads(self) -> tuple[Head, ...]:
        """The heads, with a top-level Q, K, V as the only one."""
        return (Head(Q=self.Q, K=self.K, V=self.V),) if self.Q or self.K or self.V else self.heads

    @property
    def rows(self) -> bool:
        return self.layout == "rows"

    def tokens(self, matrix: Matrix[Any]) -> tuple[int, int]:
        """(tokens, width) of a matrix of tokens in this layout."""
        return matrix.shape if self.rows else (matrix.shape[1], matrix.shape[0])

    def beta(self, dk: int, d: int) -> Exact:
        """The scale β of the scores, for heads of width dk in a model of width d."""
        if self.scale == "none":
            return Exact(1)
        names = {"dk": Exact(dk), "d_k": Exact(dk), "d": Exact(d), "D": Exact(d)}
        result: Exact = evaluate(parse(str(self.scale)), EXACT, names)
        return result

    def allowed(self, queries: int, keys: int) -> tuple[tuple[bool, ...], ...] | None:
        """M as it lies over S in this layout, True = may attend; None without a mask."""
        if isinstance(self.mask, Matrix):
            return tuple(tuple(not cell.is_zero() for cell in row) for row in self.mask)
        if self.mask == "none":
            return None
        seen = Matrix.of([j <= i for j in range(keys)] for i in range(queries))
        return (seen if self.rows else seen.T).rows


def load(source: str | Path) -> Exercise:
    """An exercise from a path, or from the YAML text itself (which has a line break or a colon in it)."""
    is_text = isinstance(source, str) and ("\n" in source or (":" in source and not Path(source).exists()))
    return from_data(load_yaml(str(source) if is_text else read_text(source)))


def from_data(data: object) -> Exercise:
    """An exercise from plain dictionaries and lists."""
    if not isinstance(data, dict):
        raise InputError(f"{shorten(str(data))!r} is not an exercise", "give keys such as X: and heads:")
    try:
        return Exercise.model_validate(data)
    except ValidationError as error:
        raise _one_line(error) from None


def schema() -> dict[str, Any]:
    """The JSON schema of an exercise file."""
    return Exercise.model_json_schema()


def _one_line(error: ValidationError) -> GlassError:
    """The first thing that is wrong, with its place."""
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    place = [part for part in first["loc"] if not str(part).startswith(("function-", "literal["))]
    where = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, GlassError):
        return type(cause)(f"{where}: {cause.fact}" if where else cause.fact, cause.remedy)
    value = shorten(str(first["input"]))
    if first["type"] == "extra_forbidden":
        return _unknown_key(where, [str(part) for part in place if not isinstance(part, int)])
    if first["type"] == "missing":
        return InputError(f"{where} is missing", "give it")
    return InputError(f"{where} is {value!r}", first["msg"][0].lower() + first["msg"][1:])


def _unknown_key(where: str, path: list[str]) -> InputError:
    from difflib import get_close_matches

    parts: dict[str, type[Strict]] = {
        "heads": Head,
        "layernorm": LayerNorm,
        "ffn": FeedForward,
        "patches": Patches,
        "transport": Transport,
        "cost": Cost,
    }
    model = parts.get(path[-2], Exercise) if len(path) > 1 else Exercise
    names = list(model.model_fields)
    by_lower = {name.lower(): name for name in names}
    near = [by_lower[name] for name in get_close_matches(path[-1].lower(), list(by_lower), 1, 0.5)]
    remedy = f"did you mean {near[0]}?" if near else f"use one of {', '.join(names)}"
    return InputError(f"the key {shorten(where, 30)!r} is not known", remedy)

