"""The catalogue of mistakes: each has a name, a sentence, and an edit of the plan that reproduces it.

An edit takes the plan, the exercise and the heads in which the mistake is made ("" with a single head, else "1", "2",
…), and returns the plan as the learner computed it, or None where the mistake is not possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from glassformer.exercises.arithmetic import EXACT
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.numbers import Exact
from glassformer.exercises.plan import Operation, Plan

Edit = Callable[[Plan, Exercise, Sequence[str]], "Plan | None"]
MOST_TERMS = 6  # of a sum of exponentials, each of which may have been left out
BEFORE = "°"  # a step that a mistake inserts: A° is A before masking


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of mistake. `by_head`: it can be made in individual heads. `telling`: one number suffices to see it."""

    name: str
    description: str
    edit: Edit
    by_head: bool = True
    telling: bool = False


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A kind of mistake made in specific heads, with the plan as the learner would have computed it."""

    kind: Kind
    heads: tuple[str, ...]
    plan: Plan


def hypotheses(plan: Plan, exercise: Exercise) -> Iterator[Hypothesis]:
    """Yield every mistake possible in this exercise: first in all heads at once, then in each head."""
    heads = tuple(s[1:] for s in plan.symbols if s[0] == "A" and (s[1:].isdigit() or s == "A")) or ("",)
    groups = [heads, *((head,) for head in heads)] if len(heads) > 1 else [heads]
    for kind in CATALOGUE:
        for group in groups if kind.by_head else groups[:1]:
            edited = kind.edit(plan, exercise, group)
            if edited is not None and edited != plan:
                yield Hypothesis(kind, group, edited)


def changed(plan: Plan, edited: Plan) -> frozenset[str]:
    """Return the symbols that are computed differently."""
    before = {op.symbol: op for op in plan.operations}
    return frozenset(op.symbol for op in edited.operations if before.get(op.symbol) != op)


# -- helpers ---------------------------------------------------------------------------------------------------------


def _with(plan: Plan, edits: Sequence[Operation]) -> Plan | None:
    return plan.replace(*edits) if edits else None


def _before(plan: Plan, symbol: str, inner: Operation, outer: Operation) -> Plan:
    """Compute `symbol` in two steps."""
    at = plan.symbols.index(symbol)
    return replace(plan, operations=(*plan.operations[:at], inner, outer, *plan.operations[at + 1 :]))


def _present(plan: Plan, base: str, heads: Sequence[str]) -> list[str]:
    return [f"{base}{h}" for h in heads if f"{base}{h}" in plan]


def _scaling(plan: Plan, heads: Sequence[str]) -> list[str]:
    return [s for base in ("S", "Su") for s in _present(plan, base, heads) if plan[s].op == "scale"]


def _raw(plan: Plan, heads: Sequence[str]) -> list[str]:
    """Return the steps that multiply Q by Kᵀ."""
    names = [s for base in ("QKt", "KtQ", "S") for s in _present(plan, base, heads)]
    return [s for s in names if plan[s].op == "matmul"]


def _flip(name: str) -> str:
    return name.removesuffix("^T") if name.endswith("^T") else f"{name}^T"


def head_width(plan: Plan, exercise: Exercise, head: str) -> int:
    K = f"K{head}"
    if K in plan.given:
        return exercise.tokens(plan.given[K])[1]
    return plan.given[f"W{K}"].shape[1 if exercise.rows else 0]


def model_width(plan: Plan, exercise: Exercise) -> int | None:
    if "X" in plan.given:
        return exercise.tokens(plan.given["X"])[1]
    return exercise.tokens(plan.given["X0"])[1] if "X0" in plan.given else None


# -- scores ----------------------------------------------------------------------------------------------------------


def unscaled(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    return plan.with_params(found, factor=Exact(1)) if (found := _scaling(plan, heads)) else None


def _rescaled(plan: Plan, exercise: Exercise, heads: Sequence[str], factor: Callable[[str], Exact]) -> Plan | None:
    found = _scaling(plan, heads)
    if not found or "sqrt" not in str(exercise.scale):
        return None
    for symbol in found:
        plan = plan.with_params([symbol], factor=factor(symbol.lstrip("Su")))
    return plan


def model_width_scale(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    d = model_width(plan, exercise)
    return None if d is None else _rescaled(plan, exercise, heads, lambda h: exercise.beta(d, d))


def unrooted(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    return _rescaled(plan, exercise, heads, lambda h: Exact(head_width(plan, exercise, h)).inverse())


def multiplied(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    return _rescaled(plan, exercise, heads, lambda h: EXACT.sqrt(Exact(head_width(plan, exercise, h))))


def unasked(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    symbols = _present(plan, "S", heads)
    if exercise.scale != "none" or not symbols:
        return None
    for symbol in symbols:
        factor = EXACT.sqrt(Exact(head_width(plan, exercise, symbol[1:]))).inverse()
        before = f"{symbol}{BEFORE}"
        outer = Operation(symbol, "scale", (before,), {"factor": factor, "text": "1/sqrt(dk)"})
        plan = _before(plan, symbol, replace(plan[symbol], symbol=before), outer)
    return plan


def untransposed(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    edits = [
        replace(plan[s], operands=tuple(name.removesuffix("^T") for name in plan[s].operands))
        for s in _raw(plan, heads)
    ]
    return _with(plan, edits)


# -- weights ---------------------------------------------------------------------------------------------------------


def other_axis(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    symbols = [s for base in ("Z", "A") for s in _present(plan, base, heads)]
    other = "columns" if plan.axis == "rows" else "rows"
    return plan.with_params(symbols, axis=other) if symbols else None


def mask_late(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    """A = softargmax of the scores before the mask, with masked weights set to zero."""
    found = [s for s in _present(plan, "S", heads) if plan[s].op == "mask"]
    for S in found:
        open_scores, allowed, h = plan[S].operands[0], plan[S].params["allowed"], S[1:]
        A, E, Z = f"A{h}", f"E{h}", f"Z{h}"
        plan = plan.replace(Operation(S, "copy", (open_scores,)), Operation(E, "exp", (open_scores,)))
        inner = Operation(f"{A}{BEFORE}", "softargmax", (open_scores, E, Z), plan[A].params)
        plan = _before(plan, A, inner, Operation(A, "keep", (f"{A}{BEFORE}",), {"allowed": allowed}))
    return plan if found else None


def unmasked(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    found = [s for s in _present(plan, "S", heads) if plan[s].op == "mask"]
    return _with(plan, [Operation(s, "copy", plan[s].operands) for s in found])


def mask_swapped(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    found = [s for s in _present(plan, "S", heads) if plan[s].op == "mask"]
    for s in found:
        allowed = plan[s].params["allowed"]
        if len(allowed) != len(allowed[0]):
            return None
        plan = plan.with_params([s], allowed=tuple(zip(*allowed, strict=True)))
    return plan if found else None


def exponential_of_zero(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    found = _present(plan, "E", heads)
    return plan.with_params(found, of_zero=0) if found else None


def _without(position: int) -> Edit:
    def edit(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
        found = _present(plan, "Z", heads)
        return plan.with_params(found, without=position) if found else None

    return edit


def unnormalised(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    return _with(plan, [Operation(s, "copy", (f"E{s[1:]}",)) for s in _present(plan, "A", heads)])


def no_softargmax(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    if exercise.mask != "none":
        return None
    return _with(plan, [Operation(s, "copy", (f"S{s[1:]}",)) for s in _present(plan, "A", heads)])


# -- products --------------------------------------------------------------------------------------------------------


def _turned(bases: Sequence[str], swap: bool) -> Edit:
    """W·X for X·W: the same as X·Wᵀ where each token is multiplied as a column."""

    def edit(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
        edits = []
        for symbol in (s for base in bases for s in _present(plan, base, [""] if base == "O" else heads)):
            op = plan[symbol]
            if op.op not in ("matmul", "linear"):
                continue
            first, second, *bias = op.operands
            transposed = tuple(_flip(n) if n.startswith("W") else n for n in (first, second))
            edits.append(replace(op, operands=((second, first) if swap else transposed) + tuple(bias)))
        return _with(plan, edits)

    return edit


def weights_turned(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    edits = [
        replace(plan[s], operands=tuple(_flip(n) if n[0] == "A" else n for n in plan[s].operands))
        for s in _present(plan, "H", heads)
    ]
    return _with(plan, edits)


def weights_written_turned(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    """A = (softargmax of S)ᵀ, as R's apply(S, 1, softmax) returns it, for as many queries as keys."""
    found = _present(plan, "A", heads)
    for A in found:
        inner = replace(plan[A], symbol=f"{A}{BEFORE}")
        plan = _before(plan, A, inner, Operation(A, "copy", (f"{A}{BEFORE}^T",)))
    return plan if found else None


