"""loss = −Σ_t log p(y_t | y_{<t}, x): translation from sentence pairs, with teacher forcing and label smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.checkpoints import FAMILIES, origin_of
from glassformer.data import Fault, Faults, Pairs, bpe, order, remarks
from glassformer.data.fingerprint import of_rows, of_tokenizer
from glassformer.data.stream import Window
from glassformer.errors import ConfigError
from glassformer.models import RecurrentSeq2Seq, RecurrentSeq2SeqConfig, Seq2Seq, Seq2SeqConfig, Tokens
from glassformer.models.protocols import can
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, Rotary, heads
from glassformer.nn.text import TextConfig
from glassformer.pipelines.evaluate import pad_rows
from glassformer.pipelines.tokenizers import raw_tokenizer
from glassformer.train.args import TrainArgs
from glassformer.train.objective import Batch, TaskObjective
from glassformer.train.objectives.text_folder import save_text_model
from glassformer.train.splits import base_model, data_paths, split

PAD, START, END = 0, 1, 2  # the first special tokens of `bpe.train`
IGNORED = -100  # target of padding, which contributes no loss
CHUNK = 1000  # sentences tokenized at once


class Translation(TaskObjective):
    """Translation objective on batches of about `batch_tokens` target tokens from sentences of similar length.

    The tokenizer must end a text with its end token (`bpe.train(…, end="</s>")`). A pair with more than `max_tokens`
    tokens on one side is skipped and reported. `evaluate` uses `val_rows` evenly spaced validation pairs.
    """

    better: Literal["higher", "lower"] = "lower"

    def __init__(
        self,
        pairs: Pairs,
        val: Pairs,
        tokenizer: Any,
        *,
        batch_tokens: int = 2048,
        label_smoothing: float = 0.1,
        max_tokens: int = 64,
        val_rows: int = 1000,
        seed: int = 0,
    ) -> None:
        if tokenizer.token_to_id("</s>") != END:
            raise ConfigError("the tokenizer's ids of <pad>, <s>, </s> are not 0, 1, 2", "train it with bpe.train")
        self.train, self.val, self.tokenizer = pairs, val, tokenizer
        self.batch_tokens, self.label_smoothing, self.max_tokens = batch_tokens, label_smoothing, max_tokens
        self.seed = seed
        self.val_rows = min(val_rows, len(val))
        self.faults = Faults()
        self.faults.merge(pairs.faults)
        self.lengths: np.ndarray[Any, Any] | None = None

    def summary(self) -> str:
        return f"{len(self.train):,} sentence pairs, {len(self.val):,} for validation"

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        return save_translator(model, folder, self.tokenizer)

    def fingerprint(self) -> dict[str, Any]:
        own = {
            name: getattr(self, name) for name in ("batch_tokens", "label_smoothing", "max_tokens", "val_rows", "seed")
        }
        data = {name: of_rows(len(some), some.pair) for name, some in (("data", self.train), ("val", self.val))}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        if self.lengths is None:
            self.lengths = self._count()
        rows = np.flatnonzero(self.lengths <= self.max_tokens)
        batches = order.bucketed(self.lengths[rows], self.batch_tokens, self.seed, number)
        return [[int(row) for row in rows[batch]] for batch in batches]

    def refill(self, window: Window) -> None:
        super().refill(window)
        self.lengths = None

    def _count(self) -> np.ndarray[Any, Any]:
        """Return the number of tokens of the longer side of each pair."""
        sizes: list[int] = []
        for start in range(0, len(self.train), CHUNK):
            both = [self.train.pair(i) for i in range(start, min(start + CHUNK, len(self.train)))]
            sides = [self.tokenizer.encode_batch_fast([pair[side] for pair in both]) for side in (0, 1)]
            sizes += [max(len(x.ids), len(y.ids)) for x, y in zip(*sides, strict=True)]
        for i in np.flatnonzero(np.array(sizes) > self.max_tokens):
            self.faults.count(Fault(f"sentence of more than {self.max_tokens} tokens", self.train.rows.place(int(i))))
        self.faults.count_usable(sum(size <= self.max_tokens for size in sizes))
        return np.array(sizes, dtype=np.int32)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        both = self.faults.each(rows, self.train.pair)
        return self._batch(both) if both else None

    def _batch(self, both: Sequence[tuple[str, str]]) -> Batch:
        source, target = (
            [one.ids for one in self.tokenizer.encode_batch_fast([pair[side] for pair in both])] for side in (0, 1)
        )
        return {
            "source": pad_rows(source, PAD),
            "before": pad_rows([[START, *row[:-1]] for row in target], PAD),
            "target": pad_rows(target, IGNORED),
        }

    def count(self, batch: Batch) -> float:
        return float((batch["target"] != IGNORED).sum())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return _loss(model, batch, self.label_smoothing)

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return cross-entropy in nats and accuracy per validation target token, without label smoothing."""
        rows = sorted(order.spread(len(self.val), self.val_rows), key=self.val.length)
        nats = right = count = 0.0
        for start in range(0, len(rows), 64):
            batch = self._batch([self.val.pair(i) for i in rows[start : start + 64]])
            logits, target = _logits(model, batch).flatten(0, 1), batch["target"].flatten()
            nats += float(cross_entropy(logits, target, reduction="sum"))
            right += float((logits.argmax(-1) == target).sum())
            count += self.count(batch)
        return {"nats": nats / count, "accuracy": right / count}


