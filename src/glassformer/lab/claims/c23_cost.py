"""4nd² + 2n²d, 2nd², knd²: operations and memory measured on running layers, and the fitted exponents."""

from __future__ import annotations

import math
from contextlib import ExitStack

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from glassformer.lab import plots
from glassformer.lab.comparison.cost import peak_memory
from glassformer.lab.counting import multiplications
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator
from glassformer.lens import edit
from glassformer.lens.perturb import fitted_exponent
from glassformer.models.convolutional_sequence import DilatedConv
from glassformer.models.recurrent import initialise_recurrent
from glassformer.models.recurrent_cells import RNNCell
from glassformer.nn import MultiHeadAttention, heads, initialise

CLOSE = 0.25
KINDS = ("self-attention", "recurrent", "convolution")


class _Stepwise(nn.Module):
    """A tanh RNN run step by step, so that torch's counter records every product."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = RNNCell(width, width)

    def forward(self, X: Tensor) -> Tensor:
        return self.cell.explicit(X, self.cell.start(len(X)), None)[0]


class _Convolution(nn.Module):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.layer = DilatedConv(width, kernel, 1, causal=True)

    def forward(self, X: Tensor) -> Tensor:
        Y: Tensor = self.layer(X, None)[0]
        return Y


def _layer(kind: str, width: int, kernel: int, seed: int) -> nn.Module:
    if kind == "self-attention":
        layer: nn.Module = MultiHeadAttention(heads(width, 1))
        initialise(layer, seed)
    elif kind == "recurrent":
        layer = _Stepwise(width)
        initialise_recurrent(layer, seed)
    else:
        layer = _Convolution(width, kernel)
        initialise(layer, seed)
    return layer


def measure(seed: int, *, width: int = 32, kernel: int = 3) -> Result:
    random = generator(seed)
    lengths = sorted({max(1, width // 16 * k) for k in (1, 2, 4)} | {width * k for k in (1, 2, 16, 32, 64)})
    widths, n = [8, 16, 32], 8 * width  # attention is linear in d only if n is much larger than d
    large = [max(512, 16 * width) * k for k in (1, 2, 4)]  # lengths at which the n² term dominates memory
    counted, by_width = {}, {}
    for kind in KINDS:
        layer = _layer(kind, width, kernel, seed)
        counted[kind] = [multiplications(layer, torch.randn(1, m, width, generator=random)) for m in lengths]
        layers = [_layer(kind, d, kernel, seed) for d in widths]
        size = 4 * n if kind == "self-attention" else n
        by_width[kind] = [
            multiplications(each, torch.randn(1, size, d, generator=random))
            for each, d in zip(layers, widths, strict=True)
        ]
    kernels = [kernel + 2 * k for k in range(3)]
    by_kernel = [
        multiplications(_layer("convolution", width, k, seed), torch.randn(1, n, width, generator=random))
        for k in kernels
    ]
    first, last = lengths[0], lengths[-1]
    per_token = [counted["self-attention"][i] / m for i, m in ((0, first), (-1, last))]  # 4d² + 2nd
    growth = (per_token[1] - per_token[0]) / (last - first)
    text = "Count the multiplications for 4 tokens of width 8. Is the N² term the larger one?"
    return {
        "width": width,
        "lengths": lengths,
        "counted": counted,
        "in_n": {
            kind: [fitted_exponent(lengths[part], c[part]) for part in (slice(3), slice(-3, None))]
            for kind, c in counted.items()
        },
        "in_d": {kind: fitted_exponent(widths, c) for kind, c in by_width.items()},
        "in_k": fitted_exponent(kernels, by_kernel),
        "crossover": per_token[0] / growth - first if growth > 0 else math.inf,  # the n at which both parts are equal
        "memory_in_n": {
            name: fitted_exponent(large, _memory(name, width, large, seed)) for name in ("explicit", "fused")
        },
        "counterexample": {"title": "Few wide tokens", "text": text, "cost": {"N": 4, "D": 8}},
    }


def _memory(name: str, width: int, lengths: list[int], seed: int) -> list[float]:
    """Return the peak bytes of attention's forward pass at each length, with A in memory or with the fused kernel."""
    layer = _layer("self-attention", width, 1, seed)
    found = []
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if name == "explicit":
            stack.enter_context(edit(layer, "A", lambda A: A))
        for n in lengths:
            X = torch.randn(1, n, width, generator=generator(seed))
            layer(X)
            found.append(float(peak_memory(lambda X=X: layer(X))))  # type: ignore[misc]
    return found


