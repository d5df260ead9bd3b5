"""h · (N² · d/h) = N² · d: narrower heads need no more multiplications, but explicit weights h times the memory."""

from __future__ import annotations

from contextlib import ExitStack

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.lab import plots
from glassformer.lab.comparison.cost import peak_memory
from glassformer.lab.counting import multiplications
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator
from glassformer.lens import edit
from glassformer.nn import MultiHeadAttention, heads, initialise

ABOUT = 0.1


def measure(seed: int, *, tokens: int = 128, width: int = 64, most: int = 16) -> Result:
    X = torch.randn(1, tokens, width, generator=generator(seed))
    counts = [h for h in range(1, most + 1) if width % h == 0 and h & (h - 1) == 0]
    found: dict[str, list[int]] = {"multiplications": [], "parameters": [], "fused_memory": [], "explicit_memory": []}
    for h in counts:
        layer = MultiHeadAttention(heads(width, h))
        initialise(layer, seed)
        found["multiplications"].append(multiplications(layer, X))
        found["parameters"].append(sum(weight.numel() for weight in layer.parameters()))
        found["fused_memory"].append(_peak(layer, X, explicit=False))
        found["explicit_memory"].append(_peak(layer, X, explicit=True))
    few = {"Q": [[1, 0], [0, 1]], "K": [[1, 0], [0, 1]], "V": [[1, 0], [0, 1]]}
    narrow = [{name: [[row[i]] for row in rows] for name, rows in few.items()} for i in range(2)]
    text = "Two tokens of width 2, two heads of width 1. How many attention weights are there? How many with one head?"
    example = {"title": "Twice the weights", "text": text, "heads": narrow, "scale": "none"}
    return {"heads": counts, **found, "counterexample": example}


def _peak(layer: MultiHeadAttention, X: Tensor, *, explicit: bool) -> int:
    """Return the peak bytes of a forward and backward pass, with the fused kernel or with A in memory."""

    def both() -> None:
        layer(X.detach().requires_grad_()).sum().backward()
        layer.zero_grad()

    with ExitStack() as stack:
        if explicit:
            stack.enter_context(edit(layer, "A", lambda A: A))
        both()  # the first pass makes the permanent allocations
        return peak_memory(both)


def judge(result: Result) -> tuple[Kind, str]:
    names = ("multiplications", "parameters", "fused_memory", "explicit_memory")
    ratio = {name: result[name][-1] / result[name][0] for name in names}
    shown = (
        f"compared with one head, {result['heads'][-1]} heads take {ratio['multiplications']:.3g} times the "
        f"multiplications, {ratio['parameters']:.3g} times the parameters, {ratio['fused_memory']:.3g} times the peak "
        f"memory with the fused kernel and {ratio['explicit_memory']:.3g} times with A in memory"
    )
    if max(ratio[name] for name in names[:3]) > 1 + ABOUT:
        return "fails", shown
    if ratio["explicit_memory"] > 1 + ABOUT:
        return "holds when", f"A is not kept in memory, as in a fused kernel: {shown}"
    return "holds", shown


def draw(result: Result) -> Figure:
    names = {
        "multiplications": "multiplications",
        "explicit_memory": "peak memory, A in memory",
        "fused_memory": "peak memory, fused kernel",
    }
    lines = {label: [x / result[name][0] for x in result[name]] for name, label in names.items()}
    return plots.curves(
        result["heads"], lines, across="heads", up="relative to one head", title="the cost of more heads"
    )


CLAIM = Experiment(
    number=10,
    name="cost of more heads",
    statement="h heads of width d/h cost about as much as one head of width d.",
    formula="h · N^2 · frac{d}{h} = N^2 d",
    measured="For 1, 2, 4, … heads of one total width: the multiplications that torch counts while the layer runs, "
    "its parameters, and the peak memory of a forward and backward pass according to torch's profiler, with the fused "
    "kernel and with A in memory.",
    rule=f"“fails” if multiplications, parameters or the fused kernel's memory grow by more than {ABOUT:.0%}; “holds "
    "when A is not kept in memory” if only the memory of the explicit layer does; otherwise “holds”.",
    falsified_by="Multiplications, parameters or memory of the fused layer that grow with the number of heads "
    "(“fails”), or memory of the explicit layer that does not (“holds”).",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={
        "tokens": "number of tokens (N)",
        "width": "width of the layer (d)",
        "most": "largest number of heads",
    },
    circumstances="Operations are counted and memory is measured; nothing is timed.",
)
