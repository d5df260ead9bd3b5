"""Test whether a sequence model depends on inputs that it should not, and whether streaming differs from offline.

Output j covers frames j·r … (j+1)·r − 1, and may depend on frames from `left` before its chunk to `lookahead` after it.
The actual dependence is measured (`receptive_field`), in float64 where the encoder allows it, and then on longer
inputs until the reach stops growing. All counts are in input frames.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from glassformer.errors import GlassError, InputError
from glassformer.lens.receptive import (
    SHAPES,
    STRENGTHS,
    Encoder,
    Field,
    Progress,
    change_of,
    in_eval_mode,
    module_of,
    noise_of,
    outputs_of,
    perturbed,
    receptive_field,
    rounding,
    size_of,
)
from glassformer.models.protocols import StreamModel

Kind = Literal["lookahead", "left", "everything", "length", "stream", "training"]
Streaming = Callable[[Iterable[Tensor]], Iterable[Tensor]]  # pieces (b, k, f), as they arrive, to outputs (b, n, m)
CUTS = 8  # positions in a longer input before or after which every frame is perturbed
TRIED = 256  # frames: try inputs of at least this length, and of twice the example
LONGEST = 16  # times the example: the longest input to try


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Declared dependence in input frames: `lookahead` after an output's chunk and `left` before it; None is unlimited.

    The outputs of `chunk` frames depend on the same inputs (1: each output alone). There is one output per `stride`
    frames; None means that the stride is measured.
    """

    lookahead: int | None = 0
    left: int | None = None
    chunk: int = 1
    stride: int | None = None

    def __post_init__(self) -> None:
        least = {"lookahead": 0, "left": 0, "chunk": 1, "stride": 1}
        if any(getattr(self, name) is not None and getattr(self, name) < low for name, low in least.items()):
            raise InputError(
                f"{self} is not a valid receptive field", "count frames: 0 or more, a chunk and a stride of 1 or more"
            )

    def view(self, j: int, stride: int, t: int) -> tuple[int, int]:
        """Return the first and the last frame, of t, that output j may depend on."""
        size = max(self.chunk, stride)
        if size % stride:
            fact = f"chunks of {size} frames are not a multiple of the stride {stride}"
            raise InputError(fact, f"choose a multiple of {stride}")
        start = j * stride // size * size
        first = 0 if self.left is None else max(0, start - self.left)
        return first, t - 1 if self.lookahead is None else min(t - 1, start + size - 1 + self.lookahead)


CAUSAL = Declared()


class Leak(NamedTuple):
    kind: Kind
    text: str
    output: int
    effect: float  # the change, relative to the largest output


class StreamComparison(NamedTuple):
    """Result of streaming with pieces of one size: frames per piece, number of outputs, and their delay.

    `difference` is the largest difference from offline, relative to the largest output; `first` is the first output
    that differs. `waited` is the largest number of frames fed, counted from an output's first frame, before the output
    was returned (outputs at the very end are left out).
    """

    piece: int
    outputs: int
    difference: float
    first: int | None
    waited: int | None


class MeasuredReach(NamedTuple):
    """The largest distance over which any output depends on a frame; not `bounded` if it may extend further."""

    frames: int
    bounded: bool
    why: str = ""

    def __str__(self) -> str:
        return _frames(self.frames) + ("" if self.bounded else f" or more ({self.why})")


def _frames(count: int) -> str:
    return f"{count} frame" if count == 1 else f"{count} frames"


