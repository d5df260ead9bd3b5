"""How good a model is on data that it has not seen: the task's own numbers, through the verb that people use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from glassformer.checkpoints import open_image, origin_of, read_preprocess
from glassformer.checkpoints.registry import cache
from glassformer.errors import GlassError, InputError
from glassformer.models import ConvNet1d, Decoder, Encoder, Recurrent, RecurrentSeq2Seq, Seq2Seq, Speech, Whisper
from glassformer.tasks import metrics
from glassformer.tasks.classify import labels_of
from glassformer.tasks.data import Fault, Faults, Images, Lines, Pairs, Recordings, Text, blocks, order
from glassformer.tasks.data.images import image_fault
from glassformer.tasks.embed import embed, read
from glassformer.tasks.learn.masked import MaskedLesson
from glassformer.tasks.learn.pairs import judge
from glassformer.tasks.learn.text import score, token_bytes
from glassformer.tasks.seeing import classes_of, logits_of, sees
from glassformer.tasks.symbols import FILE as SYMBOLS
from glassformer.tasks.symbols import spoken
from glassformer.tasks.tokenize import tokenizer_of, words_of
from glassformer.tasks.transcribe import transcribe

X = TypeVar("X")
Watch = Callable[[list[X]], Iterable[X]]
BATCH = 64
TABLES = (".tsv", ".csv")  # pairs of sentences; what an encoder gets else are sentences, one a line


def evaluate(
    model: nn.Module, data: Path, *, most: int | None = None, watch: Watch[Any] = iter, faults: Faults | None = None
) -> dict[str, float]:
    """On images in a folder per class (or a CSV), sentence pairs, recordings with transcripts, plain text; for an
    encoder, pairs of sentences that mean the same. `most`: only so many, from all over. `watch` goes over the batches.
    """
    tally = Faults() if faults is None else faults
    if most is not None and most < 1:
        raise InputError(f"only {most} items", "take at least 1")
    if sees(model):
        return _images(model, data, most, watch, tally)
    match model:
        case Seq2Seq() | RecurrentSeq2Seq():
            return _pairs(model, data, most, watch, tally)
        case Whisper() | Speech():
            return _recordings(model, data, most, watch, tally)
        case Recurrent() | ConvNet1d() if _hears(model):
            return _recordings(model, data, most, watch, tally)
        case Encoder():
            return _vectors(model, data, most, tally) if data.suffix in TABLES else _words(model, data, most, tally)
        case Decoder() | Recurrent() | ConvNet1d():
            return _text(model, data, most, tally)
    fact = f"a {type(model).__name__} has no numbers of its own"
    raise InputError(fact, "evaluate a model that one of the verbs takes")


def _hears(model: nn.Module) -> bool:
    origin = origin_of(model)
    return origin is not None and origin.file(SYMBOLS) is not None


def _images(
    model: nn.Module, data: Path, most: int | None, watch: Watch[list[int]], faults: Faults
) -> dict[str, float]:
    """Every image as `classify` sees it."""
    labels, origin = labels_of(model, classes_of(model)), origin_of(model)
    if origin is None:
        raise InputError("this model was not loaded from a folder", "evaluate one that was saved")
    images, prepare = Images.open(data, labels=labels), read_preprocess(origin)
    faults.merge(images.faults)
    chosen = order.spread(len(images), most)

    def seen(i: int) -> tuple[Tensor, int]:
        try:
            return prepare(open_image(images.root / images.files[i])), images.label(i)
        except GlassError as error:
            raise image_fault(error, images.files[i]) from None

    right = close = count = 0
    weights = next(model.parameters())
    for rows in watch([chosen[start : start + BATCH] for start in range(0, len(chosen), BATCH)]):
        found = faults.each(rows, seen)
        if not found:
            continue
        y = torch.tensor([label for _, label in found])
        with torch.inference_mode():
            best = logits_of(model, torch.stack([x for x, _ in found]).to(weights)).topk(min(5, len(labels))).indices
        right, close = right + int((best[:, 0] == y).sum()), close + int((best == y[:, None]).any(1).sum())
        count += len(y)
    _require(count, "images")
    return {"accuracy": right / count, "among_five": close / count, "images": count}


def _pairs(model: nn.Module, data: Path, most: int | None, watch: Watch[list[str]], faults: Faults) -> dict[str, float]:
    """Each different source once, against all of its targets."""
    pairs = Pairs.open(data)
    faults.merge(pairs.faults)
    found = judge(model, pairs, most=most, watch=watch, faults=faults)
    return {name: found[name] for name in ("bleu", "chrf", "sentences")}


def _recordings(
    model: nn.Module, data: Path, most: int | None, watch: Watch[list[int]], faults: Faults
) -> dict[str, float]:
    recordings = Recordings.open(data)
    faults.merge(recordings.faults)
    heard = lambda i: (spoken(transcribe(model, recordings.wave(i)).text), spoken(recordings.sentence(i)))
    pairs: list[tuple[str, str]] = []
    for row in watch([[i] for i in order.spread(len(recordings), most)]):
        pairs += faults.each(row, heard)
    _require(len(pairs), "recordings")
    said, meant = zip(*pairs, strict=True)
    return {"word_error_rate": metrics.word_error_rate(said, meant), "recordings": len(pairs)}


def _text(model: nn.Module, data: Path, most: int | None, faults: Faults) -> dict[str, float]:
    tokenizer = tokenizer_of(model)
    length = min(256, model.config.length) if isinstance(model, Decoder) else 256
    found = blocks(Text.open(data), tokenizer, length, cache() / "tokens")
    faults.merge(found.faults)
    numbers = score(model, found, token_bytes(tokenizer), most=most, faults=faults)
    return {**numbers, "blocks": min(len(found), most or len(found))}


def _vectors(model: Encoder, data: Path, most: int | None, faults: Faults) -> dict[str, float]:
    """How high the other of a pair ranks among the second sentences of all pairs: mean of 1/rank, share of firsts."""
    pairs = Pairs.open(data)
    faults.merge(pairs.faults)
    words_of(model)  # a model without words is no fault of the sentences

    def readable(i: int) -> tuple[str, str]:
        first, second = pairs.pair(i)
        try:
            for text in (first, second):
                read(model, text)
        except InputError:
            raise Fault("sentence that is empty or passes the model's context", pairs.rows.place(i)) from None
        return first, second

    both = faults.each(order.spread(len(pairs), most), readable)
    _require(len(both), "pairs")
    x, y = (normalize(embed(model, [pair[side] for pair in both]), dim=-1) for side in (0, 1))
    S = x @ y.mT
    ranks = (S.diagonal()[:, None] <= S).sum(1).double()
    first = float((ranks == 1).double().mean())
    return {"reciprocal_rank": float((1 / ranks).mean()), "first": first, "pairs": len(both)}


def _words(model: Encoder, data: Path, most: int | None, faults: Faults) -> dict[str, float]:
    """Nats and accuracy of words left out of the sentences."""
    lines = Lines.open(data)
    faults.merge(lines.faults)
    if not model.config.word_head:
        raise InputError("this encoder fills in no words", "give pairs of sentences that mean the same, as .tsv")
    part = lines.part(np.array(order.spread(len(lines), most)))
    lesson = MaskedLesson(part, part, tokenizer_of(model), held_rows=len(part))
    return {**lesson.measure(model.eval()), "sentences": len(part)}


def _require(count: int, what: str) -> None:
    if not count:
        raise InputError(f"none of the {what} could be used", f"give {what} that can be read")
