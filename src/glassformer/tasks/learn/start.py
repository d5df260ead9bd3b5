"""`start("classify", Wish(data="mnist"))`: the model and the lesson that a wish comes to, for every task."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from glassformer.checkpoints import load, origin_of, read_preprocess
from glassformer.checkpoints.preprocess import FILE
from glassformer.errors import InputError
from glassformer.models import ConvNet1d, Recurrent, RecurrentSeq2Seq, Seq2Seq, Speech
from glassformer.tasks.data import Pairs, Recordings, bpe
from glassformer.tasks.data.images import Images
from glassformer.tasks.data.order import held_out
from glassformer.tasks.learn import image_models, pairs, recognisers, speech
from glassformer.tasks.learn.image_models import Size
from glassformer.tasks.learn.images import Augment, ImageLesson, save_images, statistics
from glassformer.tasks.learn.start_text import start_embed, start_generate
from glassformer.tasks.learn.tune import retarget, tuned
from glassformer.tasks.learn.unlike import Changed
from glassformer.tasks.learn.wish import SHARE, Start, Wish
from glassformer.tasks.symbols import Hearing, hearing_of
from glassformer.tasks.tokenize import tokenizer_of


def start(task: str, wish: Wish) -> Start:
    makers: dict[str, Callable[[Wish], Start]] = {
        "classify": start_classify,
        "translate": start_translate,
        "transcribe": start_transcribe,
        "generate": start_generate,
        "embed": start_embed,
    }
    if task not in makers:
        raise InputError(f"there is no task {task!r} to train for", f"choose {', '.join(makers)}")
    return makers[task](wish)


# ---- images ----------------------------------------------------------------------------------------------------------


def start_classify(wish: Wish) -> Start:
    """A folder per class or a CSV → a model that names pictures."""
    wish.leave("pictures", "vocabulary")
    first, second = wish.parts()
    base = None if wish.base is None else load(wish.folder, dtype=torch.float32)
    size, channels = _seen_by(base, wish.image)
    images = Images.open(first, size=size, channels=channels)
    if size is None:  # every image as large as the first, which is what most sets of one size want
        images = Images.open(first, size=images.shape[1:], channels=images.channels)
    if second is None:
        rows, held_rows = held_out(len(images), SHARE, wish.seed)
        images, held = images.part(rows), images.part(held_rows)
    else:
        held = Images.open(second, size=images.shape[1:], channels=images.channels, labels=images.labels)
    mean, std = _colours(base) or statistics(images)
    augment = Augment(crop=max(1, images.shape[1] // 8), flip=images.channels == 3) if wish.augment else Augment()
    lesson = ImageLesson(
        train=images,
        held=held,
        mean=mean,
        std=std,
        augment=augment,
        smoothing=0.1 if wish.smoothing is None else wish.smoothing,
        size=wish.batch or 64,
        seed=wish.seed,
    )
    if base is not None:
        model = retarget(base, classes=len(images.labels), image=images.shape[1:], seed=wish.seed)
    else:
        kind = wish.kinds("hybrid", "vit", "cnn", "mlp", "rnn")
        room = Size(width=wish.width or 64, depth=wish.depth or 4, heads=wish.heads or 4)
        patch = _patch(images.shape[1], images.shape[2]) if kind == "vit" else 4
        model = image_models.build(kind, images.shape, len(images.labels), room, patch=patch, seed=wish.seed)
    save = lambda model, folder: save_images(model, folder, lesson.labels, lesson.preprocess)
    save = tuned(wish.rank, wish.seed, model, save)
    _, high, wide = images.shape
    what = f"{len(images)} images of {high} × {wide} in {len(images.labels)} classes, {len(held)} held out"
    return Start(model, lesson, save, 1e-3 if wish.base is None else 3e-4, what)


def _seen_by(base: nn.Module | None, image: int | None) -> tuple[tuple[int, int] | None, int | None]:
    """The size and channels that a model to go on from was made for; another size if one is wished for."""
    config = getattr(base, "config", None)
    size = (image, image) if image is not None else getattr(config, "image", None)
    return size, getattr(config, "channels", None)


def _colours(base: nn.Module | None) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The mean and deviation that a model to go on from has learned to see by."""
    origin = None if base is None else origin_of(base)
    if origin is None or origin.file(FILE) is None:
        return None
    how = read_preprocess(origin)
    return None if how.mean is None or how.std is None else (tuple(how.mean), tuple(how.std))


