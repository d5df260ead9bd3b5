"""Labels of an image, a text or a pair of texts, with scores that match the training objective of the model's head.

softmax(logits) for single-label classification, sigmoid(logit) for multi-label classification or a single logit, and
the plain value for regression: as defined by `problem_type` in config.json and the rules of Hugging Face's pipelines. A
model with a calibration gives calibrated probabilities and says whether an input is unlike its training data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from glassformer.checkpoints import origin_of
from glassformer.checkpoints.origin import reads_pairs
from glassformer.errors import ConfigError, InputError
from glassformer.models.protocols import ImageTextModel, context_length, device_of, inputs_of, require
from glassformer.pipelines.calibration import calibration_of, head_inputs
from glassformer.pipelines.text_classification import TextEncoding, predict, split_words
from glassformer.pipelines.tokenizers import tokenizer_of

if TYPE_CHECKING:
    from PIL.Image import Image

ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]
BAR = 40  # maximum width of a bar, in characters


class LabelScore(NamedTuple):
    """A label and its score: a probability, or the value of a regression."""

    label: str
    score: float
    word: str = ""
    """The word of a token classifier."""


@dataclass(frozen=True)
class Classification:
    """Labels of one input, best first. `problem_type` defines the meaning of the scores.

    `distance` is the distance of the input from the training data, and `threshold` the one that 95 % of the data
    used for calibration stay below; both are None for a model without a calibration. `truncated_to` is the number of
    tokens to which a text was truncated, None if it was read in full.
    """

    scores: tuple[LabelScore, ...]
    problem_type: ProblemType = "single_label_classification"
    distance: float | None = None
    threshold: float | None = None
    truncated_to: int | None = None

    @property
    def out_of_distribution(self) -> bool | None:
        """Whether the input is farther from the training data than 95 % of the calibration data; None if unknown."""
        return None if self.distance is None or self.threshold is None else self.distance > self.threshold

    @property
    def warning(self) -> str:
        """One sentence if the input is out of distribution or was truncated, else empty."""
        if self.truncated_to is not None:
            return f"truncated to the model's maximum of {self.truncated_to} tokens: the rest of the text was not read"
        return distribution_warning(self.distance, self.threshold)

    @property
    def label(self) -> str:
        """The best label."""
        return self.scores[0].label

    @property
    def score(self) -> float:
        """The best label's score."""
        return self.scores[0].score

    def __iter__(self) -> Iterator[LabelScore]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, i: int) -> LabelScore:
        return self.scores[i]

    def __str__(self) -> str:
        """Format one line per label, with a bar where the score is a probability, and the warning if there is one."""
        wide = max((len(one.label) for one in self.scores), default=0)
        if any(one.word for one in self.scores):
            lines = [f"{one.word}\t{one.label}\t{one.score:.4f}" for one in self.scores]
        elif self.problem_type == "regression":
            lines = [f"{one.label:{wide}}  {one.score:.4f}" for one in self.scores]
        else:
            bars = (f"{one.label:{wide}}  {one.score:6.1%}  {'█' * round(BAR * one.score)}" for one in self.scores)
            lines = [line.rstrip() for line in bars]
        return "\n".join([*lines, *([self.warning] if self.warning else [])])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{escape(one.label)}</td><td>{one.score:.4f}</td></tr>" for one in self.scores)
        warning = f"<p>{escape(self.warning)}</p>" if self.warning else ""
        return f"<table><tr><th>label</th><th>score</th></tr>{rows}</table>{warning}"


def distribution_warning(distance: float | None, threshold: float | None) -> str:
    """Return a warning if the distance exceeds the threshold, else an empty string."""
    if distance is None or threshold is None or distance <= threshold:
        return ""
    limit = f"95 % of the images used for calibration are within {threshold:.1f}"
    return f"unlike the images the model was trained on (distance {distance:.1f}; {limit}): do not trust the labels"


def classify(
    model: nn.Module,
    item: str | Path | Image | tuple[str, str] | list[str],
    *,
    top_k: int = 5,
    labels: Sequence[str] | None = None,
) -> Classification:
    """Return the `top_k` most likely labels of an image (or its file), of a text, or of a pair of texts.

    A token classifier returns the label of every word instead: of a list of words, or of a text, which is split into
    words and punctuation marks.
    CLIP has no classes of its own: `labels` are texts to match with the image ("a photo of a cat").

    >>> found = gf.classify(gf.load("objects"), "examples/cat.jpg", top_k=3)
    >>> found.label, len(found)
    ('cat', 3)
    """
    if top_k < 1:
        raise InputError(f"top_k must be at least 1, got {top_k}", "choose 1 or more")
    classifier = require(model, "classify")
    if classifier.classes and labels is not None:
        raise InputError(f"labels were given, but this {type(model).__name__} has its own classes", "leave out labels")
    with torch.inference_mode():
        if isinstance(model, ImageTextModel) and not classifier.classes:
            logits, names = _compared(model, item, labels), list(labels or ())
            return _best(logits, names, top_k, "single_label_classification")
        if inputs_of(model)[0] == "text":
            return _texts(model, item, top_k)
        logits, distance, threshold = image_logits(model, pixels(model, item))
    found = _best(logits, labels_of(model), top_k, problem_type_of(model))
    return replace(found, distance=distance, threshold=threshold)


