"""Head scores: the weight on the keys that a behaviour would attend to, streamed over any number of inputs.

previous, next, self, offset k: one key by its distance. first: the first token (a sink). separator: specified tokens.
duplicate: earlier occurrences of the query's token. induction: the keys after those (Elhage et al. 2021, Olsson et al.
2022). local k: a window of k keys, or convolution k if one kernel explains it. diffuse: entropy near that of uniform
attention. Each has its null (see `head_null`), and a head is labelled only if its score clearly exceeds it.

A head that uses the first token as a sink may do something else in the remaining rows: rows in which the first token
has less than half of the weight are scored separately, and such a head gets both labels, or only the second if it is
not clearly a sink.

Offsets are defined for self-attention only; cross-attention is not scored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core import Pattern
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens.head_null import AttentionRows, Profile, RowStatistics, Score, Tally
from glassformer.lens.headtable import HeadRow, HeadTable, choose_behaviour, clear
from glassformer.lens.paths import attention_layers, within_sequence
from glassformer.lens.trace import Run, trace

Tokens = Tensor | Mapping[str, Tensor] | None
REACH, WIDTHS = 8, (3, 5, 7)  # largest offset, and numbers of keys in local windows
_BLOCK = 2**23  # elements of A held at once


class LayerTally:
    """Accumulates all scores of the heads of one layer."""

    def __init__(self, offsets: Sequence[object]) -> None:
        self.tallies: dict[str, Tally] = {}
        self.no_sink: dict[str, Tally] = {}  # rows that do not use the first token as a sink
        self.profile = Profile(offsets)

    def add(self, name: str, found: RowStatistics, no_sink: Tensor | None = None) -> None:
        self.tallies.setdefault(name, Tally()).add(found)
        if no_sink is not None:
            self.no_sink.setdefault(name, Tally()).add(found._replace(use=found.use & no_sink))

    def offsets(
        self,
        rows: AttentionRows,
        keys: Mapping[Any, Tensor],
        windows: Mapping[str, Sequence[object]],
        no_sink: Tensor | None = None,
    ) -> None:
        """Add one score per offset, one per window of offsets, and the profile."""
        self.profile.begin(rows)
        zero = torch.zeros_like(rows.total)
        sums = dict.fromkeys(windows, (zero, zero))
        for i, (offset, places) in enumerate(keys.items()):
            mass, k = rows.gather(places)
            self.add(offset_name(offset), rows.mass(mass, k), no_sink)
            self.profile.add(i, rows, mass, k)
            for name, window in windows.items():
                if offset in window:
                    sums[name] = (sums[name][0] + mass, sums[name][1] + k)
        for name, (mass, k) in sums.items():
            self.add(name, rows.mass(mass, k))

    def heads(self, no_sink: bool = False) -> list[dict[str, Score]]:
        """Return the scores of each head for which some row counted, over all rows or only those without a sink."""
        made = {name: tally.scores() for name, tally in (self.no_sink if no_sink else self.tallies).items()}
        count = max(map(len, made.values()), default=0)
        return [{name: s for name, each in made.items() if (s := each[h]) is not None} for h in range(count)]


def offset_name(offset: Any) -> str:
    """Return the name of an offset: −1 is previous, 0 self, 1 next; (dy, dx) on a grid."""
    if isinstance(offset, tuple):
        return "self" if not any(offset) else f"offset ({offset[0]:+d}, {offset[1]:+d})"
    return {-1: "previous", 0: "self", 1: "next"}.get(offset, f"offset {offset:+d}")


class HeadScores:
    """Accumulates head scores: call `scores.add(run, tokens)` for any number of runs, then `scores.table()`.

    A run must have traced A, and S where A is edited: `with trace(model, *score_paths(model)) as run`.
    """

    windows: dict[str, list[Any]]

    def __init__(self, *, reach: int = REACH, widths: Sequence[int] = WIDTHS, separators: Sequence[int] = ()) -> None:
        if reach < 1 or any(w < 3 or w % 2 == 0 or w // 2 > reach for w in widths):
            raise ConfigError(
                f"widths is {list(widths)} and reach is {reach}",
                f"choose odd widths from 3 to {2 * reach + 1}, and a reach of at least 1",
            )
        self.places: list[Any] = list(range(-reach, reach + 1))
        self.windows = {f"local {w}": [o for o in self.places if abs(o) <= w // 2] for w in sorted(widths)}
        self.separators = list(separators)
        self._layers: dict[str, LayerTally] = {}

    def add(self, run: Run, tokens: Tokens = None, real: Tensor | None = None) -> None:
        """Add every head of a run.

        `tokens` (b, s) are the tokens of the keys, by stack if they differ; `real` is False at padding.
        """
        for path in own_weights(run):
            layer = self._layers.setdefault(path, LayerTally(self.places))
            ids = tokens.get(path.split(".")[0]) if isinstance(tokens, Mapping) else tokens
            for rows in query_blocks(run, path, real):
                self.observe(layer, rows, ids, real)

    def observe(self, layer: LayerTally, rows: AttentionRows, tokens: Tensor | None, real: Tensor | None) -> None:
        s, p = rows.A.shape[-1], rows.where
        keys = {o: torch.where((p + o >= 0) & (p + o < s), p + o, -1)[None] for o in self.places}
        first = torch.zeros(1, dtype=torch.long, device=p.device) if real is None else real.long().argmax(1)
        sink = torch.where(p == first[:, None], -1, first[:, None])
        no_sink = (rows.gather(sink)[0] < 0.5) & (sink >= 0)[:, None]
        layer.offsets(rows, keys, self.windows, no_sink)
        layer.add("first", rows.at(sink))
        layer.add("diffuse", rows.entropy())
        if tokens is not None:
            for name, targets in token_targets(tokens, p, s, self.separators).items():
                layer.add(name, rows.within(targets), no_sink)

    def groups(self) -> list[list[str]]:
        """Return the names of behaviours in groups, from a single key to all keys."""
        points = [*map(offset_name, self.places), "first", "separator", "duplicate", "induction"]
        return [points, *([name] for name in self.windows), ["diffuse"]]

    columns: Sequence[str] = ("self", "previous", "next", "first", "separator", "duplicate", "induction", "diffuse")

    def table(self) -> HeadTable:
        made = []
        for path, layer in self._layers.items():
            numbers = re.findall(r"\d+", path)
            no_sink = layer.heads(no_sink=True)
            for h, scores in enumerate(layer.heads()):
                for name, window in self.windows.items():
                    fit = layer.profile.explained(h, window)
                    if fit is not None:
                        scores[f"explained by {name}"] = fit
                behind, kernel = choose_behaviour(scores, self.groups()), layer.profile.kernel(h)
                label = behind
                if behind in self.windows:
                    kernel = {o: w for o, w in kernel.items() if o in self.windows[behind]}
                    label = self.local_label(behind, clear(scores.get(f"explained by {behind}")), kernel)
                also = self.sinkless_label(scores, no_sink[h]) if behind in ("", "first") and h < len(no_sink) else ""
                labels = tuple(name for name in (also, label) if name)
                number = int(numbers[0]) if numbers else 0
                made.append(
                    HeadRow(path=path, layer=number, head=h, labels=labels, behind=behind, scores=scores, kernel=kernel)
                )
        return HeadTable(
            rows=made, columns=[*self.columns, *self.windows], points=[offset_name(o) for o in self.places]
        )

    def sinkless_label(self, scores: Mapping[str, Score], no_sink: Mapping[str, Score]) -> str:
        """Return the label of a head on the rows without a sink, if they are at least a twentieth of all rows."""
        enough = {name: score for name, score in no_sink.items() if score.rows >= max(8, scores[name].rows / 20)}
        return choose_behaviour(enough, [[name for name in self.groups()[0] if name != "first"]])

    def local_label(self, window: str, explained: bool, kernel: Mapping[Any, float]) -> str:
        """Return "convolution k" if one kernel explains the window; else "local k", where weights depend on the tokens.

        The width k counts the offsets that the mask allows: a causal head with offsets −2, −1, 0 has width 3.
        """
        return f"{'convolution' if explained else 'local'} {len(kernel)}"


def token_targets(tokens: Tensor, where: Tensor, s: int, separators: Sequence[int]) -> dict[str, Tensor]:
    """Return the target keys (b, t, s) of behaviours that depend on tokens: duplicate, induction, separator."""
    if tokens.shape[-1] != s:
        raise ShapeError(
            f"there are {tokens.shape[-1]} tokens for {s} keys", "give one token for each key, including the cache"
        )
    own = tokens[:, where][:, :, None]
    j = torch.arange(s, device=tokens.device)
    before = j < where[:, None]
    after = torch.cat([tokens[:, :1], tokens[:, :-1]], 1)[:, None] == own  # the previous token is the query's token
    found = {"duplicate": (tokens[:, None] == own) & before, "induction": after & before & (j > 0)}
    if separators:
        known = torch.tensor(separators, device=tokens.device)
        found["separator"] = torch.isin(tokens, known)[:, None].expand(-1, len(where), -1)
    return found


def own_weights(run: Run) -> list[str]:
    """Return the paths of A of the self-attention layers in a run."""
    paths = [path for path in run if path.rpartition(".")[2] == "A" and within_sequence(path.rpartition(".")[0])]
    if not paths:
        raise InputError("the run has no A of self-attention", "trace(model, *score_paths(model)) records it")
    return paths


def query_blocks(run: Run, path: str, real: Tensor | None) -> Iterator[AttentionRows]:
    """Yield every pass of one layer in blocks of query rows, which bounds the size of A in memory."""
    scores_path = path.removesuffix("A") + "S"
    for i, kept in enumerate(run.passes(path)):
        b, h, t, s = kept.shape
        step = max(1, _BLOCK // (b * h * s))
        S = kept if isinstance(kept, Pattern) else (run.passes(scores_path)[i] if scores_path in run else None)
        if S is None:
            raise InputError(f"S of {path} was not traced", "trace(model, *score_paths(model)) records S and A")
        for start in range(0, t, step):
            rows = slice(start, min(start + step, t))
            A = (kept.A(rows=rows) if isinstance(kept, Pattern) else kept[:, :, rows]).detach()
            where = torch.arange(s - t + rows.start, s - t + rows.stop, device=A.device)
            allowed = S.allowed(rows) if isinstance(S, Pattern) else ~torch.isneginf(S[:, :, rows])
            yield AttentionRows(A, allowed, where, None if real is None else _real_rows(real, where, s))


def _real_rows(real: Tensor, where: Tensor, s: int) -> Tensor:
    if real.shape[-1] != s:
        raise ShapeError(f"real covers {real.shape[-1]} tokens of {s}", "give one boolean for each key")
    return real[:, where]


def score_paths(model: nn.Module) -> list[str]:
    """Return the paths that head scores need: S and A of every self-attention layer. Fused layers keep one for both."""
    own = [path for path in attention_layers(model) if within_sequence(path)]
    return [f"{path}.{symbol}".lstrip(".") for path in own for symbol in "SA"]


@torch.no_grad()
def score_heads(
    model: nn.Module,
    batches: Iterable[Tensor | tuple[Tensor, ...]],
    *,
    reach: int = REACH,
    widths: Sequence[int] = WIDTHS,
    separators: Sequence[int] = (),
) -> HeadTable:
    """Score the heads of a model over batches of inputs; tokens are taken from integer inputs.

    A batch holds the arguments of the model: tokens, (tokens, real), (source, target), or vectors. `reach` is the
    largest offset that is scored, `widths` are the numbers of keys in local windows, `separators` are token ids.
    """
    scores = HeadScores(reach=reach, widths=widths, separators=separators)
    for batch in batches:
        inputs = batch if isinstance(batch, tuple) else (batch,)
        with trace(model, *score_paths(model)) as run:
            model(*inputs)
        ids = [x for x in inputs if not x.is_floating_point() and x.dtype != torch.bool]
        real = next((x for x in inputs if x.dtype == torch.bool), None)
        tokens: Tokens = dict(zip(("encoder", "decoder"), ids, strict=True)) if len(ids) == 2 else next(iter(ids), None)
        scores.add(run, tokens, real)
    table = scores.table()
    if not table.rows:
        raise InputError("no batches were given", "give at least one input")
    return table


def repeated_tokens(
    vocabulary: int, *, seed: int, lengths: Sequence[int] = (12, 15, 19), batch: int = 4, first: int | None = None
) -> list[Tensor]:
    """Return inputs for the standard induction test: random tokens followed by the same tokens; one batch per length.

    Several lengths distinguish a head that attends a fixed distance back from one that matches tokens. `first` is a
    begin-of-text token to prepend.
    """
    if vocabulary < 2:
        raise InputError(f"vocabulary must be at least 2, got {vocabulary}", "choose at least 2 tokens")
    generator = torch.Generator().manual_seed(seed)
    made = []
    for length in lengths:
        if length <= vocabulary:  # no repeats, so that each token of the second half occurs once before
            half = torch.stack([torch.randperm(vocabulary, generator=generator)[:length] for _ in range(batch)])
        else:
            half = torch.randint(vocabulary, (batch, length), generator=generator)
        begin = [] if first is None else [torch.full((batch, 1), first)]
        made.append(torch.cat([*begin, half, half], 1))
    return made
