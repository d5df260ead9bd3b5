"""Detailed validation results of a trained model: scores of each class, confusions and mistakes."""

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
    """Precision, recall and F1 of a class, and its number of validation rows; None where there is no row."""

    label: str
    precision: float | None
    recall: float | None
    f1: float
    count: int
    outcomes: tuple[int, int, int, int]
    """True positives, false positives, false negatives and true negatives."""


@dataclass(frozen=True, kw_only=True)
class Examined:
    """Validation results in detail. `confusion[i][j]` is the number of rows of class i that were predicted as j.

    `temperature` calibrates the probabilities: softmax or sigmoid of logits / T. `calibration` is the expected
    calibration error before and after; each half of the data is measured with the temperature fitted on the other half.
    """

    rows: int
    unit: str = "rows"
    """The unit of the counts: rows of the data, or words."""
    score: str
    """The meaning of a mistake's score."""
    classes: tuple[ClassScore, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    labels: tuple[str, ...] = ()
    mistakes: tuple[Misprediction, ...] = ()
    mistaken: int = 0
    """The number of all mistakes; `mistakes` holds the most confident ones."""
    temperature: float | None = None
    calibration: tuple[float, float] | None = None


def class_scores(predicted: Tensor, true: Tensor, labels: Sequence[str]) -> tuple[ClassScore, ...]:
    """Compute the scores of every class from boolean matrices (n, classes) of predicted and true classes."""
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
                outcomes=(right, positives - right, support - right, len(x) - positives - support + right),
            )
        )
    return tuple(found)


def examine_transcripts(pairs: Sequence[tuple[str, str]], rows: Sequence[int], recordings: Recordings) -> Examined:
    """Return the recordings whose transcripts (hypothesis, reference) have the most errors for their length."""
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


def measure_calibration(
    logits: Float[Tensor, "*n classes"], y: Int[Tensor, " *n"]
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the temperature and the calibration errors of `Examined`; None if there are too few rows."""
    if len(y) < ENOUGH:
        return None, None
    flat = lambda x, t: (x.flatten(0, -2), t.flatten())
    halves = [flat(logits[i::2], y[i::2]) for i in (0, 1)]
    crossed = [halves[i][0] / fit_temperature(*halves[1 - i]) for i in (0, 1)]
    after = calibration_error(torch.cat(crossed), torch.cat([half for _, half in halves]))
    return fit_temperature(*flat(logits, y)), (calibration_error(*flat(logits, y)), after)


def examine_labels(
    logits: Float[Tensor, "n labels"],
    y: Float[Tensor, "n labels"],
    labels: Sequence[str],
    show: Callable[[int, str, str, float], Misprediction],
) -> Examined:
    """Examine multi-label predictions. One temperature is fitted to all labels: sigmoid(x) = softmax([0, x])₁."""
    predicted, meant = logits > 0, y.bool()
    temperature, errors = measure_calibration(torch.stack([torch.zeros_like(logits), logits], -1), y.long())
    sure = ((logits / (temperature or 1.0)).sigmoid() - y).abs().amax(1)  # the error of the worst label of each row
    wrong = (predicted != meant).any(1).nonzero().flatten().tolist()
    wrong.sort(key=lambda i: -float(sure[i]))
    names = lambda row: ", ".join(labels[k] for k in row.nonzero().flatten().tolist()) or "none"
    return Examined(
        rows=len(y),
        score="probability of the worst label",
        classes=class_scores(predicted, meant, labels),
        labels=tuple(labels),
        mistakes=tuple(show(i, names(meant[i]), names(predicted[i]), float(sure[i])) for i in wrong[:SHOWN]),
        mistaken=len(wrong),
        temperature=temperature,
        calibration=errors,
    )


def examine_classes(
    logits: Float[Tensor, "n classes"],
    y: Int[Tensor, " n"],
    labels: Sequence[str],
    show: Callable[[int, str, str, float], Misprediction],
) -> Examined:
    """Examine single-label predictions; `show(row, truth, answer, probability)` describes a mistake for display."""
    n = len(labels)
    temperature, errors = measure_calibration(logits, y)
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