def judge(result: Result) -> tuple[Kind, str]:
    (few, many), d = result["in_n"]["self-attention"], result["width"]
    linear = [result["in_n"][name][i] for name in KINDS[1:] for i in (0, 1)]
    squares = [result["in_d"][name] for name in KINDS[1:]]
    memory = result["memory_in_n"]
    off = [
        *(abs(x - 1) for x in linear),
        *(abs(x - 2) for x in squares),
        abs(many - 2),
        abs(result["in_d"]["self-attention"] - 1),
        abs(result["in_k"] - 1),
        abs(memory["explicit"] - 2),
        abs(memory["fused"] - 1),
    ]
    shown = (
        f"for n ≥ {result['lengths'][-3]} and d = {d} the multiplications of attention grow as "
        f"n^{many:.2f}·d^{result['in_d']['self-attention']:.2f}, those of a recurrent layer as "
        f"n^{linear[1]:.2f}·d^{squares[0]:.2f} and those of a convolution as "
        f"k^{result['in_k']:.2f}·n^{linear[3]:.2f}·d^{squares[1]:.2f}; the memory of attention grows as "
        f"n^{memory['explicit']:.2f} with A in memory and as n^{memory['fused']:.2f} with a fused kernel"
    )
    if max(off) > CLOSE:
        return "fails", shown
    if abs(few - 2) < CLOSE:
        return "holds", shown
    return "holds when", (
        f"n is large compared with d: {shown}. For n ≤ {result['lengths'][2]} the multiplications of attention grow "
        f"only as n^{few:.2f}. {NOT_JUDGED}: the part that is linear in n is the larger one up to n = "
        f"{result['crossover']:.0f} (formula: 2d = {2 * d})"
    )


def draw(result: Result) -> Figure:
    both = {"both parts of attention are equal": result["crossover"]}
    marks = both if math.isfinite(result["crossover"]) else {}
    title = f"multiplications of a layer, d = {result['width']}"
    return plots.curves(result["lengths"], result["counted"], across="n", up="", title=title, log="xy", marks=marks)


CLAIM = Experiment(
    number=23,
    name="cost per layer",
    statement="Cost per layer: self-attention O(n²·d), recurrent O(n·d²), convolution O(k·n·d²).",
    formula="4 n d^2 + 2 n^2 d, 2 n d^2, k n d^2",
    measured="The multiplications that torch's FLOP counter reports while a layer of each kind runs, as n and d grow, "
    "with exponents fitted at small and at large n; those of convolutions of three kernel sizes k; and the peak memory "
    "of attention according to torch's profiler.",
    rule=f"“fails” if an exponent at large n differs by more than {CLOSE} from the claimed one (attention: 2 in n and "
    "1 in d; its memory: 2 in n with A in memory and 1 with a fused kernel; recurrent and convolutional layers: 1 in "
    "n and 2 in d, convolutional ones also 1 in k); “holds when n is large compared with d” if the exponent of "
    f"attention in n differs from 2 by at least {CLOSE} at small n; otherwise “holds”.",
    falsified_by="Exponents of the counted operations or of the measured memory that differ from the claimed ones "
    "(“fails”), or an exponent of 2 at small n as well (“holds”).",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"width": "width of the layers (d), at least 16", "kernel": "smallest kernel size of the convolution (k)"},
    least={"width": 16},
    circumstances="Operations are counted and memory is measured; nothing is timed. Times are part of the comparison "
    "of architectures.",
)