def image_logits(model: nn.Module, X: Tensor) -> tuple[Tensor, float | None, float | None]:
    """Return the logits of one image (1, c, h, w), divided by the temperature; its distance; and the threshold."""
    calibration = calibration_of(model)
    classifier = require(model, "classify")
    if calibration is None or calibration.means is None:
        temperature = 1.0 if calibration is None else calibration.temperature
        return classifier.class_logits(X)[0] / temperature, None, None
    with head_inputs(model) as inputs:
        logits = classifier.class_logits(X)[0]
    distance = float(calibration.distance(inputs[-1])[0])
    return logits / calibration.temperature, distance, calibration.threshold


def _texts(model: nn.Module, item: object, top_k: int) -> Classification:
    words = item if isinstance(item, list) else None
    pair = isinstance(item, tuple) and len(item) == 2
    parts = words if words is not None else item if pair else (item,)
    if not isinstance(parts, tuple | list) or not all(isinstance(text, str) for text in parts):
        fact = f"a text classifier was given a {type(item).__name__}"
        raise InputError(fact, "give a text, or a pair of texts as a tuple")
    names, calibration = labels_of(model), calibration_of(model)
    temperature = 1.0 if calibration is None else calibration.temperature
    if getattr(model, "per_token", False):
        if pair:
            raise InputError("a token classifier was given a pair of texts", "give one text, or a list of words")
        words = split_words(str(item)) if words is None else words
        found = TextEncoding.of(model)(list(words))
        (logits,) = predict(model, [found])
        best = (logits / temperature).softmax(-1).max(-1)
        kept = [word for word, place in zip(words, found.words, strict=True) if place is not None]
        rows = zip(best.indices.tolist(), best.values.tolist(), kept, strict=True)
        labelled = tuple(LabelScore(names[i], score, word) for i, score, word in rows)
        return Classification(labelled, truncated_to=found.truncated_to)
    if words is not None:
        raise InputError("a text classifier was given a list", "give one text, or a pair of texts as a tuple")
    if reads_pairs(model) and not pair:
        hint = "give a tuple of two; on the command line, separate them with a tab"
        raise InputError("the model was trained on pairs of texts, and this is one text", hint)
    found = TextEncoding.of(model)(item)  # type: ignore[arg-type]
    (logits,) = predict(model, [found])
    best_labels = _best(logits / temperature, names, top_k, problem_type_of(model))
    return replace(best_labels, truncated_to=found.truncated_to)


def pixels(model: nn.Module, item: object) -> Tensor:
    """Preprocess an image to (1, channels, rows, columns) as defined by the model's folder, on the model's device."""
    from PIL.Image import Image

    from glassformer.checkpoints.preprocess import image_of, open_image, read_preprocess

    if not isinstance(item, str | Path | Image):
        raise InputError(f"an image classifier was given a {type(item).__name__}", "give an image or its file")
    origin = origin_of(model)
    if origin is None:
        hint = "load a saved one, such as gf.load(trained.save(folder))"
        raise InputError("this model was not loaded from a folder", hint)
    image = open_image(item) if isinstance(item, str | Path) else image_of(item)
    return read_preprocess(origin)(image)[None].to(next(model.parameters()))


def _compared(model: ImageTextModel, item: object, labels: Sequence[str] | None) -> Tensor:
    if not labels:
        raise InputError("CLIP has no classes of its own", "give labels: texts that may fit the image")
    assert isinstance(model, nn.Module)
    words, room = tokenizer_of(model), context_length(model)
    rows = [words.encode(label) for label in labels]
    longest = max(map(len, rows))
    if room is not None and longest > room:
        raise InputError(f"a label of {longest} tokens exceeds the model's context of {room}", "shorten it")
    scores: Tensor = model(pixels(model, item), model.pad_texts(rows).to(device_of(model)))[0]
    return scores


def labels_of(model: nn.Module) -> list[str]:
    """Return id2label of config.json, timm's label_names, or LABEL_0, LABEL_1, … as in Hugging Face."""
    count, origin = require(model, "classify").classes, origin_of(model)
    raw = origin.raw if origin is not None else {}
    named, names = raw.get("id2label"), raw.get("label_names")
    if isinstance(named, dict) and len(named) == count:
        return [str(named.get(str(i), named.get(i, f"LABEL_{i}"))) for i in range(count)]
    if isinstance(names, list) and len(names) == count:
        return [str(name) for name in names]
    return [f"LABEL_{i}" for i in range(count)]


def problem_type_of(model: nn.Module) -> ProblemType:
    """Return `problem_type` of config.json; by default a single logit is binary, and several are single-label."""
    origin = origin_of(model)
    stated = origin.raw.get("problem_type") if origin is not None else None
    single = require(model, "classify").classes == 1
    if stated is None:
        return "multi_label_classification" if single else "single_label_classification"
    if stated not in get_args(ProblemType):
        known = ", ".join(get_args(ProblemType))
        raise ConfigError(f"problem_type is {str(stated)[:60]!r}", f"it must be one of {known}")
    if single and stated == "single_label_classification":  # the softmax of one logit is 1 for every input
        fact = f"problem_type is {stated!r}, but the model has one label"
        raise ConfigError(fact, "it must be regression or multi_label_classification")
    found: ProblemType = stated
    return found


def _best(logits: Tensor, labels: Sequence[str], top_k: int, problem: ProblemType) -> Classification:
    logits = logits.float().cpu()
    if problem == "single_label_classification":
        logits = logits.softmax(-1)
    elif problem == "multi_label_classification":
        logits = logits.sigmoid()
    best = logits.topk(min(top_k, len(labels)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return Classification(tuple(LabelScore(labels[i], score) for i, score in pairs), problem)