def _unbiased(bases: Sequence[str]) -> Edit:
    def edit(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
        symbols = [s for base in bases for s in _present(plan, base, heads if base in ("Q", "K", "V") else [""])]
        biased = [plan[s] for s in symbols if plan[s].op == "linear"]
        return _with(plan, [replace(op, op="matmul", operands=op.operands[:2]) for op in biased])

    return edit


def _norms(change: Callable[[Operation], Operation], *symbols: str) -> Edit:
    def edit(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
        found = [plan[s] for s in symbols if s in plan]
        whole = [op for op in found if op.symbol[0] != "L" or len(op.operands) == 3]  # no other mistake changed γ or β
        return _with(plan, [change(op) for op in whole])

    return edit


def positions_from_one(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    if "PE" not in plan or plan["PE"].op != "sinusoidal":
        return None
    return _with(plan, [replace(plan["PE"], params={**plan["PE"].params, "first": 1})])


def no_output_weights(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
    if "WO" not in plan.given:
        return None
    source = next(name for name in plan["O"].inputs if name in plan)
    return plan.replace(Operation("O", "copy", (source,)))


def _ordered(order: tuple[int, ...]) -> Edit:
    def edit(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
        if "C" not in plan or len(plan["C"].operands) != len(order):
            return None
        parts = plan["C"].operands
        return plan.replace(replace(plan["C"], operands=tuple(parts[k] for k in order)))

    return edit


def _copy(symbol: str, operand: int) -> Edit:
    def edit(plan: Plan, exercise: Exercise, heads: Sequence[str]) -> Plan | None:
        if symbol not in plan:
            return None
        return plan.replace(Operation(symbol, "copy", plan[symbol].operands[operand : operand + 1]))

    return edit


_ORDER = "weights and inputs multiplied in the wrong order"
_ORDER_SAYS = "The weights and the inputs are multiplied the other way round"
_TURNED_SAYS = "The weights are used transposed, as if they were on the other side of the tokens"
_NORMS: tuple[tuple[str, str, str, Callable[[Operation], Operation], bool], ...] = (
    ("variance divided by d − 1", "The squares are divided by d − 1, not by d", "var",
     lambda op: replace(op, params={**op.params, "less": 1}), True),
    ("γ and β forgotten", "The normalised tokens are not multiplied by γ, nor is β added", "L",
     lambda op: Operation(op.symbol, "copy", op.operands[:1]), False),
    ("β forgotten", "The shift β is not added", "L", lambda op: replace(op, operands=op.operands[:2]), False),
    ("γ forgotten", "The normalised tokens are not multiplied by γ", "L",
     lambda op: Operation(op.symbol, "add", (op.operands[0], op.operands[2])), False),
)  # fmt: skip
# mistakes that cannot be made for one token alone
OF_ALL_TOKENS = frozenset(
    ("softargmax over the wrong axis", "K not transposed", _ORDER, "future and past swapped", "A transposed",
     "heads concatenated in the wrong order")
)  # fmt: skip
CATALOGUE: tuple[Kind, ...] = (
    Kind("no √d_k", "The scores are not scaled: the division by √d_k is left out", unscaled),
    Kind("d instead of d_k", "The scores are divided by √d, the tokens' width, not by √d_k", model_width_scale),
    Kind("softargmax over the wrong axis", "The exponentials are divided by the sums along the other axis", other_axis),
    Kind("K not transposed", "Q is multiplied by K itself, not by Kᵀ", untransposed),
    *(
        Kind(_ORDER, _ORDER_SAYS if swap else _TURNED_SAYS, _turned(bases, swap), bases != "O")
        for bases in ("QKV", "Q", "K", "V", "QK", "O")
        for swap in (True, False)
    ),
    Kind("mask after the softargmax", "The softargmax is taken over all scores, and its result is masked", mask_late),
    Kind("future and past swapped", "The mask is the wrong way round: it forbids what it should allow", mask_swapped),
    Kind("exponentials not normalised", "The exponentials are taken as the weights, without dividing", unnormalised),
    Kind("W_O forgotten", "The output is not multiplied by W_O", no_output_weights, False),
    *(
        Kind("heads concatenated in the wrong order", "The heads are in another order", _ordered(order), False)
        for count in (2, 3, 4)
        for order in permutations(range(count))
        if order != tuple(range(count))
    ),
    Kind("d_k instead of √d_k", "The scores are divided by d_k, not by its root", unrooted),
    Kind("√d_k multiplied", "The scores are multiplied by √d_k, not divided by it", multiplied),
    Kind("a scale that is not asked for", "The scores are divided by √d_k, which is not asked for", unasked),
    Kind("mask forgotten", "The scores are not masked", unmasked, telling=True),
    Kind("softargmax forgotten", "The scores are taken as the weights", no_softargmax),
    Kind("A transposed", "The weights are used transposed when V is multiplied", weights_turned),
    Kind("A transposed", "The weights are written transposed, and V is multiplied by them so", weights_written_turned),
    Kind("residual forgotten", "The tokens are not added to the output of attention", _copy("R", 1), False),
    Kind("residual forgotten", "The tokens are not added to the feed-forward output", _copy("RF", 1), False),
    Kind("ReLU forgotten", "Negative numbers pass through the ReLU", _copy("G", 0), False),
    *(
        Kind("a bias forgotten", f"The bias of {', '.join(bases)} is not added", _unbiased(bases), len(bases) == 1)
        for bases in (("Q",), ("K",), ("V",), ("O",), ("F1",), ("F",), ("F1", "F"), ("Q", "K", "V"))
    ),
    *(
        Kind(name, says, _norms(change, *(base + end for end in ends)), False, telling)
        for ends in (("", "F"), ("",), ("F",))
        for name, says, base, change, telling in _NORMS
    ),
    Kind("positions counted from 1", "The first position is 0, not 1", positions_from_one, False),
    Kind("e^0 taken as 0", "The exponential of 0 is taken as 0, but it is 1", exponential_of_zero, telling=True),
    *(
        Kind(
            "an exponential left out of the sum", "The sum of the exponentials lacks one of them", _without(k),
            telling=True,
        )
        for k in range(MOST_TERMS)
    ),
)  # fmt: skip