def build(args: TrainArgs) -> tuple[nn.Module, Translation]:
    """Build a translator and its objective from a table of sentence pairs."""
    args.reject("translation", "image_size", "augment", "augmentation", "max_length", "problem_type")
    first, second = data_paths(args)
    columns = args.column_names
    whole = Pairs.open(first, columns)
    train, val, faults = split(whole, None if second is None else Pairs.open(second, columns), args.seed)
    base = base_model(args, "a translator that `glassformer train` made", _is_own_translator)
    if base is not None:
        model: nn.Module = base
        tokenizer = raw_tokenizer(base)
    else:
        if (arch := args.one_of("transformer", "rnn")) == "rnn":
            args.reject("--arch rnn", "heads")
        texts = (text for i in range(len(train)) for text in train.pair(i))
        tokenizer = bpe.train(texts, args.vocab_size or 8000, end="</s>")
        vocabulary, width = tokenizer.get_vocab_size(), args.width or 192
        if arch == "rnn":
            model = RecurrentSeq2Seq(recurrent(vocabulary, width, args.depth or 2), seed=args.seed)
        else:
            config = transformer(vocabulary, width, args.depth or 3, args.heads or 4, 2 * width, dropout=0.1)
            model = Seq2Seq(config, seed=args.seed)
    smoothing = 0.1 if args.label_smoothing is None else args.label_smoothing
    objective = Translation(
        train, val, tokenizer, batch_tokens=args.batch_size or 2048, label_smoothing=smoothing, seed=args.seed
    )
    objective.faults.remember(faults)
    objective.understood = (
        train.rows.described(),
        *remarks.examples(train.rows, lambda i: " → ".join(map(remarks.short, train.pair(i)))),
        *remarks.small_validation(len(val)),
        *remarks.duplicate_texts(train.source, len(train), val.source, len(val), "source sentences"),
    )
    objective.default_lr = 1e-3 if base is None else 2e-4
    return model, objective


def _is_own_translator(model: nn.Module) -> bool:
    """Return whether a translator has the tokenizer of `build` rather than that of a published family."""
    origin = origin_of(model)
    return can(model, "translate") and origin is not None and origin.family not in FAMILIES


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    """Return the logits of every target token. No token attends to the padding after a target."""
    source = batch["source"]
    real = source != PAD
    return model(source, batch["before"], None if bool(real.all()) else real)


def _loss(model: nn.Module, batch: Batch, smoothing: float) -> Tensor:
    logits = _logits(model, batch).flatten(0, 1)
    return cross_entropy(logits, batch["target"].flatten(), reduction="sum", label_smoothing=smoothing)


def transformer(
    vocabulary: int, width: int, depth: int, count: int, hidden: int, *, dropout: float = 0.0, length: int = 128
) -> Seq2SeqConfig:
    """Return a pre-norm Transformer config with ReLU, rotary positions on both sides and no biases.

    Source, target and output share one embedding table.
    """
    norm = NormConfig(bias=False)
    attention = heads(width, count, biases="")
    ffn = FeedForwardConfig(width=width, hidden=hidden, activation="relu", bias=False)

    def side(block: BlockConfig) -> TextConfig:
        positions = Rotary(width=width // count)
        return TextConfig(vocabulary=vocabulary, depth=depth, block=block, relative=positions, last_norm=norm)

    encoder = BlockConfig(attention=attention, ffn=ffn, norm=norm, dropout=dropout)
    decoder = BlockConfig(attention=attention, cross=attention, ffn=ffn, norm=norm, dropout=dropout)
    return Seq2SeqConfig(source=side(encoder), target=side(decoder), start=START, end=END, pad=PAD, length=length)


def recurrent(vocabulary: int, width: int, layers: int) -> RecurrentSeq2SeqConfig:
    """Return an LSTM config: a bidirectional encoder and a decoder that attends to its states."""
    return RecurrentSeq2SeqConfig(
        reads=Tokens(vocabulary=vocabulary),
        vocabulary=vocabulary,
        width=width,
        layers=layers,
        attention=True,
        bidirectional=True,
    )


def save_translator(
    model: nn.Module,
    folder: str | Path,
    tokenizer: Any,
    *,
    languages: tuple[str, str] | None = None,
    beams: int = 4,
    max_length: int = 128,
    half: bool = False,
    normalize_source: bool = False,
) -> Path:
    """Save a folder that `translate` accepts; `languages` (such as "en", "fr") are stored in it.

    With `normalize_source`, `translate` writes every source text as a sentence.
    """
    raw = {} if languages is None else {"source_language": languages[0], "target_language": languages[1]}
    raw |= {"normalize_source": "sentence"} if normalize_source else {}
    generation = {
        "num_beams": beams,
        "length_penalty": 1.0,
        "max_length": max_length,
        "decoder_start_token_id": START,
        "eos_token_id": END,
        "bad_words_ids": [[PAD], [START]],
    }
    return save_text_model(model, folder, tokenizer, config=raw, generation=generation, half=half)
