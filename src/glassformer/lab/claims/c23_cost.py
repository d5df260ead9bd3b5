"""4nd² + 2n²d, 2nd², knd²: what a layer multiplies, the exponents fitted, and where attention's n² begins."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.core import cost
from glassformer.lab import pictures
from glassformer.lab.counting import multiplications
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator, slope
from glassformer.nn import MultiHeadAttention, heads, initialise

CLOSE = 0.25


def measure(seed: int, *, width: int = 32, kernel: int = 3) -> Result:
    few = [width // 16 * k for k in (1, 2, 4)]
    many = [width * k for k in (32, 64, 128)]
    lengths = [max(1, n) for n in (*few, width, 2 * width, 4 * width, 16 * width)] + many
    layer = MultiHeadAttention(heads(width, 1))
    initialise(layer, seed)
    random = generator(seed)
    ran = [multiplications(layer, torch.randn(1, n, width, generator=random)) for n in lengths[:6]]
    counts = {
        "self-attention": [cost.self_attention(n, width).multiplications for n in lengths],
        "recurrent": [cost.recurrent(n, width, width).multiplications for n in lengths],
        "convolution": [_convolution(n, width, kernel) for n in lengths],
    }
    widths = [8, 32, 128]
    by_width = {
        "self-attention": [cost.self_attention(64 * widths[-1], d).multiplications for d in widths],
        "recurrent": [cost.recurrent(64, d, d).multiplications for d in widths],
        "convolution": [_convolution(64, d, kernel) for d in widths],
    }
    ends = {name: [slope(lengths[:3], c[:3]), slope(lengths[-3:], c[-3:])] for name, c in counts.items()}
    text = "Count the multiplications for 4 tokens of width 8. Is the part with N² the larger one?"
    return {
        "width": width,
        "lengths": lengths,
        "counted": ran,
        "counts": counts,
        "in_n": ends,
        "in_d": {name: slope(widths, c) for name, c in by_width.items()},
        "counterexample": {"title": "Few wide tokens", "text": text, "cost": {"N": 4, "D": 8}},
    }


def _convolution(n: int, d: int, kernel: int) -> int:
    return cost.convolution((n + kernel - 1,), d, d, kernel).multiplications


def judge(result: Result) -> tuple[Kind, str]:
    (few, many), d = result["in_n"]["self-attention"], result["width"]
    linear = [result["in_n"][name][i] for name in ("recurrent", "convolution") for i in (0, 1)]
    squares = [result["in_d"][name] for name in ("recurrent", "convolution")]
    counted = result["counts"]["self-attention"][: len(result["counted"])]
    said = abs(many - 2) < CLOSE and all(abs(x - 1) < CLOSE for x in linear)
    if counted != result["counted"] or not said or any(abs(x - 2) > CLOSE for x in squares):
        return "fails", (
            f"the exponents in n are {many:.2f} (attention) and {linear[-1]:.2f}; counted {result['counted']}"
        )
    told = (
        f"for n ≥ {result['lengths'][-3]} and d = {d} attention goes as "
        f"n^{many:.2f}·d^{result['in_d']['self-attention']:.2f}, "
        f"recurrent and convolutional layers as n^{linear[1]:.2f}·d^{squares[0]:.2f}"
    )
    if abs(few - 2) < CLOSE:
        return "holds", told
    return "holds when", (
        f"n is large against d: {told}. For n ≤ {result['lengths'][2]} attention goes as n^{few:.2f}: its projections, "
        f"4nd², are the larger part up to n = 2d = {2 * d}"
    )


def draw(result: Result) -> Figure:
    marks = {"n = 2d": 2.0 * result["width"]}
    title = f"multiplications of a layer, d = {result['width']}"
    return pictures.curves(result["lengths"], result["counts"], across="n", up="", title=title, log="xy", marks=marks)


CLAIM = Experiment(
    number=23,
    name="cost per layer",
    statement="Cost per layer: self-attention O(n²·d), recurrent O(n·d²), convolution O(k·n·d²).",
    formula="4 n d^2 + 2 n^2 d, 2 n d^2, k n d^2",
    measured="Multiplications of a layer of each kind as n and d grow, and the exponents fitted at both ends; those of "
    "attention also counted while a layer runs.",
    rule=f"fails if the counts differ, or an exponent at large n is off by more than {CLOSE}; holds when n is large "
    f"against d if at small n attention's is more than {CLOSE} from 2; else holds.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"width": "the layers' width (d), at least 16", "kernel": "the convolution's kernel (k)"},
    least={"width": 16},
    circumstances="Counted, not timed: times on a shared machine are left to the comparison of architectures.",
)