def _patch(rows: int, columns: int) -> int:
    """The largest patch up to a fourth of the image that tiles it: 16 tokens or more."""
    fitting = [p for p in range(1, max(2, min(rows, columns) // 4 + 1)) if rows % p == 0 and columns % p == 0]
    return min(16, max(fitting)) if max(fitting) <= 16 else max(p for p in fitting if p <= 16)


# ---- sentence pairs --------------------------------------------------------------------------------------------------


def start_translate(wish: Wish) -> Start:
    """A TSV of sentence pairs → a model that translates."""
    wish.leave("sentence pairs", "image", "augment")
    first, second = wish.parts(".tsv")
    train = Pairs.open(first)
    if second is None:
        rows, held_rows = held_out(len(train), SHARE, wish.seed)
        train, held = train.part(rows), train.part(held_rows)
    else:
        held = Pairs.open(second)
    model: nn.Module
    if wish.base is not None:
        model = load(wish.folder, dtype=torch.float32)
        if not isinstance(model, Seq2Seq | RecurrentSeq2Seq):
            raise InputError(f"{wish.base} holds a {type(model).__name__}", "go on from a model that translates")
        tokenizer = tokenizer_of(model)
    else:
        texts = (text for i in range(len(train)) for text in train.pair(i))
        tokenizer = bpe.train(texts, wish.vocabulary or 8000, end="</s>")
        vocabulary, width = tokenizer.get_vocab_size(), wish.width or 192
        if wish.kinds("transformer", "rnn") == "rnn":
            model = RecurrentSeq2Seq(pairs.recurrent(vocabulary, width, wish.depth or 2), seed=wish.seed)
        else:
            config = pairs.transformer(vocabulary, width, wish.depth or 3, wish.heads or 4, 2 * width, dropout=0.1)
            model = Seq2Seq(config, seed=wish.seed)
    smoothing = 0.1 if wish.smoothing is None else wish.smoothing
    lesson = pairs.PairLesson(train, held, tokenizer, tokens=wish.batch or 2048, smoothing=smoothing, seed=wish.seed)
    save = tuned(wish.rank, wish.seed, model, lambda model, folder: pairs.save_translator(model, folder, tokenizer))
    what = f"{len(train)} sentence pairs, {len(held)} held out"
    return Start(model, lesson, save, 1e-3 if wish.base is None else 2e-4, what)


# ---- recordings ------------------------------------------------------------------------------------------------------


def start_transcribe(wish: Wish) -> Start:
    """Recordings with transcripts (a TSV, or LibriSpeech's folders) → a recogniser that streams."""
    wish.leave("recordings", "image", "vocabulary", "smoothing")
    first, second = wish.parts(".tsv")
    train = Recordings.open(first)
    if second is None:
        rows, held_rows = held_out(len(train), SHARE, wish.seed)
        train, held = train.part(rows), train.part(held_rows)
    else:
        held = Recordings.open(second)
    changed = Changed() if wish.augment else None
    model: nn.Module
    if wish.base is not None:
        model = load(wish.folder, dtype=torch.float32)
        hearing = hearing_of(model)
    else:
        hearing = Hearing(mel=speech.MEL, stack=speech.STACK)
        model = _recogniser(wish, hearing)
    lesson = speech.SpeechLesson([train], held, hearing, seconds=wish.batch or 60, changed=changed, seed=wish.seed)
    if wish.base is None and isinstance(model, Speech) and (some := lesson.batch(lesson.epoch(0)[0], wish.seed)):
        recognisers.steadied(model, some["frames"])
    save = tuned(wish.rank, wish.seed, model, lambda model, folder: speech.save_speech(model, folder, hearing))
    what = f"{len(train)} recordings, {len(held)} held out"
    return Start(model, lesson, save, 1e-3 if wish.base is None else 2e-4, what)


def _recogniser(wish: Wish, hearing: Hearing) -> nn.Module:
    match wish.kinds("transformer", "rnn", "cnn"):
        case "rnn":
            wish.leave("a recurrent net", "heads")
            return Recurrent(recognisers.gru(hearing, width=wish.width or 336, layers=wish.depth or 3), seed=wish.seed)
        case "cnn":
            wish.leave("a convolutional net", "heads")
            config = recognisers.convolution(hearing, width=wish.width or 224, blocks=wish.depth or 7)
            return ConvNet1d(config, seed=wish.seed)
    size = {"width": wish.width or 160, "depth": wish.depth or 7, "count": wish.heads or 4}
    return Speech(recognisers.listener(hearing, **size), seed=wish.seed)


__all__ = ["Start", "Wish", "start"]
