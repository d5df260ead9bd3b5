"""`start("classify", Wish(data="mnist"))`: the model and the lesson that a wish comes to, for every task."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from glassformer.checkpoints import Preprocess, origin_of, read_preprocess
from glassformer.checkpoints.preprocess import FILE
from glassformer.errors import ConfigError, InputError
from glassformer.models import ConvNet1d, Hybrid, Recurrent, RecurrentSeq2Seq, Seq2Seq, Speech, ViT
from glassformer.tasks.data import Pairs, Recordings, bpe
from glassformer.tasks.data.images import Images
from glassformer.tasks.learn import image_models, pairs, recognisers, speech
from glassformer.tasks.learn.begin import begun, going_on, halved
from glassformer.tasks.learn.image_models import Size
from glassformer.tasks.learn.images import Augment, ImageLesson, save_images, statistics
from glassformer.tasks.learn.start_text import start_embed, start_generate
from glassformer.tasks.learn.tune import retarget
from glassformer.tasks.learn.unlike import Changed
from glassformer.tasks.learn.wish import Start, Wish
from glassformer.tasks.symbols import Hearing, hearing_of
from glassformer.tasks.tokenize import tokenizer_of

NAMERS = ("hybrid", "vit", "cnn", "mlp", "rnn")  # kinds of models that name pictures
STRIDE = 4  # pixels from one token of a hybrid to the next
LARGE = 96  # pixels: the longer side of photographs, unless wished for otherwise; 24 × 24 tokens of a hybrid
MOST = 4096  # tokens


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
    base = going_on(wish, (nn.Module,), "a model that names pictures")
    size, channels = _seen_by(base, wish.image)
    images, note = Images.open(first, size=size, channels=channels), ""
    if size is None:  # every image as large as the first, which is what most sets of one size want
        _, high, wide = images.shape
        size = _usual(high, wide)
        if size != (high, wide):
            note = f"images of {high} × {wide} are scaled to {size[0]} × {size[1]}; --image SIDE makes them otherwise"
        images = Images.open(first, size=size, channels=images.channels)
    _require_few_tokens(wish.kinds(*NAMERS) if base is None else base, images.shape[1:])
    other = None
    if second is not None:
        other = Images.open(second, size=images.shape[1:], channels=images.channels, labels=images.labels)
    images, held, faults = halved(images, other, wish.seed)
    mean, std = _colours(base) or statistics(images)
    usual = {"crop": max(1, images.shape[1] // 8), "flip": images.channels == 3}
    lesson = ImageLesson(
        train=images,
        held=held,
        mean=mean,
        std=std,
        augment=wish.changed(Augment, **usual) or Augment(),
        smoothing=0.1 if wish.smoothing is None else wish.smoothing,
        size=wish.batch or 64,
        seed=wish.seed,
    )
    if base is not None:
        model = retarget(base, classes=len(images.labels), image=images.shape[1:], seed=wish.seed)
    else:
        model = _namer(wish, images.shape, len(images.labels))
    save = lambda model, folder: save_images(model, folder, lesson.labels, lesson.preprocess)
    _, high, wide = images.shape
    what = f"{len(images)} images of {high} × {wide} in {len(images.labels)} classes, {len(held)} held out"
    return begun(wish, model, lesson, save, what, faults=faults, gentle=3e-4)._replace(note=note)


def _namer(wish: Wish, shape: image_models.Shape, classes: int) -> nn.Module:
    kind = wish.kinds(*NAMERS)
    match kind:
        case "cnn" | "rnn":
            wish.leave(f"a {kind} for pictures", "depth", "heads")
        case "mlp":
            wish.leave("an mlp", "heads")
            if (wish.depth or 0) > image_models.DEEPEST:
                raise ConfigError(f"an mlp of {wish.depth} layers", f"choose at most {image_models.DEEPEST}")
    room = Size(width=wish.width or 64, depth=wish.depth or 4, heads=wish.heads or 4)
    patch = _patch(shape[1], shape[2]) if kind == "vit" else STRIDE
    return image_models.build(kind, shape, classes, room, patch=patch, seed=wish.seed)


def _usual(rows: int, columns: int) -> tuple[int, int]:
    """Small images as they are; of large ones the longer side LARGE, both in eights, which patches tile."""
    longer = max(rows, columns)
    if longer <= LARGE:
        return rows, columns
    in_eights = lambda side: max(8, 8 * round(side * LARGE / longer / 8))
    return in_eights(rows), in_eights(columns)


def _require_few_tokens(model: nn.Module | str, size: tuple[int, int]) -> None:
    """Attention pays for every two tokens: beyond MOST of them a step takes minutes. `model`: one, or a new one's kind.

    A library's user who means it builds the model (`image_models.build`) and trains it.
    """
    match model:
        case "vit":
            high = wide = _patch(*size)
        case "hybrid":
            high = wide = STRIDE
        case ViT() | Hybrid():
            high, wide = model.config.patch
        case _:
            return
    tokens = -(-size[0] // high) * -(-size[1] // wide)
    if tokens > MOST:
        fact = f"images of {size[0]} × {size[1]} are {tokens:,} tokens, in patches of {high} × {wide}"
        raise ConfigError(f"{fact}; at most {MOST:,} are taken", f"choose a smaller --image, such as {LARGE}")


def _seen_by(base: nn.Module | None, image: int | None) -> tuple[tuple[int, int] | None, int | None]:
    """The size and channels that a model to go on from was made for; another size if one is wished for."""
    config, how = getattr(base, "config", None), _prepared(base)
    size = (image, image) if image is not None else getattr(config, "image", None)
    if size is None and how is not None and isinstance(how.resize, tuple):  # what has no grid of tokens
        size = how.resize
    return size, getattr(config, "channels", None)


def _prepared(base: nn.Module | None) -> Preprocess | None:
    """How pictures are made ready for a model to go on from, if its folder says so."""
    origin = None if base is None else origin_of(base)
    return None if origin is None or origin.file(FILE) is None else read_preprocess(origin)


def _colours(base: nn.Module | None) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The mean and deviation that a model to go on from has learned to see by."""
    how = _prepared(base)
    return None if how is None or how.mean is None or how.std is None else (tuple(how.mean), tuple(how.std))


