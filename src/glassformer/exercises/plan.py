"""The computation graph of an exercise: which quantity is computed from which, as a program without values.

Symbols, in order (with several heads those up to H are numbered: Q1, WQ1, …; Q2, …):

    I, P         an image and its patches, one flattened patch per token; nh, nw, n: how many down, across, in all
    X0, PE, X    tokens before positions, the positions, their sum; without positions X is given (or P·WE)
    Y            the memory of cross-attention, from which K and V come
    Q, K, V      projections X·WQ (+ bQ), …, or given themselves
    QKt          Q·Kᵀ (in column layout KtQ = Kᵀ·Q), if it is scaled or masked afterwards
    Su           the scaled scores, if they are masked afterwards
    S            the scores that go into the softargmax: scaled, masked
    E, Z, A      exponentials, their sum for each query, the weights E/Z
    H            A·V (V·A); C: the heads' H side by side (stacked), with several heads
    O            C·WO (WO·C), H·WO, or the same as C or H without WO
    R            X + O;  mu, var, N, L: mean, variance, normalised, γ∘N + β (L only if γ or β is given)
    F1, G, F     feed-forward: before relu, after it, out;  RF, muF, varF, NF, LF: residual and LayerNorm after it
    p, q, F, G, D, Wc, T, m1 …, W    transport: running sums, |F − G|, its cost Σ D·gaps; plan, moves, their cost
    N, D, QKV, S, H, O, total        a cost count

An operand `K^T` is K transposed. `evaluate_plan` runs a plan in any arithmetic; values in `given` override computed
ones for all later operations, which implements follow-through marking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from glassformer.errors import InputError
from glassformer.exercises.arithmetic import EXACT, Arithmetic
from glassformer.exercises.exercise import Cost, Exercise, FeedForward, Head, LayerNorm, Patches, Transport
from glassformer.exercises.expression import parse
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Exact
from glassformer.exercises.operations import OPS


@dataclass(frozen=True, slots=True)
class Operation:
    """symbol = op(operands; params)"""

    symbol: str
    op: str
    operands: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The operands' symbols, without ^T."""
        return tuple(name.removesuffix("^T") for name in self.operands)

    @property
    def formula(self) -> str:
        return OPS[self.op].formula([name.replace("^T", "ᵀ") for name in self.operands], self.params)


@dataclass(frozen=True)
class Plan:
    """Given matrices, then operations, each on earlier symbols; `output` is the last result."""

    given: Mapping[str, Matrix[Exact]]
    operations: tuple[Operation, ...]
    axis: str = "rows"

    @property
    def output(self) -> str:
        return self.operations[-1].symbol

    @cached_property
    def _by_symbol(self) -> dict[str, Operation]:
        return {operation.symbol: operation for operation in self.operations}

    @cached_property
    def _before(self) -> dict[str, frozenset[str]]:
        """Every symbol that each computed symbol depends on."""
        found: dict[str, frozenset[str]] = {}
        for operation in self.operations:
            inputs = operation.inputs
            found[operation.symbol] = frozenset(inputs).union(*(found.get(name, ()) for name in inputs))
        return found

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        return tuple(self._by_symbol)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._by_symbol

    def __getitem__(self, symbol: str) -> Operation:
        if symbol in self._by_symbol:
            return self._by_symbol[symbol]
        raise InputError(f"{symbol!r} is not computed in this exercise", f"choose from {', '.join(self.symbols)}")

    def replace(self, *edits: Operation) -> Plan:
        """Return the plan with each operation of the same symbol replaced."""
        by_symbol = {self[edit.symbol].symbol: edit for edit in edits}
        return replace(self, operations=tuple(by_symbol.get(op.symbol, op) for op in self.operations))

    def with_params(self, symbols: Iterable[str], **params: Any) -> Plan:
        """Return the plan with parameters of some operations changed, e.g. `axis`."""
        return self.replace(*(replace(self[symbol], params={**self[symbol].params, **params}) for symbol in symbols))

    def before(self, symbol: str) -> frozenset[str]:
        """Return every symbol that `symbol` depends on, including given ones."""
        return self._before[self[symbol].symbol]

    def after(self, symbol: str) -> tuple[str, ...]:
        """Return every computed symbol that depends on `symbol`, in order."""
        return tuple(name for name in self.symbols if symbol in self._before[name])


Given = Mapping[str, "Matrix[Any]"]


