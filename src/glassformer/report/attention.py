"""Report sections about the attention of a run. A is recomputed one layer at a time."""

from __future__ import annotations

import math

import numpy as np

from glassformer import figures, lens
from glassformer.lens import HeadTable, Run
from glassformer.lens.paths import within_sequence
from glassformer.report.inputs import Inputs
from glassformer.report.views import Block, Details, Paragraph, Section, embed_figure, table

NAMED = 200  # maximum number of tokens for which an axis shows names
LINE = 60  # maximum number of tokens for which arcs are drawn
FLOWS = 32  # maximum number of tokens for which max-flow is computed
ROWS = 8  # number of query rows in which heads are compared


def weight_paths(run: Run) -> list[str]:
    """Return the paths of A in execution order."""
    return [path for path in run if path.rpartition(".")[2] == "A"]


def layer_of(path: str) -> str:
    return path.removesuffix(".A")


def stacks_of(run: Run) -> list[str]:
    """Return the names of stacks with self-attention."""
    return list(dict.fromkeys(path.split(".")[0] for path in weight_paths(run) if within_sequence(layer_of(path))))


def last_of(run: Run, stack: str) -> str:
    """Return the path of the last self-attention layer of a stack."""
    return layer_of([p for p in weight_paths(run) if p.startswith(f"{stack}.") and within_sequence(layer_of(p))][-1])


def maps(run: Run, inputs: Inputs) -> list[Section]:
    """Section with A of every head of every layer; audio is shown without its padding."""
    shown: list[Block] = []
    for path in weight_paths(run):
        queries, keys = (_names(names, inputs) for names in inputs.labels_of(path))
        A = run[path][0]
        if inputs.audible and keys is None:
            A = A[:, : None if queries else inputs.audible, : inputs.audible]
        fig = figures.heads_of_layer(A, queries, keys, title=layer_of(path))
        shown.append(embed_figure(fig, f"Attention weights of every head of {layer_of(path)}"))
    text = "A row for each query, a column for each key; every row of weights sums to 1."
    if inputs.grid is not None:
        text += " Patches are numbered row by row."
    if inputs.audible:
        text += f" Shown are the {inputs.audible} positions with audio, {inputs.seconds:g} s each; padding follows."
    return [Section("Attention", [Paragraph(text), *shown])]


def _names(names: list[str] | None, inputs: Inputs) -> list[str] | None:
    """Return names along an axis, or None for patches and long texts, which are numbered."""
    return names if names and len(names) <= NAMED and inputs.grid is None else None


def entropies(run: Run) -> list[Section]:
    """−Σ A ln A of each head, averaged over queries, as a section."""
    rows = [lens.entropy(run[path][0]).mean(-1).tolist() for path in weight_paths(run)]
    names = [layer_of(path) for path in weight_paths(run)]
    fig = figures.head_table(_even(rows), layers=names, measure="nats", title="entropy, mean over queries")
    most = max(math.log(run.passes(path)[-1].shape[-1]) for path in weight_paths(run))
    text = f"0 for a head that attends to a single key, {most:.2f} for one that attends to all keys equally."
    return [Section("Entropy", [Paragraph(text), embed_figure(fig, "Entropy of each head, layers by heads")])]


