"""What a wish for a writer or a finder comes to: plain text → a model that goes on, or one that has vectors."""

from __future__ import annotations

from typing import Any

from torch import nn

from glassformer.checkpoints.registry import cache
from glassformer.errors import InputError
from glassformer.models import ConvNet1d, Decoder, Encoder, Recurrent
from glassformer.tasks.data import Blocks, Lines, Text, blocks, bpe
from glassformer.tasks.learn import masked, text
from glassformer.tasks.learn.begin import begun, going_on, halved
from glassformer.tasks.learn.wish import SHARE, Start, Wish
from glassformer.tasks.tokenize import tokenizer_of

LENGTH = 128  # tokens of a block
BATCH = 16  # blocks of a batch


def start_generate(wish: Wish) -> Start:
    """Plain text → a model that goes on from a beginning."""
    wish.leave("plain text", "image", "augment", "changes", "smoothing")
    first, second = wish.parts(".txt")
    source = Text.open(first)
    model: nn.Module | None = going_on(wish, (Decoder, Recurrent, ConvNet1d), "a model that writes")
    if model is not None:
        tokenizer = tokenizer_of(model)
    else:
        tokenizer = bpe.train(source.pieces(), wish.vocabulary or 2048, specials=("<|endoftext|>",))
        model = _writer(wish, tokenizer.get_vocab_size())
    length = min(LENGTH, model.config.length) if isinstance(model, Decoder) else LENGTH
    learned, held = _blocks(source, None if second is None else Text.open(second), tokenizer, length)
    lesson = text.TextLesson(learned, held, tokenizer, size=wish.batch or BATCH, seed=wish.seed)
    save = lambda model, folder: text.save_writer(model, folder, tokenizer)
    return begun(wish, model, lesson, save, f"{learned.tokens} tokens of text, {held.tokens} held out")


def _writer(wish: Wish, vocabulary: int) -> nn.Module:
    match wish.kinds("transformer", "rnn", "cnn"):
        case "rnn":
            wish.leave("a recurrent net", "heads")
            return Recurrent(text.recurrent(vocabulary, wish.width or 256, wish.depth or 2), seed=wish.seed)
        case "cnn":
            wish.leave("a convolutional net", "heads")
            return ConvNet1d(text.convolutional(vocabulary, wish.width or 192, wish.depth or 10), seed=wish.seed)
    width = wish.width or 192
    config = text.transformer(vocabulary, width, wish.depth or 4, wish.heads or 4, 2 * width, length=2 * LENGTH)
    return Decoder(config, seed=wish.seed)


def _blocks(source: Text, held: Text | None, tokenizer: Any, length: int) -> tuple[Blocks, Blocks]:
    place = cache() / "tokens"
    whole = blocks(source, tokenizer, length, place)
    return whole.cut(SHARE) if held is None else (whole, blocks(held, tokenizer, length, place))


def start_embed(wish: Wish) -> Start:
    """Sentences, one a line → an encoder that fills in words, and has a vector for each sentence."""
    wish.leave("sentences", "image", "augment", "changes", "smoothing")
    wish.kinds("transformer")
    first, second = wish.parts(".txt")
    lines, held, faults = halved(Lines.open(first), None if second is None else Lines.open(second), wish.seed)
    model = going_on(wish, (Encoder,), "an encoder with a head for masked words")
    if model is not None:
        if not model.config.word_head:
            raise InputError(f"{wish.base} fills in no words", "go on from an encoder with a head for masked words")
        tokenizer = tokenizer_of(model)
    else:
        texts = (lines.line(i) for i in range(len(lines)))
        specials = masked.SPECIALS
        tokenizer = bpe.train(texts, wish.vocabulary or 6000, specials=specials, begin="<s>", end="</s>")
        width = wish.width or 192
        size = (tokenizer.get_vocab_size(), width, wish.depth or 4, wish.heads or 4, 2 * width)
        model = Encoder(masked.transformer(*size, dropout=0.1), seed=wish.seed)
    lesson = masked.MaskedLesson(lines, held, tokenizer, tokens=wish.batch or 2048, seed=wish.seed)
    save = lambda model, folder: masked.save_finder(model, folder, tokenizer)
    return begun(wish, model, lesson, save, f"{len(lines)} sentences, {len(held)} held out", faults=faults)