def evaluate_plan(
    plan: Plan, arithmetic: Arithmetic, given: Given | None = None, until: Callable[[str], bool] | None = None
) -> dict[str, Matrix[Any]]:
    """Compute all values by symbol. None cells of `given` use the computed value; `until(symbol)` stops after it."""
    given = given or {}
    values: dict[str, Matrix[Any]] = {}
    with arithmetic.precision():
        for symbol, matrix in plan.given.items():
            values[symbol] = _filled(given.get(symbol), partial(matrix.map, arithmetic.lift))
        for operation in plan.operations:
            values[operation.symbol] = _filled(
                given.get(operation.symbol), partial(compute, plan, operation, arithmetic, values, given)
            )
            if until is not None and until(operation.symbol):
                break
    return values


def _filled(written: Matrix[Any] | None, computed: Callable[[], Matrix[Any]]) -> Matrix[Any]:
    if written is None:
        return computed()
    if all(cell is not None for _, _, cell in written.cells()):
        return written
    return written.zip(computed(), lambda own, right: right if own is None else own)


def compute(
    plan: Plan, operation: Operation, arithmetic: Arithmetic, values: Mapping[str, Matrix[Any]], given: Given
) -> Matrix[Any]:
    """Apply one operation to the values computed so far."""
    operands = [
        values[name.removesuffix("^T")].T if name.endswith("^T") else values[name] for name in operation.operands
    ]
    op, operands = _softargmax_from(plan, operation, arithmetic, operands, given)
    return OPS[op].run(arithmetic, operands, operation.params).map(arithmetic.settle)


def _softargmax_from(
    plan: Plan, operation: Operation, arithmetic: Arithmetic, operands: list[Matrix[Any]], given: Given
) -> tuple[str, list[Matrix[Any]]]:
    """Select how weights are computed: from S, from E alone, or from E and Z; tightly if E and Z are not written."""
    if operation.op != "softargmax":
        return operation.op, operands
    S, E, Z = operation.inputs
    axis = operation.params["axis"]
    plain_sum = Z not in given and plan[Z] == Operation(Z, "total", (E,), {"axis": axis})
    if not arithmetic.tight or not plain_sum:
        return "divide", operands[1:]
    if E in given or plan[E] != Operation(E, "exp", (S,)):
        return "shares", operands[1:2]
    return "softargmax", operands[:1]


# -- from an exercise to its plan --------------------------------------------------------------------------------------

Vector = tuple[Exact, ...]


