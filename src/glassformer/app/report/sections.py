"""What the attention of a run shows, a section each. A is made one layer at a time."""

from __future__ import annotations

import math

import numpy as np

from glassformer import figures, lens
from glassformer.app.report.parts import folded, picture, pictures, says, section, table
from glassformer.app.report.seen import Seen
from glassformer.lens import HeadTable, Run

NAMED = 200  # tokens that have names along an axis
LINE = 60  # tokens that are drawn on one line
FLOWS = 32  # tokens for which max-flow is worked out
ROWS = 8  # query rows by which heads are compared


def weights_of(run: Run) -> list[str]:
    """The paths of A, in the order in which they ran."""
    return [path for path in run if path.rpartition(".")[2] == "A"]


def layer_of(path: str) -> str:
    return path.removesuffix(".A")


def stacks_of(run: Run) -> list[str]:
    """Stacks that attend to themselves."""
    return list(dict.fromkeys(path.split(".")[0] for path in weights_of(run) if ".cross" not in path))


def last_of(run: Run, stack: str) -> str:
    """The last layer in which a stack attends to itself."""
    return layer_of([p for p in weights_of(run) if p.startswith(f"{stack}.") and ".cross" not in p][-1])


def maps(run: Run, seen: Seen) -> str:
    """Every head of every layer; of sound, only where there is some."""
    shown = []
    for path in weights_of(run):
        queries, keys = (_names(names, seen) for names in seen.labels_of(path))
        A = run[path][0]
        if seen.heard and keys is None:
            A = A[:, : None if queries else seen.heard, : seen.heard]
        fig = figures.heads_of_layer(A, queries, keys, title=layer_of(path))
        shown.append((fig, f"Attention weights of every head of {layer_of(path)}"))
    text = "A row for each query, a column for each key; every row of weights sums to 1."
    if seen.grid is not None:
        text += " Patches are numbered row by row."
    if seen.heard:
        text += f" Shown are the {seen.heard} positions of sound, {seen.seconds:g} s each; silence fills up the rest."
    return section("Attention", says(text), *pictures(shown))


def _names(names: list[str] | None, seen: Seen) -> list[str] | None:
    """Along an axis, where they help: patches, and the tokens of a long text, go by number."""
    return names if names and len(names) <= NAMED and seen.grid is None else None


def entropies(run: Run) -> str:
    """−Σ A ln A of each head, the mean over its queries."""
    rows = [lens.entropy(run[path][0]).mean(-1).tolist() for path in weights_of(run)]
    names = [layer_of(path) for path in weights_of(run)]
    fig = figures.head_table(_even(rows), layers=names, measure="nats", title="entropy, mean over queries")
    most = max(math.log(run.passes(path)[-1].shape[-1]) for path in weights_of(run))
    text = f"0 is a head that looks at one key, {most:.2f} one that looks at all of them alike."
    return section("Entropy", says(text), picture(fig, "Entropy of each head, layers by heads"))