@dataclass(frozen=True)
class LeakReport:
    """Result of a leak test. `ahead` counts from an output's own last frame, `back` from its first.

    `seconds` is the duration of one frame, `mode` is eval mode or as called, and `lengths` are all input lengths that
    were tried. `longer` is a lower bound on the reach (ahead, back), from the longer inputs.
    """

    field: Field
    declared: Declared
    leaks: tuple[Leak, ...]
    streamed: tuple[StreamComparison, ...]
    seconds: float | None
    mode: str
    lengths: tuple[int, ...]
    stopped: str
    longer: tuple[int, int] = (0, 0)

    @property
    def clean(self) -> bool:
        return not self.leaks

    @property
    def ahead(self) -> MeasuredReach:
        t, r = self.field.depends.shape[1], self.field.stride
        ends = [(last - (j + 1) * r + 1, j, last) for j, last in enumerate(self.field.last) if last >= 0]
        return self._beyond_example(self._farthest(ends, t - 1), self.longer[0])

    @property
    def back(self) -> MeasuredReach:
        t, r = self.field.depends.shape[1], self.field.stride
        ends = [(j * r - first, j, first) for j, first in enumerate(self.field.first) if first < t]
        return self._beyond_example(self._farthest(ends, 0), self.longer[1])

    def _beyond_example(self, reach: MeasuredReach, longer: int) -> MeasuredReach:
        """Return the reach that a longer input showed, if it is larger than that of the example."""
        if longer <= reach.frames:
            return reach
        return MeasuredReach(longer, False, f"in an input of {self.lengths[-1]}")

    def _farthest(self, ends: list[tuple[int, int, int]], edge: int) -> MeasuredReach:
        """Return the largest reach, bounded if an output with that reach ends before the edge without fading out."""
        most = max((frames for frames, _, _ in ends), default=0)
        ways = [(j, i) for frames, j, i in ends if frames == most]
        inside = [(j, i) for j, i in ways if i != edge]
        if ways and not inside:
            return MeasuredReach(most, False, "to the edge of the example")
        if inside and most > 0 and all(self.field.fades(j, i) for j, i in inside):
            return MeasuredReach(most, False, "the effect fades below the tolerance")
        return MeasuredReach(most, True)

    @property
    def latency(self) -> MeasuredReach:
        """Frames, counted from an output's own first, that must arrive before all of its dependencies are available."""
        ahead = self.ahead
        return ahead._replace(frames=max(ahead.frames + self.field.stride, 1))

    @property
    def latency_seconds(self) -> float | None:
        return None if self.seconds is None else self.latency.frames * self.seconds

    def __str__(self) -> str:
        n, t = self.field.depends.shape
        d, seconds = self.declared, self.latency_seconds
        says = "any" if d.lookahead is None else f"{d.lookahead} after its chunk of {max(d.chunk, self.field.stride)}"
        before = "any" if d.left is None else f"{d.left} before its chunk"
        lines = [
            f"measured  {t} frames → {n} outputs, {_frames(self.field.stride)} to each",
            f"          by {' and '.join(self.field.probes)}",
            f"mode      {self.mode}, {self.field.precision}; changes above {self.field.visible:.1e} of the largest "
            "output count",
            f"lengths   {', '.join(map(str, self.lengths))} frames; {self.stopped}",
            f"ahead     {self.ahead} after its own (declared: {says})",
            f"back      {self.back} before its own (declared: {before})",
            f"latency   {self.latency}" + ("" if seconds is None else f", {seconds:.4g} s"),
        ]
        for s in self.streamed:
            waited = "" if s.waited is None else f", waits {_frames(s.waited)}"
            lines.append(f"stream    {s.piece} at a time: differs from offline by {s.difference:.1e}{waited}")
        lines += [f"LEAK      {leak.text}" for leak in self.leaks]
        clean = "clean     no dependence on inputs that are not declared, at this tolerance and these lengths"
        return "\n".join(lines if self.leaks else [*lines, clean])


class LeakTest(NamedTuple):
    """The arguments of `find_leaks`."""

    encoder: Encoder
    example: Tensor
    declared: Declared
    streaming: Streaming | None = None
    seconds: float | None = None

    def run(
        self,
        *,
        pieces: tuple[int, ...] = (1, 3, 7),
        seed: int = 0,
        progress: Progress = lambda done, total: None,
    ) -> LeakReport:
        return find_leaks(
            self.encoder,
            self.example,
            declared=self.declared,
            streaming=self.streaming,
            pieces=pieces,
            seconds=self.seconds,
            seed=seed,
            progress=progress,
        )