def _even(rows: list[list[float]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Pad layers with fewer heads with NaN."""
    width = max(map(len, rows))
    return np.array([row + [math.nan] * (width - len(row)) for row in rows])


def heads(found: HeadTable) -> list[Section]:
    """Section with the label and score of each head on this input."""
    labels: dict[str, list[str]] = {}
    scores: dict[str, list[float]] = {}
    for row in found:
        labels.setdefault(row.path, []).append(row.label)
        scores.setdefault(row.path, []).append(0.0 if row.score is None else max(0.0, row.score.excess))
    if not labels:
        return []
    numbers = _even(list(scores.values()))
    names = [row + [""] * (numbers.shape[1] - len(row)) for row in labels.values()]
    fig = figures.head_table(
        numbers, names, [layer_of(path) for path in labels], measure="excess over the null", title="what heads do"
    )
    text = (
        "A head is labelled where its score is clearly above that of random attention on this input; 1 is the maximum. "
        "A single input is weak evidence: lens.score_heads takes as many as you have."
    )
    whole = Details("Every score of every head", found._repr_html_())
    return [Section("Heads", [Paragraph(text), embed_figure(fig, "What each head does, layers by heads"), whole])]


def map_of_heads(run: Run) -> list[Section]:
    """Section with heads mapped by the distance between their weights, over a few rows to limit the computation."""
    shown: list[Block] = []
    for stack in stacks_of(run):
        count = run.passes(f"{last_of(run, stack)}.A")[-1].shape[2]
        rows = sorted({round(i * (count - 1) / max(1, ROWS - 1)) for i in range(min(ROWS, count))})
        apart = lens.head_distances(run, f"{stack}.*.attention.A", rows=rows)
        if len(apart.names) < 3:
            continue
        places = lens.head_map(apart.D)
        names = [f"{path.split('.')[1]}.{head}" for path, head in apart.names]
        title = f"{stack}: layer.head, closer if more similar ({places.kept:.0%} of the distances are preserved)"
        shown.append(
            embed_figure(figures.head_map(places.xy, names, places.group, title=title), f"Map of heads: {stack}")
        )
    text = f"Heads with similar attention lie close together (Jensen–Shannon distance over up to {ROWS} query rows)."
    return [Section("Map of heads", [Paragraph(text), *shown])] if shown else []


def flow(run: Run, inputs: Inputs) -> list[Section]:
    """Section with the fraction of each input that reaches each position of the last layer."""
    shown: list[Block] = []
    for stack in stacks_of(run):
        if inputs.grid is not None:
            continue  # images have overlays instead
        R = lens.rollout(run, f"{stack}.*.attention.A")[0]
        names = _names(inputs.labels.get(stack), inputs)
        fig = figures.attention_map(R, names, names, title=f"rollout of the {stack}")
        shown.append(embed_figure(fig, f"Attention rollout of the {stack}"))
        if names and len(names) <= FLOWS:
            most = lens.max_flow(run, len(names) - 1, f"{stack}.*.attention.A")[0].tolist()
            rows = [(name, f"{r:.3f}", f"{f:.3f}") for name, r, f in zip(names, R[-1].tolist(), most, strict=True)]
            shown.append(table([f"input of the last {stack} position", "rollout", "max-flow"], rows))
    text = (
        "Rollout: how much of each input (column) is in each position (row) after all layers, if every layer passes on "
        "half through attention and half through the residual. Max-flow: the most that could reach the position; its "
        "values need not sum to 1."
    )
    return [Section("Flow", [Paragraph(text), *shown])] if shown else []


def arcs(run: Run, inputs: Inputs) -> list[Section]:
    """Section with arcs between tokens in the last layer, averaged over heads."""
    shown: list[Block] = []
    for stack in stacks_of(run):
        names, path = inputs.labels.get(stack), last_of(run, stack)
        if inputs.grid is not None or names is None or len(names) > LINE:
            continue
        title = f"{path}, mean over heads"
        shown.append(embed_figure(figures.arcs(run[f"{path}.A"][0].mean(0), names, title=title), f"Arcs: {title}"))
    text = "From each token to the tokens it attends to; thicker arcs are larger weights."
    return [Section("Arcs", [Paragraph(text), *shown])] if shown else []


def alignment(run: Run, inputs: Inputs) -> list[Section]:
    """Section with cross-attention of the last layer, averaged over heads; audio is shown without its padding."""
    crossing = [path for path in weight_paths(run) if ".cross" in path or path == "attention.A"]
    if not crossing:
        return []
    A = run[crossing[-1]][0]
    A = A.mean(0) if A.dim() == 3 else A
    target, source = inputs.labels["decoder"], inputs.labels.get("encoder")
    if source is None:
        A, source = A[:, : inputs.audible], [f"{i * inputs.seconds:.2f} s" for i in range(inputs.audible)]
    title = layer_of(crossing[-1]) + (", mean over heads" if ".cross" in crossing[-1] else "")
    fig = figures.alignment(A, source, target, title=title)
    text = "The source positions that each target token (row) attends to; the largest weight of a row is framed."
    return [Section("Alignment", [Paragraph(text), embed_figure(fig, f"Alignment of target and source: {title}")])]


def spectrogram(run: Run, inputs: Inputs) -> list[Section]:
    """Section with attention over the spectrogram, for the encoder's middle query and the decoder's last token."""
    path = last_of(run, "encoder")
    positions = run.passes(f"{path}.A")[-1].shape[2]
    frames, audible = inputs.tensors[0][0], inputs.audible or positions
    frames = frames[: round(len(frames) * audible / positions)]
    middle = audible // 2
    chosen: list[tuple[str, int, int | None, str]] = [
        (path, middle, middle, f"the query at {(middle + 0.5) * inputs.seconds:.2f} s")
    ]
    crossing = [layer_of(p) for p in weight_paths(run) if ".cross" in p]
    if crossing:
        names = inputs.labels["decoder"]
        chosen.append((crossing[-1], len(names) - 1, None, f"the token {names[-1]!r}"))
    shown: list[Block] = []
    for layer, row, query, who in chosen:
        A = run.part(f"{layer}.A", rows=[row])[0, :, 0, :audible]
        title = f"{layer}, {who}"
        fig = figures.spectrogram_attention(frames, A, query=query, seconds=inputs.seconds, title=title)
        shown.append(embed_figure(fig, f"Attention over the spectrogram: {title}"))
    text = "The spectrogram, and below it the attention of each head for one query."
    return [Section("Audio", [Paragraph(text), *shown])]
