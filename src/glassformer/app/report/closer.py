"""One query under the glass: what makes its scores, how far its keys may move, and what a change does."""

from __future__ import annotations

import math

import torch

from glassformer import figures, lens
from glassformer.app.report.parts import picture, says, section, table
from glassformer.app.report.sections import last_of, stacks_of
from glassformer.app.report.seen import Seen
from glassformer.lens import Layer, Margins, Run

KEYS = 40  # of more, those with the largest weights are shown
FACTORS = torch.linspace(0.0, 2.0, 21)


def margins(run: Run, seen: Seen) -> str:
    """Every head of the last layer, its last query (of a picture CLS): the winner, and what would unseat it."""
    shown = []
    for stack in stacks_of(run):
        path, names = last_of(run, stack), seen.labels.get(stack)
        query = _query(run, path, seen)
        count = run.passes(f"{path}.A")[-1].shape[1]
        rows = [_row(head, lens.margins(run, path, head, query), names) for head in range(count)]
        header = ["head", "looks most at", "then at", "gap of scores", "the key may move by", "or be scaled by"]
        shown += [says(f"{path}, query {_name(names, query)}:"), table(header, rows)]
    text = (
        "How far the key with the largest weight may move before another key has it, as a distance in the space of "
        "keys, and the factor on the key that would do it."
    )
    return section("Margins", says(text), *shown)


def _row(head: int, found: Margins, names: list[str] | None) -> list[str]:
    best, second = int(found.winner), int(found.runner)
    distance, alpha = float(found.distance[best]), float(found.alpha[best])
    then = "nothing else" if second < 0 else _name(names, second)
    return [str(head), _name(names, best), then, *map(_number, (float(found.gap), distance, alpha))]


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "nothing does"


def _name(names: list[str] | None, i: int) -> str:
    return str(i) if names is None else f"{names[i]} ({i})"


def _query(run: Run, path: str, seen: Seen) -> int:
    return 0 if seen.grid is not None else run.passes(f"{path}.A")[-1].shape[2] - 1


def closer(run: Run, seen: Seen) -> str:
    """The sharpest head of the last layer: β q·k by coordinate, and its winner's key scaled."""
    stack = stacks_of(run)[-1]
    path, names = last_of(run, stack), seen.labels.get(stack)
    query = _query(run, path, seen)
    head = int(lens.entropy(run.part(f"{path}.A", rows=[query])[0, :, 0]).argmin())
    layer = lens.layer_at(run, path).head(0, head).rows([query])
    where = f"{path}, head {head}, query {_name(names, query)}"
    text = (
        "The sharpest head of the last layer: which coordinates of query and key make its scores, and what becomes of "
        "its weights if the key it looks at most is scaled; predicted is to first order."
    )
    return section("One query", says(text), _coordinates(layer, names, where), _scaled(layer, names, where))


def _coordinates(layer: Layer, names: list[str] | None, where: str) -> str:
    best = layer.attend().A[0].topk(min(KEYS, layer.K.shape[0])).indices.sort().values
    labels = [_name(names, i) for i in best.tolist()] if names else [str(i) for i in best.tolist()]
    fig = figures.score_by_coordinate(layer.Q[0], layer.K[best], labels, beta=layer.beta, title=f"β q·k: {where}")
    few = "" if len(best) == layer.K.shape[0] else f" (the {len(best)} keys with the largest weights)"
    return picture(fig, f"Which coordinates make the scores of {where}") + says(f"What makes each score{few}.")


def _scaled(layer: Layer, names: list[str] | None, where: str) -> str:
    """ΔA of the winner and the runner-up as the winner's key is scaled from 0 to 2."""
    found = lens.margins_of(layer)
    best, second = int(found.winner), int(found.runner)
    if second < 0:
        return ""
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
    return picture(fig, f"Change of the weights of {where}, predicted to first order and measured")
