"""Where a sequence model hears what it should not: look-ahead beyond what is declared, and streams that differ.

Output j stands for frames j·r … (j+1)·r − 1, and may hear from `left` frames before its chunk to `lookahead` frames
after it. What it does hear is measured (`receptive_field`); all counts are of input frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from glassformer.errors import GlassError, InputError
from glassformer.lens.receptive import (
    STRENGTHS,
    Encoder,
    Field,
    Progress,
    answer,
    change_of,
    receptive_field,
    size_of,
    still,
)

Kind = Literal["lookahead", "left", "everything", "length", "stream"]
Streaming = Callable[[Iterable[Tensor]], Iterable[Tensor]]  # pieces (b, k, f) in, as they come; outputs (b, n, m) out


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What an output may hear, in input frames: `lookahead` after its chunk and `left` before it; None is all.

    `chunk` frames are heard together (1: every output alone). `stride` frames make an output; measured if None.
    """

    lookahead: int | None = 0
    left: int | None = None
    chunk: int = 1
    stride: int | None = None

    def __post_init__(self) -> None:
        least = {"lookahead": 0, "left": 0, "chunk": 1, "stride": 1}
        if any(getattr(self, name) is not None and getattr(self, name) < low for name, low in least.items()):
            raise InputError(f"{self} describes no view", "count frames: 0 or more, a chunk and a stride of 1 or more")

    def view(self, j: int, stride: int, t: int) -> tuple[int, int]:
        """The first and the last of t frames that output j may hear."""
        size = max(self.chunk, stride)
        if size % stride:
            fact = f"chunks of {size} frames are not whole outputs of {stride}"
            raise InputError(fact, f"choose a multiple of {stride}")
        start = j * stride // size * size
        first = 0 if self.left is None else max(0, start - self.left)
        return first, t - 1 if self.lookahead is None else min(t - 1, start + size - 1 + self.lookahead)


CAUSAL = Declared()


class Leak(NamedTuple):
    kind: Kind
    text: str
    output: int
    effect: float  # the change, of the largest output


class Streamed(NamedTuple):
    """One way of feeding the stream: how many frames at a time, what came out, and how long outputs were waited for.

    `difference` is the largest from offline, of the largest output; `waited` the most frames fed, counted from an
    output's first, before it came (those at the very end left out); `first` the first output that differs.
    """

    piece: int
    outputs: int
    difference: float
    first: int | None
    waited: int | None


class Reach(NamedTuple):
    """The farthest that any output hears; `bounded` is False where only the example's end stopped it."""

    frames: int
    bounded: bool

    def __str__(self) -> str:
        return _frames(self.frames) + ("" if self.bounded else " or more (to the edge of the example)")


def _frames(count: int) -> str:
    return f"{count} frame" if count == 1 else f"{count} frames"


@dataclass(frozen=True)
class LeakReport:
    """`ahead` counts from an output's own last frame, `back` from its first; `seconds` is the time of one frame."""

    field: Field
    declared: Declared
    leaks: tuple[Leak, ...]
    streamed: tuple[Streamed, ...]
    seconds: float | None

    @property
    def clean(self) -> bool:
        return not self.leaks

    @property
    def ahead(self) -> Reach:
        t, r = self.field.depends.shape[1], self.field.stride
        return _farthest((last - (j + 1) * r + 1, last < t - 1) for j, last in enumerate(self.field.last) if last >= 0)

    @property
    def back(self) -> Reach:
        t, r = self.field.depends.shape[1], self.field.stride
        return _farthest((j * r - first, first > 0) for j, first in enumerate(self.field.first) if first < t)

    @property
    def latency(self) -> Reach:
        """Frames that must have come, from an output's own first on, until nothing that it hears is missing."""
        ahead = self.ahead
        return Reach(max(ahead.frames + self.field.stride, 1), ahead.bounded)

    @property
    def latency_seconds(self) -> float | None:
        return None if self.seconds is None else self.latency.frames * self.seconds

    def __str__(self) -> str:
        n, t = self.field.depends.shape
        d, seconds = self.declared, self.latency_seconds
        says = "all" if d.lookahead is None else f"{d.lookahead} after its chunk of {max(d.chunk, self.field.stride)}"
        before = "all" if d.left is None else f"{d.left} before its chunk"
        lines = [
            f"measured  {t} frames → {n} outputs, {_frames(self.field.stride)} to each",
            f"          by {' and '.join(self.field.probes)}",
            f"ahead     {self.ahead} after its own (declared: {says})",
            f"back      {self.back} before its own (declared: {before})",
            f"latency   {self.latency}" + ("" if seconds is None else f", {seconds:.4g} s"),
        ]
        for s in self.streamed:
            waited = "" if s.waited is None else f", waits {_frames(s.waited)}"
            lines.append(f"stream    {s.piece} at a time: differs from offline by {s.difference:.1e}{waited}")
        lines += [f"LEAK      {leak.text}" for leak in self.leaks]
        return "\n".join(lines if self.leaks else [*lines, "clean     nothing is heard that is not declared"])


def _farthest(reaches: Iterable[tuple[int, bool]]) -> Reach:
    """The largest, and whether someone who reaches so far was stopped by nothing."""
    return Reach(*max(reaches, default=(0, True)))


