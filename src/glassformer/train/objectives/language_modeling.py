"""loss = −Σ_t log p(x_t | x_{<t}): language modeling on blocks of plain text.

bits per byte = Σ nats / ln 2 / Σ bytes, which unlike the loss per token does not depend on the tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.data import Blocks, Text, bpe, order, remarks
from glassformer.data import blocks as open_blocks
from glassformer.data.fingerprint import of_blocks, of_tokenizer
from glassformer.data.packages import cache
from glassformer.data.rows import Source
from glassformer.data.stream import Window
from glassformer.data.tables import SUFFIXES
from glassformer.data.text import DOCUMENT, Lines, is_table, middle_of
from glassformer.data.webdataset import is_shard
from glassformer.models import (
    ConvNet1d,
    ConvNet1dConfig,
    Decoder,
    DecoderConfig,
    MLPConfig,
    Recurrent,
    RecurrentConfig,
    Tokens,
    TokenWindow,
)
from glassformer.models import decoder as decoders
from glassformer.models.protocols import can, context_length, inputs_of
from glassformer.pipelines.evaluate import block_tokens, score_text, token_bytes, token_nats
from glassformer.pipelines.tokenizers import raw_tokenizer
from glassformer.train.args import TrainArgs
from glassformer.train.objective import Batch, TaskObjective
from glassformer.train.objectives.text_folder import save_text_model
from glassformer.train.splits import VAL_FRACTION, base_model

BLOCK = 128  # tokens per block


class LanguageModeling(TaskObjective):
    """Language modeling on batches of `batch_size` blocks; each epoch cuts the text at different positions.

    The `before` tokens preceding each block are context without a loss, for an MLP whose window reaches that far back;
    at the start of the text they are token 0. `evaluate` uses `val_blocks` evenly spaced validation blocks.
    """

    batch_unit = "blocks of text"

    better: Literal["higher", "lower"] = "lower"

    def __init__(
        self,
        blocks: Blocks,
        val: Blocks,
        tokenizer: Any,
        *,
        batch_size: int = 16,
        before: int = 0,
        val_blocks: int = 64,
        seed: int = 0,
    ) -> None:
        self.blocks, self.val, self.batch_size, self.before, self.seed = blocks, val, batch_size, before, seed
        self.val_blocks, self.bytes = val_blocks, token_bytes(tokenizer)
        self.tokenizer = tokenizer
        self.faults = blocks.faults

    def refill(self, window: Window) -> None:
        super().refill(window)
        self.blocks = Blocks.of(self.train, self.tokenizer, self.blocks.length)

    def summary(self) -> str:
        return f"{self.blocks.tokens:,} tokens of text, {self.val.tokens:,} for validation"

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        return save_language_model(model, folder, self.tokenizer)

    def fingerprint(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("batch_size", "before", "val_blocks", "seed")}
        data = {"data": of_blocks(self.blocks), "val": of_blocks(self.val)}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        """Return batches of rows; a row is the position in the text at which a block begins."""
        if not len(self.blocks):  # the end of a stream
            return []
        length, some = self.blocks.length, max(1, len(self.blocks) - 1)  # one fewer, to allow for the shift
        shift = int(order.random_of(self.seed, number, 3).integers(0, self.blocks.tokens - some * length))
        return [[shift + length * i for i in rows] for rows in order.batches(some, self.batch_size, self.seed, number)]

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        return {"tokens": torch.stack([block_tokens(self.blocks, start, self.before) for start in rows])}

    def count(self, batch: Batch) -> float:
        return float(len(batch["tokens"]) * self.blocks.length)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return token_nats(model, batch["tokens"], self.before).sum()

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return score_text(model, self.val, self.bytes, before=self.before, limit=self.val_blocks)


def build(args: TrainArgs, first: Source, second: Source | None) -> tuple[nn.Module, LanguageModeling]:
    """Build a language model and its objective from plain text."""
    args.reject("language modeling", "image_size", "augment", "augmentation", "label_smoothing")
    args.reject("language modeling", "max_length", "problem_type")
    if isinstance(first, Window):  # documents of a stream that are held in memory
        documents: Text | Lines = Lines.open(first, args.column_names, longest=DOCUMENT)
    else:
        documents = _text(first, args)
    base = base_model(args, "a language model", lambda model: can(model, "generate") and inputs_of(model) == ("text",))
    if base is not None:
        model, tokenizer = base, raw_tokenizer(base)
    else:
        tokenizer = bpe.train(documents.pieces(), args.vocab_size or 2048, specials=("<|endoftext|>",))
        model = _new_model(args, tokenizer.get_vocab_size())
    length = min(BLOCK, context_length(model) or BLOCK)
    place = cache() / "tokens"
    if isinstance(documents, Lines):
        whole = Blocks.of(documents, tokenizer, length)
    else:
        whole = open_blocks(documents, tokenizer, length, place)
    train, val = (
        whole.cut(VAL_FRACTION)
        if second is None
        else (whole, open_blocks(_text(second, args), tokenizer, length, place))
    )
    objective = LanguageModeling(train, val, tokenizer, batch_size=args.batch_size or 16, seed=args.seed)
    objective.train = documents
    objective.understood = *_shown(documents, args), *remarks.small_validation(len(val), "block")
    objective.default_lr = 1e-3 if base is None else 2e-4
    return model, objective


def _shown(text: Text | Lines, args: TrainArgs) -> tuple[str, ...]:
    """Return the files, the column if they are tables, and two examples."""
    if isinstance(text, Lines):
        return text.rows.described(), *remarks.examples(text.rows, lambda i: remarks.short(text.line(i)))
    first = text.files[0]
    files = ", ".join(path.name for path in text.files[:8]) + (", …" if len(text.files) > 8 else "")
    if first.suffix.lower() in SUFFIXES:
        columns, *shown = _shown(Lines.open(first, args.column_names), args)
        return f"text: {files} ({columns})", *shown
    beginning = next(Text((first,)).pieces_of(first), "")
    examples = [f"example ({first.name}): {remarks.short(beginning)}"]
    other = text.files[len(text.files) // 2]
    if middle := middle_of(other):
        examples.append(f"example (middle of {other.name}): {remarks.short(middle)}")
    return f"text: {files}", *examples


def _text(source: Source, args: TrainArgs) -> Text:
    """Open plain text or files of tables; the rows of folders, shards and Python objects are copied to a file."""
    if isinstance(source, str | Path):
        if Path(source).suffix.lower() in SUFFIXES or not is_table(source):
            return Text.open(source, args.column_names)
    elif isinstance(source, list | tuple) and not all(map(is_shard, source)):
        return Text.open(source, args.column_names)
    return Text.of(Lines.open(source, args.column_names, longest=DOCUMENT), cache() / "texts")


def _new_model(args: TrainArgs, vocabulary: int) -> nn.Module:
    match args.one_of("transformer", "rnn", "cnn"):
        case "rnn":
            args.reject("--arch rnn", "heads")
            return Recurrent(recurrent(vocabulary, args.width or 256, args.depth or 2), seed=args.seed)
        case "cnn":
            args.reject("--arch cnn", "heads")
            return ConvNet1d(convolutional(vocabulary, args.width or 192, args.depth or 10), seed=args.seed)
    width = args.width or 192
    config = transformer(vocabulary, width, args.depth or 4, args.heads or 4, 2 * width, length=2 * BLOCK)
    return Decoder(config, seed=args.seed)


def transformer(vocabulary: int, width: int, depth: int, count: int, hidden: int, *, length: int) -> DecoderConfig:
    """Return a Llama-style config: RMSNorm before each layer, rotary positions, SwiGLU, no biases."""
    return decoders.modern(vocabulary, width, depth, count, length, kv_heads=count, hidden=hidden)


def recurrent(vocabulary: int, width: int, layers: int) -> RecurrentConfig:
    return RecurrentConfig(
        reads=Tokens(vocabulary=vocabulary), classes=vocabulary, pool="none", width=width, layers=layers
    )


def convolutional(vocabulary: int, width: int, blocks: int, *, cycle: int = 5) -> ConvNet1dConfig:
    return ConvNet1dConfig(
        reads=Tokens(vocabulary=vocabulary), classes=vocabulary, pool="none", width=width, blocks=blocks, cycle=cycle
    )


def mlp(vocabulary: int, window: int, width: int, hidden: tuple[int, ...]) -> MLPConfig:
    """Return an MLP config over the concatenated embeddings of the last `window` tokens (Bengio et al. 2003)."""
    return MLPConfig(
        reads=TokenWindow(vocabulary=vocabulary, length=window, width=width), widths=hidden, classes=vocabulary
    )


def save_language_model(model: nn.Module, folder: str | Path, tokenizer: Any, *, half: bool = False) -> Path:
    """Save a folder that `generate` accepts; the tokenizer's end token, if any, ends generation."""
    ends = [tokenizer.token_to_id(token) for token in ("<|endoftext|>", "</s>")]
    known = [token for token in ends if token is not None]
    return save_text_model(model, folder, tokenizer, generation={"eos_token_id": known[0]} if known else {}, half=half)