def leak_test(model: nn.Module, *, frames: int | None = None, seed: int = 0) -> LeakTest:
    """Return the leak test of a model that declares its reach, with an example of `frames` frames (or tokens).

    A float64 copy of the model is tested if it gives the same outputs.
    """
    if frames is not None and frames < 4:
        raise InputError(f"frames must be at least 4, got {frames}", "choose at least 4")
    if not isinstance(model, StreamModel):
        fact = f"a {type(model).__name__} does not declare its receptive field"
        raise InputError(fact, "call find_leaks with an encoder, an example and its declared receptive field")
    tested: StreamModel = model
    example = tested.example(frames, torch.Generator().manual_seed(seed))
    double = in_float64(tested.respond, example)
    if double is not None:
        respond, example = double
        tested = getattr(respond, "__self__", tested)
    streams = tested.respond_in_chunks(iter(())) is not None
    streaming = cast(Streaming, tested.respond_in_chunks) if streams else None
    return LeakTest(tested.respond, example, Declared(**tested.reach._asdict()), streaming, tested.step_seconds)


def in_float64(encoder: Encoder, example: Tensor) -> tuple[Encoder, Tensor] | None:
    """Convert an encoder (a module as a copy) and its example to float64; None if that fails or changes the outputs."""
    module, X = module_of(encoder), example.double() if example.is_floating_point() else example
    try:
        if module is None:
            wide = encoder
        else:
            plain = all(w.dtype == torch.float64 for w in module.parameters() if w.is_floating_point())
            twin = module if plain else copy.deepcopy(module).double()
            wide = twin if module is encoder else getattr(twin, encoder.__name__)
        with in_eval_mode(encoder), in_eval_mode(wide):
            Y, Y64 = outputs_of(encoder, example), outputs_of(wide, X)
    except Exception:  # user code may raise anything: measure it as it is
        return None
    if Y64.dtype != torch.float64 or Y64.shape != Y.shape or size_of(change_of(Y64, Y.double())) > 1e-3 * size_of(Y):
        return None
    return wide, X


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
    """Measure what every output of an encoder depends on, and compare it with the declaration and with its stream.

    The encoder is any callable from frames (b, t, f), or token ids (b, t), to (b, n, m). `streaming` takes an iterable
    of pieces and yields outputs as they become final, `for x in pieces: y, state = step(x, state); yield y`; it is fed
    pieces of the given sizes. `seconds` is the duration of one input frame.
    """
    wide, X = in_float64(encoder, example) or (encoder, example)
    field = receptive_field(wide, X, stride=declared.stride, strengths=strengths, seed=seed, progress=progress)
    leaks = [*_dependent(field, declared), *_by_length(wide, X, field, declared), *_in_training(encoder)]
    longer, lengths, stopped, reached = _longer(wide, X, field, declared, seed)
    if not any(leak.kind in ("lookahead", "left", "everything") for leak in leaks):
        leaks += longer
    streamed = []
    if streaming is not None:
        outputs, tolerance = field.outputs, field.tolerance
        if outputs.dtype != example.dtype and wide is not encoder:  # the stream is not in float64
            with in_eval_mode(encoder):
                outputs = outputs_of(encoder, example)
                noise = noise_of(encoder, example, outputs, torch.Generator().manual_seed(seed))
            tolerance = rounding(outputs, units=SHAPES) + 16 * noise
        for piece in pieces:
            with in_eval_mode(encoder):
                streamed.append(_streamed(streaming, example, piece, field.stride, outputs, tolerance))
            leaks += _differs(streamed[-1], field)
    mode = "as called" if module_of(encoder) is None else "eval mode"
    return LeakReport(field, declared, tuple(leaks), tuple(streamed), seconds, mode, lengths, stopped, reached)


def _dependent(field: Field, declared: Declared) -> Iterator[Leak]:
    """Yield the worst leak on either side, or a single leak if every output depends on every frame."""
    n, t = field.depends.shape
    views = [declared.view(j, field.stride, t) for j in range(n)]
    late = [last - views[j][1] for j, last in enumerate(field.last)]
    early = [views[j][0] - first for j, first in enumerate(field.first)]
    if field.depends.all() and max(late + early) > 0:
        least = field.effect.min().item()
        text = f"every output depends on every frame (each changes it by at least {least:.1e} of the largest output)"
        cause = "a normalisation over time, attention without a mask, or a backward direction does this"
        yield Leak("everything", f"{text}: {cause}", late.index(max(late)), least)
        return
    if max(late) > 0:
        yield _beyond(field, "lookahead", late, field.last)
    if max(early) > 0:
        yield _beyond(field, "left", early, field.first)