class Builder:
    """Collects the given matrices and the operations, in the exercise's layout."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self.axis = exercise.layout
        self.given: dict[str, Matrix[Exact]] = {}
        self.operations: list[Operation] = []

    def done(self) -> Plan:
        return Plan(self.given, tuple(self.operations), self.axis)

    def do(self, symbol: str, op: str, *operands: str, **params: Any) -> str:
        self.operations.append(Operation(symbol, op, operands, params))
        return symbol

    def give(self, symbol: str, value: Matrix[Exact]) -> str:
        self.given[symbol] = value
        return symbol

    def number(self, symbol: str, value: int) -> str:
        return self.give(symbol, Matrix(((Exact(value),),)))

    def vector(self, symbol: str, value: Vector) -> str:
        """Add a feature vector in the form in which it is added to every token: a row, or a column in column layout."""
        row = Matrix((value,))
        return self.give(symbol, row if self.exercise.rows else row.T)

    def count(self, symbol: str, expression: str, *operands: str, formula: str | None = None) -> str:
        """Add a number computed from numbers; `formula` is displayed instead of the expression, if passed."""
        shown = parse(formula or expression)
        return self.do(symbol, "count", *operands, names=operands, expression=parse(expression), formula=shown)

    def project(self, symbol: str, tokens: str, weight: str, bias: str | None = None) -> str:
        """X·W + b, or W·X + b in column layout."""
        pair = (tokens, weight) if self.exercise.rows else (weight, tokens)
        return self.do(symbol, "linear", *pair, bias) if bias else self.do(symbol, "matmul", *pair)


def plan(exercise: Exercise) -> Plan:
    """Build the plan of an exercise."""
    work = Builder(exercise)
    if exercise.transport:
        _transport(work, exercise.transport)
    elif exercise.cost:
        _cost(work, exercise.cost)
    else:
        _tokens(work)
        if exercise.all_heads:
            _attention(work)
        _rest(work)
    return work.done()


def _tokens(work: Builder) -> None:
    """Add X, from patches or given, with positions added."""
    exercise = work.exercise
    placed = exercise.positions != "none"
    symbol = "X0" if placed else "X"
    if exercise.patches:
        _patches(work, exercise.patches, symbol)
    elif exercise.X:
        work.give(symbol, exercise.X)
    if isinstance(exercise.positions, Matrix):
        work.give("PE", exercise.positions)
    elif placed:
        width = width_of_tokens(exercise)
        work.do("PE", "sinusoidal", tokens=_count_of_tokens(exercise), width=width, axis=work.axis)
    if placed:
        work.do("X", "add", symbol, "PE")


def _patches(work: Builder, patches: Patches, symbol: str) -> None:
    height, width = patches.image.shape if patches.image else (patches.height or 0, patches.width or 0)
    for name, value in (("height", height), ("width", width), ("size", patches.size)):
        work.number(name, value)
    work.count("nh", "height/size", "height", "size")
    work.count("nw", "width/size", "width", "size")
    work.count("n", "nh*nw", "nh", "nw")
    if patches.image:
        work.give("I", patches.image)
        work.do("P", "cut", "I", size=patches.size, axis=work.axis)
        if patches.W:
            work.project(symbol, "P", work.give("WE", patches.W))
        elif work.exercise.all_heads or work.exercise.positions != "none" or work.exercise.layernorm:
            work.do(symbol, "copy", "P")


def _attention(work: Builder) -> None:
    exercise = work.exercise
    if exercise.memory:
        work.give("Y", exercise.memory)
    heads = exercise.all_heads
    outputs = [_head(work, head, str(i) if len(heads) > 1 else "") for i, head in enumerate(heads, 1)]
    joined = work.do("C", "concat", *outputs, axis=work.axis) if len(outputs) > 1 else outputs[0]
    if exercise.WO:
        bias = work.vector("bO", exercise.bO) if exercise.bO else None
        work.project("O", joined, work.give("WO", exercise.WO), bias)
    else:
        work.do("O", "copy", joined)


def _head(work: Builder, head: Head, i: str) -> str:
    """softargmax(β Q·Kᵀ)·V of one head; `i` is its number, or empty."""
    source = {"Q": "X", "K": "Y" if work.exercise.memory else "X", "V": "Y" if work.exercise.memory else "X"}
    for name, tokens in source.items():
        direct, W, bias = getattr(head, name), getattr(head, f"W{name}"), getattr(head, f"b{name}")
        if direct:
            work.give(name + i, direct)
        else:
            work.give(f"W{name}{i}", W)
            work.project(name + i, tokens, f"W{name}{i}", work.vector(f"b{name}{i}", bias) if bias else None)
    _scores(work, i)
    axis = work.axis
    work.do(f"E{i}", "exp", f"S{i}")
    work.do(f"Z{i}", "total", f"E{i}", axis=axis)
    work.do(f"A{i}", "softargmax", f"S{i}", f"E{i}", f"Z{i}", axis=axis)
    return work.do(f"H{i}", "matmul", *((f"A{i}", f"V{i}") if work.exercise.rows else (f"V{i}", f"A{i}")))


def _scores(work: Builder, i: str) -> None:
    """Add QKt, Su and S: multiplied, scaled, masked; the last of them is S."""
    exercise = work.exercise
    head = exercise.all_heads[int(i or 1) - 1]
    (queries, dk), (keys, _) = head_size(exercise, head, "Q"), head_size(exercise, head, "K")
    d = width_of_tokens(exercise) or dk
    beta, allowed = exercise.beta(dk, d), exercise.allowed(queries, keys)
    scaled = exercise.scale != "none" and beta != 1
    pair = (f"Q{i}", f"K{i}^T") if exercise.rows else (f"K{i}^T", f"Q{i}")
    product = ("QKt" if exercise.rows else "KtQ") + i if scaled or allowed else f"S{i}"
    work.do(product, "matmul", *pair)
    if scaled:
        product = work.do(f"Su{i}" if allowed else f"S{i}", "scale", product, factor=beta, text=str(exercise.scale))
    if allowed:
        work.do(f"S{i}", "mask", product, allowed=allowed)


def head_size(exercise: Exercise, head: Head, name: str) -> tuple[int, int]:
    """Return (tokens, width) of Q or K of a head."""
    direct, W = getattr(head, name), getattr(head, f"W{name}")
    if direct:
        return exercise.tokens(direct)
    tokens = _count_of_tokens(exercise) if name == "Q" or not exercise.memory else exercise.tokens(exercise.memory)[0]
    return tokens, W.shape[1] if exercise.rows else W.shape[0]


def _count_of_tokens(exercise: Exercise) -> int:
    if exercise.X:
        return exercise.tokens(exercise.X)[0]
    patches = exercise.patches
    height, width = patches.image.shape if patches and patches.image else (0, 0)
    return (height // patches.size) * (width // patches.size) if patches else 0


def width_of_tokens(exercise: Exercise) -> int | None:
    """Return the model's width d."""
    if exercise.X:
        return exercise.tokens(exercise.X)[1]
    if exercise.patches:
        W = exercise.patches.W
        return exercise.patches.size**2 if not W else W.shape[1] if exercise.rows else W.shape[0]
    return None


