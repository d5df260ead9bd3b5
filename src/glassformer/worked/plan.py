"""The heart of worked exercises: what is computed from what, as a program without values.

Symbols, in their order (with several heads the ones up to H are numbered: Q1, WQ1, …; Q2, …):

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

An operand `K^T` is K transposed. `evaluate` runs a plan in any arithmetic; values in `given` take the place of computed
ones for everything after them, which is what follow-through marking is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from glassformer.errors import InputError
from glassformer.worked.arithmetic import Arithmetic
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import Exact
from glassformer.worked.ops import OPS

if TYPE_CHECKING:
    from glassformer.worked.problem import Exercise


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


@dataclass(frozen=True, slots=True)
class Plan:
    """Given matrices, then operations, each on symbols before it; `output` is the last result."""

    given: Mapping[str, Matrix[Exact]]
    operations: tuple[Operation, ...]
    axis: str = "rows"

    @property
    def output(self) -> str:
        return self.operations[-1].symbol

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(operation.symbol for operation in self.operations)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self.symbols

    def __getitem__(self, symbol: str) -> Operation:
        for operation in self.operations:
            if operation.symbol == symbol:
                return operation
        raise InputError(f"{symbol!r} is not computed in this exercise", f"choose from {', '.join(self.symbols)}")

    def replace(self, *edits: Operation) -> Plan:
        """The plan with each operation of the same symbol replaced."""
        by_symbol = {self[edit.symbol].symbol: edit for edit in edits}
        return replace(self, operations=tuple(by_symbol.get(op.symbol, op) for op in self.operations))

    def with_params(self, symbols: Iterable[str], **params: Any) -> Plan:
        """The plan with parameters of some operations changed, e.g. `axis`."""
        return self.replace(*(replace(self[symbol], params={**self[symbol].params, **params}) for symbol in symbols))

    def with_given(self, changes: Mapping[str, Matrix[Exact]]) -> Plan:
        return replace(self, given={**self.given, **changes})

    def before(self, symbol: str) -> frozenset[str]:
        """Every symbol that `symbol` depends on, given ones too."""
        found: set[str] = set()
        waiting = list(self[symbol].inputs)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(self[name].inputs if name in self else ())
        return frozenset(found)

    def after(self, symbol: str) -> tuple[str, ...]:
        """Every computed symbol that depends on `symbol`, in order."""
        return tuple(name for name in self.symbols if symbol in self.before(name))


def plan(exercise: Exercise) -> Plan:
    """What is to be computed in an exercise."""
    from glassformer.worked.build import build

    return build(exercise)


Given = Mapping[str, "Matrix[Any]"]


def evaluate(
    plan: Plan, arithmetic: Arithmetic, given: Given | None = None, until: Callable[[str], bool] | None = None
) -> dict[str, Matrix[Any]]:
    """All values by symbol. A cell of `given` that is None takes the computed value; `until(symbol)` stops after it."""
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
    """One operation on the values so far."""
    operands = [
        values[name.removesuffix("^T")].T if name.endswith("^T") else values[name] for name in operation.operands
    ]
    op, operands = _softargmax_from(plan, operation, arithmetic, operands, given)
    return OPS[op].run(arithmetic, operands, operation.params).map(arithmetic.settle)


def _softargmax_from(
    plan: Plan, operation: Operation, arithmetic: Arithmetic, operands: list[Matrix[Any]], given: Given
) -> tuple[str, list[Matrix[Any]]]:
    """Weights come from S, from E alone, or from E and Z: tightly where nobody wrote the ones between."""
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
