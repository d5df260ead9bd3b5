"""h · (N² · d/h) = N² · d: more heads of less width multiply as much, but keep h times as many weights."""

from __future__ import annotations

from matplotlib.figure import Figure

from glassformer.core.cost import self_attention
from glassformer.lab import pictures
from glassformer.lab.counting import multiplications
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator, normal
from glassformer.nn import MultiHeadAttention, heads, initialise

ABOUT = 0.1


def measure(seed: int, *, tokens: int = 64, width: int = 64, most: int = 16) -> Result:
    X = normal(generator(seed), 1, tokens, width).float()
    counts = [h for h in range(1, most + 1) if width % h == 0 and h & (h - 1) == 0]
    done, parameters = [], []
    for h in counts:
        layer = MultiHeadAttention(heads(width, h))
        initialise(layer, seed)
        done.append(multiplications(layer, X))
        parameters.append(sum(weight.numel() for weight in layer.parameters()))
    kept = [self_attention(tokens, width, h).activations for h in counts]
    fused = [self_attention(tokens, width, h, fused=True).activations for h in counts]
    few = {"Q": [[1, 0], [0, 1]], "K": [[1, 0], [0, 1]], "V": [[1, 0], [0, 1]]}
    narrow = [{name: [[row[i]] for row in rows] for name, rows in few.items()} for i in range(2)]
    text = "Two tokens of width 2 in two heads of width 1. How many weights A are there, and how many with one head?"
    return {
        "heads": counts,
        "multiplications": done,
        "parameters": parameters,
        "kept": kept,
        "kept_fused": fused,
        "counterexample": {"title": "Twice the weights", "text": text, "heads": narrow, "scale": "none"},
    }


def judge(result: Result) -> tuple[Kind, str]:
    names = ("multiplications", "parameters", "kept", "kept_fused")
    ratios = {name: result[name][-1] / result[name][0] for name in names}
    most = result["heads"][-1]
    if max(ratios["multiplications"], ratios["parameters"], ratios["kept_fused"]) > 1 + ABOUT:
        return "fails", f"{most} heads: {ratios['multiplications']:.2f} times the multiplications of one"
    if ratios["kept"] > 1 + ABOUT:
        return "holds when", (
            f"cost is multiplications, parameters, or the memory of a fused kernel: {most} heads take "
            f"{ratios['multiplications']:g}, {ratios['parameters']:g} and {ratios['kept_fused']:.3g} times as much as "
            f"one. Where the weights A are kept, h·N² of them, it is {ratios['kept']:.3g} times the numbers"
        )
    return "holds", (
        f"{most} heads: {ratios['multiplications']:g} times the multiplications, {ratios['kept']:.3g} the memory"
    )


def draw(result: Result) -> Figure:
    names = {"multiplications": "multiplications", "kept": "numbers kept", "kept_fused": "numbers kept, fused"}
    lines = {label: [x / result[name][0] for x in result[name]] for name, label in names.items()}
    return pictures.curves(result["heads"], lines, across="heads", up="of one head", title="what more heads cost")


CLAIM = Experiment(
    number=10,
    name="what heads cost",
    statement="h heads of width d/h cost about as much as one head of width d.",
    formula="h · N^2 · frac{d}{h} = N^2 d",
    measured="Multiplications counted while a layer runs, its parameters, and the numbers that a pass keeps for "
    "training, for 1, 2, 4, … heads of one total width.",
    rule=f"fails if multiplications, parameters or a fused kernel's memory grow by more than {ABOUT:.0%}; holds when "
    "these are the cost if the numbers kept otherwise do; else holds.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"tokens": "how many tokens (N)", "width": "the layer's width (d)", "most": "up to so many heads"},
)