def _patch(rows: int, columns: int) -> int:
    """The largest patch up to a fourth of the image that tiles it: 16 tokens or more."""
    fitting = [p for p in range(1, max(2, min(rows, columns) // 4 + 1)) if rows % p == 0 and columns % p == 0]
    return min(16, max(fitting)) if max(fitting) <= 16 else max(p for p in fitting if p <= 16)


# ---- sentence pairs --------------------------------------------------------------------------------------------------


def start_translate(wish: Wish) -> Start:
    """A TSV of sentence pairs → a model that translates."""
    wish.leave("sentence pairs", "image", "augment", "changes")
    first, second = wish.parts(".tsv")
    train, held, faults = halved(Pairs.open(first), None if second is None else Pairs.open(second), wish.seed)
    model: nn.Module | None = going_on(wish, (Seq2Seq, RecurrentSeq2Seq), "a model that translates")
    if model is not None:
        tokenizer = tokenizer_of(model)
    else:
        if (kind := wish.kinds("transformer", "rnn")) == "rnn":
            wish.leave("a recurrent net", "heads")
        texts = (text for i in range(len(train)) for text in train.pair(i))
        tokenizer = bpe.train(texts, wish.vocabulary or 8000, end="</s>")
        vocabulary, width = tokenizer.get_vocab_size(), wish.width or 192
        if kind == "rnn":
            model = RecurrentSeq2Seq(pairs.recurrent(vocabulary, width, wish.depth or 2), seed=wish.seed)
        else:
            config = pairs.transformer(vocabulary, width, wish.depth or 3, wish.heads or 4, 2 * width, dropout=0.1)
            model = Seq2Seq(config, seed=wish.seed)
    smoothing = 0.1 if wish.smoothing is None else wish.smoothing
    lesson = pairs.PairLesson(train, held, tokenizer, tokens=wish.batch or 2048, smoothing=smoothing, seed=wish.seed)
    save = lambda model, folder: pairs.save_translator(model, folder, tokenizer)
    return begun(wish, model, lesson, save, f"{len(train)} sentence pairs, {len(held)} held out", faults=faults)


# ---- recordings ------------------------------------------------------------------------------------------------------


def start_transcribe(wish: Wish) -> Start:
    """Recordings with transcripts (a TSV, or LibriSpeech's folders) → a recogniser that streams."""
    wish.leave("recordings", "image", "vocabulary", "smoothing")
    first, second = wish.parts(".tsv")
    other = None if second is None else Recordings.open(second)
    train, held, faults = halved(Recordings.open(first), other, wish.seed)
    changed = wish.changed(Changed)
    model: nn.Module | None = going_on(wish, (Speech, Recurrent, ConvNet1d), "a recogniser that streams")
    if model is not None:
        hearing = hearing_of(model)
    else:
        hearing = Hearing(mel=speech.MEL, stack=speech.STACK)
        model = _recogniser(wish, hearing)
    lesson = speech.SpeechLesson([train], held, hearing, seconds=wish.batch or 60, changed=changed, seed=wish.seed)
    if wish.base is None and isinstance(model, Speech) and (some := lesson.batch(lesson.epoch(0)[0], wish.seed)):
        recognisers.steadied(model, some["frames"])
    save = lambda model, folder: speech.save_speech(model, folder, hearing)
    return begun(wish, model, lesson, save, f"{len(train)} recordings, {len(held)} held out", faults=faults)


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
