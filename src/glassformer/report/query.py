"""Report sections about single queries: margins of the largest weights, scores by coordinate, and scaled keys."""

from __future__ import annotations

import math

import torch

from glassformer import figures, lens
from glassformer.lens import Layer, Margins, Run
from glassformer.report.attention import last_of, stacks_of
from glassformer.report.inputs import Inputs
from glassformer.report.views import Block, Paragraph, Section, embed_figure, table

KEYS = 40  # maximum number of keys shown, by largest weight
FACTORS = torch.linspace(0.0, 2.0, 21)


def margins(run: Run, inputs: Inputs) -> list[Section]:
    """Section with the largest weight and its margin, for the last query (CLS of an image) in each last-layer head."""
    shown: list[Block] = []
    for stack in stacks_of(run):
        path, names = last_of(run, stack), inputs.labels.get(stack)
        query = _query(run, path, inputs)
        count = run.passes(f"{path}.A")[-1].shape[1]
        rows = [_row(head, lens.margins(run, path, head, query), names) for head in range(count)]
        header = ["head", "largest weight", "second", "score gap", "distance the key may move", "factor on the key"]
        shown += [Paragraph(f"{path}, query {_name(names, query)}:"), table(header, rows)]
    text = (
        "How far the key with the largest weight may move, as a distance in key space, and by which factor it may be "
        "scaled, before another key has the largest weight."
    )
    return [Section("Margins", [Paragraph(text), *shown])]


def _row(head: int, found: Margins, names: list[str] | None) -> list[str]:
    best, second = int(found.winner), int(found.runner)
    distance, alpha = float(found.distance[best]), float(found.alpha[best])
    runner_up = "none" if second < 0 else _name(names, second)
    return [str(head), _name(names, best), runner_up, *map(_number, (float(found.gap), distance, alpha))]


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "any"


def _name(names: list[str] | None, i: int) -> str:
    return str(i) if names is None else f"{names[i]} ({i})"


def _query(run: Run, path: str, inputs: Inputs) -> int:
    return 0 if inputs.grid is not None else run.passes(f"{path}.A")[-1].shape[2] - 1


def one_query(run: Run, inputs: Inputs) -> list[Section]:
    """Section on the lowest-entropy head of the last layer: β q·k by coordinate, and the effect of scaling a key."""
    stack = stacks_of(run)[-1]
    path, names = last_of(run, stack), inputs.labels.get(stack)
    query = _query(run, path, inputs)
    head = int(lens.entropy(run.part(f"{path}.A", rows=[query])[0, :, 0]).argmin())
    layer = lens.layer_at(run, path).head(0, head).rows([query])
    where = f"{path}, head {head}, query {_name(names, query)}"
    text = (
        "The head of the last layer with the lowest entropy: which coordinates of query and key make up its scores, "
        "and how its weights change if the key with the largest weight is scaled. Predictions are first-order."
    )
    return [Section("One query", [Paragraph(text), *_coordinates(layer, names, where), *_scaled(layer, names, where)])]


def _coordinates(layer: Layer, names: list[str] | None, where: str) -> list[Block]:
    best = layer.attend().A[0].topk(min(KEYS, layer.K.shape[0])).indices.sort().values
    labels = [_name(names, i) for i in best.tolist()] if names else [str(i) for i in best.tolist()]
    fig = figures.score_by_coordinate(layer.Q[0], layer.K[best], labels, beta=layer.beta, title=f"β q·k: {where}")
    few = "" if len(best) == layer.K.shape[0] else f" (the {len(best)} keys with the largest weights)"
    drawn = embed_figure(fig, f"Coordinates that make the scores of {where}")
    return [drawn, Paragraph(f"Contribution of each coordinate{few}.")]


def _scaled(layer: Layer, names: list[str] | None, where: str) -> list[Block]:
    """ΔA of the largest and second-largest weights as the key of the largest is scaled from 0 to 2."""
    found = lens.margins_of(layer)
    best, second = int(found.winner), int(found.runner)
    if second < 0:
        return []
    changes = [lens.scale_key(layer, best, float(alpha)) for alpha in FACTORS]
    both = [best, second]
    predicted, measured = (
        torch.stack([getattr(change, kind)[0, both] for change in changes], 1).double()
        for kind in ("predicted_A", "measured_A")
    )
    alpha = float(found.alpha[0, best])
    fig = figures.sensitivity_curves(
        FACTORS,
        predicted,
        measured,
        [_name(names, i) for i in both],
        margin=alpha if 0 <= alpha <= 2 else None,
        across=f"factor on the key of {_name(names, best)}",
        title=where,
    )
    return [embed_figure(fig, f"Change of the weights of {where}: measured, and predicted to first order")]