def _beyond(field: Field, kind: Kind, beyond: list[int], ends: list[int]) -> Leak:
    """Return the leak of the first output with the farthest reach."""
    j = beyond.index(max(beyond))
    frame = ends[j]
    effect = field.effect[j, frame].item()
    seen = f"changes it by {effect:.1e} of the largest output"
    if field.faint[j, frame]:
        seen = "found by the gradient alone"
    side = "after" if kind == "lookahead" else "before"
    many = sum(more > 0 for more in beyond)
    found = f"output {j} depends on frame {frame}, {beyond[j]} {side} all that is declared"
    return Leak(kind, f"{found} ({seen}; {many} outputs do so)", j, effect)


def _longer(
    encoder: Encoder, example: Tensor, field: Field, declared: Declared, seed: int
) -> tuple[list[Leak], tuple[int, ...], str, tuple[int, int]]:
    """Double the input length until the reach stops growing, perturbing all frames after (before) a position.

    Only sides with a declared reach are tried. Returns the leaks of the first length that has any, all lengths, the
    reason for stopping, and a lower bound on the reach (frames ahead and back) from the last length.
    """
    t = example.shape[1]
    lengths, reached = [t], (0, 0)
    if declared.lookahead is None and declared.left is None:
        return [], (t,), "any dependence is declared, so no longer input was tried", reached
    for factor in (2**k for k in range(1, LONGEST.bit_length())):
        generator = torch.Generator().manual_seed(seed + factor)
        order = torch.randint(t, (factor * t - t,), generator=generator).to(example.device)
        X = torch.cat([example, example[:, order]], 1)
        try:
            with in_eval_mode(encoder):
                leaks, reach = _by_cuts(encoder, X, field, declared, generator)
        except GlassError:
            return [], tuple(lengths), f"the encoder takes no input of {factor * t}", reached
        lengths.append(factor * t)
        if leaks:
            return leaks, tuple(lengths), "a longer input showed a leak", reach
        if factor * t >= TRIED and reach <= max(reached, _declared_reach(field, declared)):
            return [], tuple(lengths), "the reach did not grow", reach
        reached = reach
    return [], tuple(lengths), "the reach was still growing", reached


def _declared_reach(field: Field, declared: Declared) -> tuple[int, int]:
    size = max(declared.chunk, field.stride) - field.stride
    ahead = math.inf if declared.lookahead is None else declared.lookahead + size
    back = math.inf if declared.left is None else declared.left + size
    return ahead, back  # type: ignore[return-value]