def find_leaks(
    encoder: Encoder,
    example: Tensor,
    *,
    declared: Declared = CAUSAL,
    streaming: Streaming | None = None,
    pieces: Sequence[int] = (1, 3, 7),
    seconds: float | None = None,
    strengths: Sequence[float] = STRENGTHS,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> LeakReport:
    """Measures what every output of an encoder hears, and compares it with what is declared and with its stream.

    The encoder is any callable from frames (b, t, f), or token ids (b, t), to (b, n, m). `streaming` takes an iterable
    of pieces and yields outputs as they become final, `for x in pieces: y, state = step(x, state); yield y`; it is fed
    with pieces of the given sizes. `seconds` is the time of one input frame.
    """
    field = receptive_field(
        encoder, example, stride=declared.stride, strengths=strengths, seed=seed, progress=progress
    )
    leaks = [*_heard(field, declared), *_by_length(encoder, example, field, declared)]
    streamed = []
    for piece in pieces if streaming is not None else ():
        assert streaming is not None
        with still(encoder):
            streamed.append(_streamed(streaming, example, piece, field))
        leaks += _unlike(streamed[-1], field)
    return LeakReport(field, declared, tuple(leaks), tuple(streamed), seconds)


def _heard(field: Field, declared: Declared) -> Iterator[Leak]:
    """The worst output on either side, or that everything hears everything."""
    n, t = field.depends.shape
    views = [declared.view(j, field.stride, t) for j in range(n)]
    late = [last - views[j][1] for j, last in enumerate(field.last)]
    early = [views[j][0] - first for j, first in enumerate(field.first)]
    if field.depends.all() and max(late + early) > 0:
        least = field.effect.min().item()
        text = f"every output hears every frame (each changes it by at least {least:.1e} of the largest output)"
        cause = "a normalisation over time, attention without a mask, or a backward direction does this"
        yield Leak("everything", f"{text}: {cause}", late.index(max(late)), least)
        return
    if max(late) > 0:
        yield _beyond(field, "lookahead", late, field.last)
    if max(early) > 0:
        yield _beyond(field, "left", early, field.first)


def _beyond(field: Field, kind: Kind, beyond: list[int], ends: list[int]) -> Leak:
    """The first of those outputs that hear farthest."""
    j = beyond.index(max(beyond))
    frame = ends[j]
    effect = field.effect[j, frame].item()
    seen = f"changes it by {effect:.1e} of the largest output"
    if field.faint[j, frame]:
        seen = "found by the gradient alone"
    side = "after" if kind == "lookahead" else "before"
    many = sum(more > 0 for more in beyond)
    text = f"output {j} hears frame {frame}, {beyond[j]} {side} all that is declared ({seen}; {many} outputs do so)"
    return Leak(kind, text, j, effect)


def _by_length(encoder: Encoder, example: Tensor, field: Field, declared: Declared) -> Iterator[Leak]:
    """Cut where an output has all that it hears, it must stay: else it hears how long the input is."""
    t, Y = example.shape[1], field.outputs
    for cut in sorted({t // 2, t // 2 + 1, 3 * t // 4}):
        try:
            with still(encoder):
                shorter = answer(encoder, example[:, :cut])
        except GlassError:  # a model of one length only: nothing to compare
            continue
        ends = [max(field.last[j], declared.view(j, field.stride, t)[1]) for j in range(Y.shape[1])]
        whole = [j for j in range(min(Y.shape[1], shorter.shape[1])) if ends[j] < cut]
        if not whole:
            continue
        change = change_of(shorter[:, whole], Y[:, whole]).amax((0, 2))
        if change.max() > field.tolerance:
            j = whole[int((change > field.tolerance).nonzero()[0])]
            effect = change.max().item() / max(size_of(Y), 1e-30)
            text = f"output {j} changes by up to {effect:.1e} when the input ends after {cut} frames instead of {t}"
            yield Leak("length", f"{text}, though it hears none of those that are gone", j, effect)
            return


def _streamed(streaming: Streaming, example: Tensor, piece: int, field: Field) -> Streamed:
    """Fed piece by piece, each output noted with how many frames had been fed when it came."""
    if piece < 1:
        raise InputError(f"pieces of {piece} frames", "feed at least 1 at a time")
    fed, t, Y = 0, example.shape[1], field.outputs

    def pieces() -> Iterator[Tensor]:
        nonlocal fed
        for part in example.split(piece, 1):
            fed += part.shape[1]
            yield part

    parts, come = [], []
    try:
        for part in streaming(pieces()):
            parts.append(part.detach().flatten(2))
            come += [fed] * part.shape[1]
    except GlassError:
        raise
    except Exception as error:  # anyone's code
        fact = f"the stream failed when fed {piece} frames at a time ({type(error).__name__}: {error})"
        raise InputError(fact, "give one that takes pieces of that size, or other pieces") from error
    S = torch.cat(parts, 1) if parts else Y[:, :0]
    both = min(S.shape[1], Y.shape[1])
    change = change_of(S[:, :both], Y[:, :both]).amax((0, 2))
    wrong = (change > field.tolerance).nonzero().flatten().tolist()
    waits = [when - j * field.stride for j, when in enumerate(come) if when < t]
    difference = change.max().item() / max(size_of(Y), 1e-30) if both else 0.0
    first = wrong[0] if wrong else both if S.shape[1] != Y.shape[1] else None
    return Streamed(piece, S.shape[1], difference, first, max(waits, default=None))


def _unlike(streamed: Streamed, field: Field) -> Iterator[Leak]:
    n, j = field.depends.shape[0], streamed.first
    if j is None:
        return
    text = f"fed {streamed.piece} at a time, the stream first differs from offline at output {j}"
    at = f" (frame {j * field.stride}, in piece {j * field.stride // streamed.piece})"
    more = f", by up to {streamed.difference:.1e} of the largest output"
    count = "" if streamed.outputs == n else f"; it gives {streamed.outputs} outputs where offline gives {n}"
    yield Leak("stream", text + at + more + count, j, streamed.difference)
