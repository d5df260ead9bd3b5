"""What a trained model gets right and wrong on its validation data: scores of each class, confusions, mistakes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import soundfile
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.audio import RATE
from glassformer.data.recordings import Recordings
from glassformer.pipelines.calibration import calibration_error, fit_temperature
from glassformer.pipelines.metrics import error_rate

SHOWN = 24  # mistakes shown
LONGEST_SOUND = 15  # seconds of a recording that can be played
ENOUGH = 20  # validation rows from which a temperature is fitted


@dataclass(frozen=True, kw_only=True)
class Misprediction:
    """A wrong answer, its score (a probability, an error rate or an absolute error), and the input to look at."""

    place: str
    truth: str
    answer: str
    score: float
    text: str = ""
    picture: bytes = b""
    """A PNG file."""
    sound: bytes = b""
    """A FLAC file."""


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """Precision, recall and F1 of a class, and how many validation rows have it; None where there is no row."""

    label: str
    precision: float | None
    recall: float | None
    f1: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Examined:
    """Validation results in detail. `confusion[i][j]` is the number of rows of class i that were predicted as j.

    `temperature` calibrates the probabilities: softmax(logits / T). `calibration` is the expected calibration error
    before and after, each half of the data being measured with the temperature of the other half.
    """

    rows: int
    score: str
    """What the score of a mistake is."""
    classes: tuple[ClassScore, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    labels: tuple[str, ...] = ()
    mistakes: tuple[Misprediction, ...] = ()
    mistaken: int = 0
    """The number of all mistakes, of which the most confident are in `mistakes`."""
    temperature: float | None = None
    calibration: tuple[float, float] | None = None


def class_scores(predicted: Tensor, true: Tensor, labels: Sequence[str]) -> tuple[ClassScore, ...]:
    """Compute the scores of every class from which classes (n, classes) were predicted and are true."""
    found = []
    for k, label in enumerate(labels):
        x, y = predicted[:, k], true[:, k]
        right, positives, support = int((x & y).sum()), int(x.sum()), int(y.sum())
        found.append(
            ClassScore(
                label=label,
                precision=right / positives if positives else None,
                recall=right / support if support else None,
                f1=2 * right / (positives + support) if positives + support else 0.0,
                count=support,
            )
        )
    return tuple(found)


def examine_transcripts(pairs: Sequence[tuple[str, str]], rows: Sequence[int], recordings: Recordings) -> Examined:
    """Show the recordings whose transcripts (hypothesis, reference) have most errors for their length."""
    rates = [error_rate([(hypothesis.split(), reference.split())]) for hypothesis, reference in pairs]
    wrong = sorted((i for i, rate in enumerate(rates) if rate), key=lambda i: -rates[i])
    mistakes = []
    for i in wrong[:SHOWN]:
        wave, file = recordings.wave(rows[i]), io.BytesIO()
        soundfile.write(file, wave[: LONGEST_SOUND * RATE].numpy(), RATE, format="FLAC")
        place, (hypothesis, reference) = recordings.name(rows[i]), pairs[i]
        sound = file.getvalue()
        mistakes.append(Misprediction(place=place, truth=reference, answer=hypothesis, score=rates[i], sound=sound))
    score = "word error rate"
    return Examined(rows=len(pairs), score=score, mistakes=tuple(mistakes), mistaken=len(wrong))


def examine_classes(
    logits: Float[Tensor, "n classes"],
    y: Int[Tensor, " n"],
    labels: Sequence[str],
    show: Callable[[int, str, str, float], Misprediction],
) -> Examined:
    """Examine single-label predictions; `show(row, truth, answer, probability)` makes a mistake presentable."""
    n = len(labels)
    temperature, errors = (None, None)
    if len(y) >= ENOUGH:
        temperature = fit_temperature(logits, y)
        halves = [(logits[i::2], y[i::2]) for i in (0, 1)]
        crossed = [logits[i::2] / fit_temperature(*halves[1 - i]) for i in (0, 1)]
        after = calibration_error(torch.cat(crossed), torch.cat([half for _, half in halves]))
        errors = calibration_error(logits, y), after
    p, x = (logits / (temperature or 1.0)).softmax(-1).max(-1)
    counts = torch.bincount(y * n + x, minlength=n * n).reshape(n, n)
    one_hot = torch.nn.functional.one_hot
    wrong = (x != y).nonzero().flatten().tolist()
    wrong.sort(key=lambda i: -float(p[i]))
    return Examined(
        rows=len(y),
        score="probability",
        classes=class_scores(one_hot(x, n).bool(), one_hot(y, n).bool(), labels),
        confusion=tuple(map(tuple, counts.tolist())),
        labels=tuple(labels),
        mistakes=tuple(show(i, labels[int(y[i])], labels[int(x[i])], float(p[i])) for i in wrong[:SHOWN]),
        mistaken=len(wrong),
        temperature=temperature,
        calibration=errors,
    )
