"""p(class | text or image) = softargmax(logits): the likeliest classes by their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.checkpoints import origin_of
from glassformer.errors import InputError
from glassformer.models import CLIP, Encoder, ViT
from glassformer.tasks.embed import read
from glassformer.tasks.seeing import classes_of, logits_of, sees
from glassformer.tasks.tokenize import words_of

if TYPE_CHECKING:
    from PIL.Image import Image


class Guess(NamedTuple):
    label: str
    probability: float


def classify(
    model: nn.Module, item: str | Path | Image, *, k: int = 5, labels: Sequence[str] | None = None
) -> list[Guess]:
    """The k likeliest classes, best first. A text for a model of the BERT kind; an image, or its file, for others.

    CLIP has no classes of its own: `labels` are texts, one of which fits the image ("a photo of a cat").
    """
    if k < 1:
        raise InputError(f"the {k} likeliest classes", "ask for at least 1")
    if labels is not None and not isinstance(model, CLIP):
        raise InputError(f"a {type(model).__name__} has classes of its own", "leave out labels")
    if isinstance(model, Encoder):
        if not isinstance(item, str):
            raise InputError(f"an {type(item).__name__} came to a model of text", "give a text")
        return _best(_of_text(model, item), labels_of(model, model.config.classes), k)
    if isinstance(model, CLIP):
        return _by_texts(model, item, labels, k)
    if sees(model):
        return _best(_seen(model, item), labels_of(model, classes_of(model)), k)
    if isinstance(model, ViT):
        raise InputError("this model has no classes", "load one that was trained for classification")
    raise InputError(f"a {type(model).__name__} has no classes", "load a model of the BERT, ViT or CLIP kind")


def _of_text(model: Encoder, text: str) -> Tensor:
    if not model.config.classes:
        raise InputError("this model has no classes", "load one that was trained for classification")
    with torch.inference_mode():
        return model.classify(torch.tensor([read(model, text).tokens]))[0]


def pixels(model: nn.Module, item: str | Path | Image) -> Tensor:
    """(1, channels, rows, columns) as the model was trained to see."""
    from glassformer.checkpoints.preprocess import open_image, read_preprocess

    origin = origin_of(model)
    if origin is None:
        raise InputError("this model was not loaded from a folder", "give it pixels yourself")
    image = open_image(item) if isinstance(item, str | Path) else item
    return read_preprocess(origin)(image)[None]


def _seen(model: nn.Module, item: str | Path | Image) -> Tensor:
    with torch.inference_mode():
        return logits_of(model, pixels(model, item).to(next(model.parameters())))[0]


def _by_texts(model: CLIP, item: str | Path | Image, labels: Sequence[str] | None, k: int) -> list[Guess]:
    if not labels:
        raise InputError("CLIP has no classes of its own", "give labels: texts that may fit the image")
    words, end = words_of(model), model.config.end
    rows = [words.encode(label) for label in labels]
    longest = max(map(len, rows))
    text = model.config.text
    room = getattr(text.positions, "length", longest) if text is not None else longest
    if longest > room:
        raise InputError(f"a label of {longest} tokens passes the model's context of {room}", "shorten it")
    tokens = torch.tensor([[*row, *[row[-1] if end is None else 0] * (longest - len(row))] for row in rows])
    with torch.inference_mode():
        scores = model(pixels(model, item).to(next(model.parameters())), tokens)[0]
    return _best(scores, list(labels), k)


def labels_of(model: nn.Module, count: int) -> list[str]:
    """id2label of config.json, timm's label_names, or LABEL_0, LABEL_1, … as Hugging Face has them."""
    origin = origin_of(model)
    raw = origin.raw if origin is not None else {}
    named, names = raw.get("id2label"), raw.get("label_names")
    if isinstance(named, dict) and len(named) == count:
        return [str(named.get(str(i), named.get(i, f"LABEL_{i}"))) for i in range(count)]
    if isinstance(names, list) and len(names) == count:
        return [str(name) for name in names]
    return [f"LABEL_{i}" for i in range(count)]


def _best(logits: Tensor, labels: Sequence[str], k: int) -> list[Guess]:
    best = logits.float().softmax(-1).topk(min(k, len(labels)))
    return [Guess(labels[i], p) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