def _rest(work: Builder) -> None:
    """X + O, LayerNorm, feed-forward with its own residual and LayerNorm, as in the encoder of the original paper."""
    exercise = work.exercise
    current = "O" if exercise.all_heads else "X"
    if exercise.residual and exercise.all_heads:
        current = work.do("R", "add", "X", current)
    if exercise.layernorm:
        current = _layernorm(work, exercise.layernorm, current, "")
    if exercise.ffn:
        before = current
        current = _feed_forward(work, exercise.ffn, current)
        if exercise.residual:
            current = work.do("RF", "add", before, current)
        if exercise.layernorm:
            _layernorm(work, exercise.layernorm, current, "F")


def _layernorm(work: Builder, norm: LayerNorm, tokens: str, after: str) -> str:
    axis = work.axis
    mu = work.do(f"mu{after}", "mean", tokens, axis=axis)
    var = work.do(f"var{after}", "variance", tokens, mu, axis=axis)
    normed = work.do(f"N{after}", "standardise", tokens, mu, var, eps=norm.eps, axis=axis)
    if norm.gamma is None and norm.beta is None:
        return normed
    width = len(norm.gamma or norm.beta or ())
    work.vector("gamma", norm.gamma or (Exact(1),) * width)
    work.vector("beta", norm.beta or (Exact(0),) * width)
    return work.do(f"L{after}", "affine", normed, "gamma", "beta")


def _feed_forward(work: Builder, ffn: FeedForward, tokens: str) -> str:
    b1, b2 = (work.vector(name, bias) if bias else None for name, bias in (("b1", ffn.b1), ("b2", ffn.b2)))
    work.project("F1", tokens, work.give("W1", ffn.W1), b1)
    work.do("G", "relu", "F1")
    return work.project("F", "G", work.give("W2", ffn.W2), b2)


def _transport(work: Builder, transport: Transport) -> None:
    """F and G are cumulative sums of p and q; T moves mass in order; the cost is Σ of the moves = Σ |F − G|·gaps."""
    places = transport.positions or tuple(Exact(i) for i in range(1, len(transport.p) + 1))
    work.give("p", Matrix((transport.p,)))
    work.give("q", Matrix((transport.q,)))
    work.do("F", "cumulate", "p")
    work.do("G", "cumulate", "q")
    work.do("D", "gap", "F", "G")
    gaps = (*(b - a for a, b in pairwise(places)), Exact(0))
    work.do("Wc", "weigh", "D", weights=gaps)
    work.do("T", "monotone", "F", "G")
    T = evaluate_plan(work.done(), EXACT)["T"]
    moves = [
        work.do(f"m{k}", "move", "T", source=i, target=j, distance=abs(places[i] - places[j]))
        for k, (i, j) in enumerate(((i, j) for i, j, mass in T.cells() if mass and i != j), 1)
    ]
    work.do("W", "gather", *moves)


def _cost(work: Builder, cost: Cost) -> None:
    """3ND² + N²D + N²D + ND² = 4ND² + 2N²D multiplications."""
    N, D = work.number("N", cost.N), work.number("D", cost.D)
    seen = work.number("M", cost.window) if cost.window else "N"
    names = tuple(dict.fromkeys((N, D, seen)))
    square = f"{seen}*N*D" if cost.window else "N^2*D"
    work.count("QKV", "3*N*D^2", *names)
    work.count("S", square, *names)
    work.count("H", square, *names)
    work.count("O", "N*D^2", *names)
    work.count("total", "QKV + S + H + O", "QKV", "S", "H", "O", formula=f"4*N*D^2 + 2*{square}")