def _even(rows: list[list[float]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Layers of fewer heads are filled up with NaN."""
    width = max(map(len, rows))
    return np.array([row + [math.nan] * (width - len(row)) for row in rows])


def heads(run: Run, seen: Seen, found: HeadTable) -> str:
    """What each head does on this input: the label and its score."""
    labels: dict[str, list[str]] = {}
    scores: dict[str, list[float]] = {}
    for row in found:
        labels.setdefault(row.path, []).append(row.label)
        scores.setdefault(row.path, []).append(0.0 if row.score is None else max(0.0, row.score.excess))
    if not labels:
        return ""
    numbers = _even(list(scores.values()))
    names = [row + [""] * (numbers.shape[1] - len(row)) for row in labels.values()]
    fig = figures.head_table(
        numbers, names, [layer_of(path) for path in labels], measure="excess over the null", title="what heads do"
    )
    text = (
        "Named where it is clearly above what random attention would score on this one input; 1 is nothing but this. "
        "One input is little to judge a head by: lens.score_heads takes as many as there are."
    )
    whole = folded("Every score of every head", found._repr_html_())
    return section("Heads", says(text), picture(fig, "What each head does, layers by heads"), whole)


def map_of_heads(run: Run) -> str:
    """Heads that look alike, near each other; by few rows, for the distances of all would take long."""
    shown = []
    for stack in stacks_of(run):
        count = run.passes(f"{last_of(run, stack)}.A")[-1].shape[2]
        rows = sorted({round(i * (count - 1) / max(1, ROWS - 1)) for i in range(min(ROWS, count))})
        apart = lens.head_distances(run, f"{stack}.*.attention.A", rows=rows)
        if len(apart.names) < 3:
            continue
        places = lens.head_map(apart.D)
        names = [f"{path.split('.')[1]}.{head}" for path, head in apart.names]
        title = f"{stack}: layer.head, near if they look alike ({places.kept:.0%} of the distances fit)"
        shown.append(picture(figures.head_map(places.xy, names, places.group, title=title), f"Map of heads: {stack}"))
    text = "Heads that look at the same places lie near each other: distances are by Jensen and Shannon, of a few rows."
    return section("Map of heads", says(text), *shown) if shown else ""


def flow(run: Run, seen: Seen) -> str:
    """How much of each input is in each position of the last layer."""
    shown = []
    for stack in stacks_of(run):
        if seen.grid is not None:
            continue  # a picture has overlays
        R = lens.rollout(run, f"{stack}.*.attention.A")[0]
        names = _names(seen.labels.get(stack), seen)
        title = f"rollout of the {stack}"
        fig = figures.attention_map(R, names, names, title=title)
        shown.append(picture(fig, f"Attention rollout of the {stack}"))
        if names and len(names) <= FLOWS:
            most = lens.max_flow(run, len(names) - 1, f"{stack}.*.attention.A")[0].tolist()
            rows = [(name, f"{r:.3f}", f"{f:.3f}") for name, r, f in zip(names, R[-1].tolist(), most, strict=True)]
            shown.append(table([f"what is in the last {stack} position", "rollout", "max-flow"], rows))
    text = (
        "How much of each input (column) is in each position (row) after all layers, each of them half attention and "
        "half what passes by it. Max-flow is how much could come through at most: its numbers need not sum to 1."
    )
    return section("Flow", says(text), *shown) if shown else ""


def lines(run: Run, seen: Seen) -> str:
    """Arcs between the tokens, last layer, mean over heads."""
    shown = []
    for stack in stacks_of(run):
        names, path = seen.labels.get(stack), last_of(run, stack)
        if seen.grid is not None or names is None or len(names) > LINE:
            continue
        title = f"{path}, mean over heads"
        shown.append(picture(figures.arcs(run[f"{path}.A"][0].mean(0), names, title=title), f"Arcs: {title}"))
    text = "From each token to those it looks at: the thicker, the more."
    return section("Who attends to whom", says(text), *shown) if shown else ""


def aligned(run: Run, seen: Seen) -> str:
    """Attention to the source of the last layer, mean over heads; of sound, only where there is some."""
    crossing = [path for path in weights_of(run) if ".cross" in path or path == "attention.A"]
    if not crossing:
        return ""
    A = run[crossing[-1]][0]
    A = A.mean(0) if A.dim() == 3 else A
    target, source = seen.labels["decoder"], seen.labels.get("encoder")
    if source is None:
        A, source = A[:, : seen.heard], [f"{i * seen.seconds:.2f} s" for i in range(seen.heard)]
    title = layer_of(crossing[-1]) + (", mean over heads" if ".cross" in crossing[-1] else "")
    fig = figures.alignment(A, source, target, title=title)
    text = "What each token of the target (row) looks at in the source; the largest of a row is framed."
    return section("Alignment", says(text), picture(fig, f"Alignment of target and source: {title}"))


def heard(run: Run, seen: Seen) -> str:
    """Over the spectrogram: the weights of the encoder's query in the middle, and what the last token listens to."""
    path = last_of(run, "encoder")
    frames, places = seen.inputs[0][0], seen.heard or run.passes(f"{path}.A")[-1].shape[2]
    frames = frames[: round(len(frames) * places / run.passes(f"{path}.A")[-1].shape[2])]
    middle = places // 2
    asked: list[tuple[str, int, int | None, str]] = [
        (path, middle, middle, f"the query at {(middle + 0.5) * seen.seconds:.2f} s")
    ]
    crossing = [layer_of(p) for p in weights_of(run) if ".cross" in p]
    if crossing:
        names = seen.labels["decoder"]
        asked.append((crossing[-1], len(names) - 1, None, f"the token {names[-1]!r}"))
    shown = []
    for layer, row, query, who in asked:
        A = run.part(f"{layer}.A", rows=[row])[0, :, 0, :places]
        title = f"{layer}, {who}"
        fig = figures.spectrogram_attention(frames, A, query=query, seconds=seen.seconds, title=title)
        shown.append(picture(fig, f"Attention over the spectrogram: {title}"))
    return section("Sound", says("The spectrogram, and below it what each head of one query listens to."), *shown)