def _by_cuts(
    encoder: Encoder, X: Tensor, field: Field, declared: Declared, generator: torch.Generator
) -> tuple[list[Leak], tuple[int, int]]:
    """Outputs whose view ends before (or begins after) a cut must not change when all frames beyond the cut do."""
    Y, t, r = outputs_of(encoder, X), X.shape[1], field.stride
    n = Y.shape[1]
    views = [declared.view(j, r, t) for j in range(n)]
    worst: dict[Kind, tuple[int, Leak]] = {}
    sides: tuple[Kind, Kind] = ("lookahead", "left")
    ahead = back = 0
    for cut in sorted({max(1, t * k // (CUTS + 1)) for k in range(1, CUTS + 1)}):
        for strength in STRENGTHS[1:]:
            for kind in sides:
                if getattr(declared, kind) is None:
                    continue
                beyond = slice(cut, t) if kind == "lookahead" else slice(0, cut)
                change = change_of(outputs_of(encoder, perturbed(X, beyond, strength, generator)), Y).amax((0, 2))
                moved = (change > rounding(Y, size_of(change)) + 16 * field.noise).nonzero().flatten().tolist()
                for j in moved:
                    if kind == "lookahead":
                        over, ahead = cut - views[j][1], max(ahead, cut - (j + 1) * r + 1)
                    else:
                        over, back = views[j][0] - (cut - 1), max(back, j * r - cut + 1)
                    if over > (worst[kind][0] if kind in worst else 0):
                        worst[kind] = over, _far(kind, j, cut, over, t, change[j].item() / max(size_of(Y), 1e-30))
    return [leak for _, leak in worst.values()], (ahead, back)


def _far(kind: Kind, j: int, cut: int, over: int, t: int, effect: float) -> Leak:
    frames = f"frames from {cut} on" if kind == "lookahead" else f"frames up to {cut - 1}"
    side = "after" if kind == "lookahead" else "before"
    text = f"in an input of {t} frames, output {j} depends on {frames}, {over} or more {side} all that is declared"
    return Leak(kind, f"{text} (changes it by {effect:.1e} of the largest output)", j, effect)


def _in_training(encoder: Encoder) -> Iterator[Leak]:
    """In training mode a norm with running statistics computes them over all frames, which eval mode does not show."""
    module = module_of(encoder)
    if module is None:
        return
    norms = [(name, part) for name, part in module.named_modules() if isinstance(part, nn.modules.batchnorm._NormBase)]
    training = [(name, part) for name, part in norms if part.training and part.track_running_stats]
    if training:
        name, norm = training[0]
        kind = "batch norm" if isinstance(norm, nn.modules.batchnorm._BatchNorm) else "instance norm"
        named = name or type(module).__name__
        text = f"{kind} {named} is in training mode, in which every output depends on every frame"
        yield Leak("training", f"{text}; the other results are of eval mode: call eval() first", 0, math.nan)


def _by_length(encoder: Encoder, example: Tensor, field: Field, declared: Declared) -> Iterator[Leak]:
    """An output depends on the input length if it changes when the input is cut after all frames that it depends on."""
    t, Y = example.shape[1], field.outputs
    for cut in sorted({t // 2, t // 2 + 1, 3 * t // 4}):
        try:
            with in_eval_mode(encoder):
                shorter = outputs_of(encoder, example[:, :cut])
        except GlassError:  # the model only accepts a fixed length: nothing to compare
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
            yield Leak("length", f"{text}, though it depends on none of those that are gone", j, effect)
            return


def _streamed(
    streaming: Streaming, example: Tensor, piece: int, stride: int, Y: Tensor, tolerance: float
) -> StreamComparison:
    """Feed the stream piece by piece, and record how many frames had been fed when each output was returned."""
    if piece < 1:
        raise InputError(f"the chunk size is {piece} frames", "stream at least 1 frame at a time")
    fed, t = 0, example.shape[1]

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
    except Exception as error:  # user code may raise anything
        fact = f"the stream failed when fed {piece} frames at a time ({type(error).__name__}: {error})"
        raise InputError(fact, "give a stream that takes chunks of that size, or choose other chunk sizes") from error
    S = torch.cat(parts, 1) if parts else Y[:, :0]
    both = min(S.shape[1], Y.shape[1])
    change = change_of(S[:, :both], Y[:, :both]).amax((0, 2))
    wrong = (change > tolerance).nonzero().flatten().tolist()
    waits = [when - j * stride for j, when in enumerate(come) if when < t]
    difference = change.max().item() / max(size_of(Y), 1e-30) if both else 0.0
    first = wrong[0] if wrong else both if S.shape[1] != Y.shape[1] else None
    return StreamComparison(piece, S.shape[1], difference, first, max(waits, default=None))


def _differs(streamed: StreamComparison, field: Field) -> Iterator[Leak]:
    n, j = field.depends.shape[0], streamed.first
    if j is None:
        return
    text = f"fed {streamed.piece} at a time, the stream first differs from offline at output {j}"
    at = f" (frame {j * field.stride}, in piece {j * field.stride // streamed.piece})"
    more = f", by up to {streamed.difference:.1e} of the largest output"
    count = "" if streamed.outputs == n else f"; it gives {streamed.outputs} outputs where offline gives {n}"
    yield Leak("stream", text + at + more + count, j, streamed.difference)
