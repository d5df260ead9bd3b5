"""From an exercise to its plan: one function per part."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from glassformer.worked.arithmetic import EXACT
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import Exact
from glassformer.worked.plan import Operation, Plan, evaluate
from glassformer.worked.problem import Cost, Exercise, FeedForward, Head, LayerNorm, Patches, Transport

Vector = tuple[Exact, ...]


class Builder:
    """Collects what is given and what is done, in the exercise's layout."""

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
        """A vector of features as it is added to every token: a row, or a column in column layout."""
        row = Matrix((value,))
        return self.give(symbol, row if self.exercise.rows else row.T)

    def project(self, symbol: str, tokens: str, weight: str, bias: str | None = None) -> str:
        """X·W + b, or W·X + b in column layout."""
        pair = (tokens, weight) if self.exercise.rows else (weight, tokens)
        return self.do(symbol, "linear", *pair, bias) if bias else self.do(symbol, "matmul", *pair)


def build(exercise: Exercise) -> Plan:
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
    """X, from patches or given, with positions added."""
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
        width = _width_of_tokens(exercise)
        work.do("PE", "sinusoidal", tokens=_count_of_tokens(exercise), width=width, axis=work.axis)
    if placed:
        work.do("X", "add", symbol, "PE")


def _patches(work: Builder, patches: Patches, symbol: str) -> None:
    height, width = patches.image.shape if patches.image else (patches.height or 0, patches.width or 0)
    for name, value in (("height", height), ("width", width), ("size", patches.size)):
        work.number(name, value)
    work.do("nh", "count", "height", "size", names=("h", "p"), expression="h/p", text="height/size")
    work.do("nw", "count", "width", "size", names=("w", "p"), expression="w/p", text="width/size")
    work.do("n", "count", "nh", "nw", names=("h", "w"), expression="h*w", text="nh·nw")
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
    """softargmax(β Q·Kᵀ)·V of one head; `i` is its number, or nothing."""
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
    """QKt, Su and S: multiplied, scaled, masked; the last of them is S."""
    exercise = work.exercise
    head = exercise.all_heads[int(i or 1) - 1]
    (queries, dk), (keys, _) = _size(exercise, head, "Q"), _size(exercise, head, "K")
    d = _width_of_tokens(exercise) or dk
    beta, allowed = exercise.beta(dk, d), exercise.allowed(queries, keys)
    scaled = exercise.scale != "none" and beta != 1
    pair = (f"Q{i}", f"K{i}^T") if exercise.rows else (f"K{i}^T", f"Q{i}")
    product = ("QKt" if exercise.rows else "KtQ") + i if scaled or allowed else f"S{i}"
    work.do(product, "matmul", *pair)
    if scaled:
        product = work.do(f"Su{i}" if allowed else f"S{i}", "scale", product, factor=beta, text=str(exercise.scale))
    if allowed:
        work.do(f"S{i}", "mask", product, allowed=allowed)


def _size(exercise: Exercise, head: Head, name: str) -> tuple[int, int]:
    """(tokens, width) of Q or K of a head."""
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


def _width_of_tokens(exercise: Exercise) -> int | None:
    """The model's width d."""
    if exercise.X:
        return exercise.tokens(exercise.X)[1]
    if exercise.patches:
        W = exercise.patches.W
        return exercise.patches.size**2 if not W else W.shape[1] if exercise.rows else W.shape[0]
    return None


def _rest(work: Builder) -> None:
    """X + O, LayerNorm, feed-forward with its own residual and LayerNorm: as in the encoder of the first paper."""
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
    """F and G run up p and q; T moves mass in order; the cost is Σ of the moves = Σ |F − G|·gaps."""
    places = transport.positions or tuple(Exact(i) for i in range(1, len(transport.p) + 1))
    work.give("p", Matrix((transport.p,)))
    work.give("q", Matrix((transport.q,)))
    work.do("F", "cumulate", "p")
    work.do("G", "cumulate", "q")
    work.do("D", "gap", "F", "G")
    gaps = (*(b - a for a, b in pairwise(places)), Exact(0))
    work.do("Wc", "weigh", "D", weights=gaps)
    work.do("T", "monotone", "F", "G")
    T = evaluate(work.done(), EXACT)["T"]
    moves = [
        work.do(f"m{k}", "move", "T", source=i, target=j, distance=abs(places[i] - places[j]))
        for k, (i, j) in enumerate(((i, j) for i, j, mass in T.cells() if mass and i != j), 1)
    ]
    work.do("W", "gather", *moves)


def _cost(work: Builder, cost: Cost) -> None:
    """3ND² + N²D + N²D + ND² = 4ND² + 2N²D multiplications."""
    N, D = work.number("N", cost.N), work.number("D", cost.D)
    seen = work.number("M", cost.window) if cost.window else "N"
    names = dict.fromkeys((N, D, seen))

    def count(symbol: str, expression: str, text: str) -> None:
        work.do(symbol, "count", *names, names=tuple(names), expression=expression, text=text)

    square = "N²D" if not cost.window else "MND"
    count("QKV", "3*N*D^2", "3ND²")
    count("S", f"N*{seen}*D", square)
    count("H", f"N*{seen}*D", square)
    count("O", "N*D^2", "ND²")
    parts = ("QKV", "S", "H", "O")
    work.do("total", "count", *parts, names=parts, expression="+".join(parts), text=f"4ND² + 2{square}")
