"""loss = −Σ_t log p(y_t | y_{<t}, x): sentence pairs, each target token from the source and the true ones before it.

Label smoothing (Szegedy et al. 2016) takes a part of the certainty away and spreads it over all tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.errors import ConfigError, InputError
from glassformer.models import RecurrentSeq2SeqConfig, Seq2SeqConfig, Tokens
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, Rotary, heads
from glassformer.nn.text import TextConfig
from glassformer.tasks.data import Fault, Faults, Pairs, order
from glassformer.tasks.data.fingerprint import of_rows, of_tokenizer
from glassformer.tasks.learn.folder import pad_rows, save_words
from glassformer.tasks.metrics import bleu, bleu_signature, chrf
from glassformer.tasks.tokenize import words_of
from glassformer.tasks.training import Batch
from glassformer.tasks.translate import AT_ONCE, context_of, translate

PAD, START, END = 0, 1, 2  # the first specials of a tokenizer that `bpe.train` makes
NOWHERE = -100  # a target that no loss is taken from
CHUNK = 1000  # sentences that are tokenized at once


class PairLesson:
    """Batches of about `tokens` target tokens, sentences of like length together.

    The tokenizer ends a text with its end token (`bpe.train(…, end="</s>")`); a pair with more than `longest` tokens on
    one side is left out and counted. `measure` looks at `held_rows` pairs from all over `held`.
    """

    better: Literal["higher", "lower"] = "lower"

    def __init__(
        self,
        pairs: Pairs,
        held: Pairs,
        tokenizer: Any,
        *,
        tokens: int = 2048,
        smoothing: float = 0.1,
        longest: int = 64,
        held_rows: int = 1000,
        seed: int = 0,
    ) -> None:
        if tokenizer.token_to_id("</s>") != END:
            raise ConfigError("the tokenizer does not count <pad>, <s>, </s> as 0, 1, 2", "train it with bpe.train")
        self.pairs, self.held, self.tokenizer = pairs, held, tokenizer
        self.tokens, self.smoothing, self.longest, self.seed = tokens, smoothing, longest, seed
        self.held_rows = min(held_rows, len(held))
        self.faults = Faults()
        self.faults.merge(pairs.faults)
        self.lengths: np.ndarray[Any, Any] | None = None

    def about(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("tokens", "smoothing", "longest", "held_rows", "seed")}
        data = {name: of_rows(len(some), some.pair) for name, some in (("data", self.pairs), ("held", self.held))}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        if self.lengths is None:
            self.lengths = self._count()
        rows = np.flatnonzero(self.lengths <= self.longest)
        batches = order.bucketed(self.lengths[rows], self.tokens, self.seed, number)
        return [[int(row) for row in rows[batch]] for batch in batches]

    def _count(self) -> np.ndarray[Any, Any]:
        """The tokens of the longer side of each pair, in one pass."""
        sizes: list[int] = []
        for start in range(0, len(self.pairs), CHUNK):
            both = [self.pairs.pair(i) for i in range(start, min(start + CHUNK, len(self.pairs)))]
            sides = [self.tokenizer.encode_batch_fast([pair[side] for pair in both]) for side in (0, 1)]
            sizes += [max(len(x.ids), len(y.ids)) for x, y in zip(*sides, strict=True)]
        for i in np.flatnonzero(np.array(sizes) > self.longest):
            self.faults.count(Fault(f"sentence of more than {self.longest} tokens", self.pairs.rows.place(int(i))))
        self.faults.good(sum(size <= self.longest for size in sizes))
        return np.array(sizes, dtype=np.int32)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        both = self.faults.each(rows, self.pairs.pair)
        return self._batch(both) if both else None

    def _batch(self, both: Sequence[tuple[str, str]]) -> Batch:
        source, target = (
            [one.ids for one in self.tokenizer.encode_batch_fast([pair[side] for pair in both])] for side in (0, 1)
        )
        return {
            "source": pad_rows(source, PAD),
            "before": pad_rows([[START, *row[:-1]] for row in target], PAD),
            "target": pad_rows(target, NOWHERE),
        }

    def weigh(self, batch: Batch) -> float:
        return float((batch["target"] != NOWHERE).sum())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return _loss(model, batch, self.smoothing)

    @torch.no_grad()
    def measure(self, model: nn.Module) -> dict[str, float]:
        """Nats and accuracy of each true next token of held-out pairs, without smoothing."""
        rows = sorted(order.spread(len(self.held), self.held_rows), key=self.held.length)
        nats = right = count = 0.0
        for start in range(0, len(rows), 64):
            batch = self._batch([self.held.pair(i) for i in rows[start : start + 64]])
            logits, target = _logits(model, batch).flatten(0, 1), batch["target"].flatten()
            nats += float(cross_entropy(logits, target, reduction="sum"))
            right += float((logits.argmax(-1) == target).sum())
            count += self.weigh(batch)
        return {"nats": nats / count, "accuracy": right / count}


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    """Of every target token, by either kind of model. Padding after a target is seen by nobody."""
    source = batch["source"]
    real = source != PAD
    return model(source, batch["before"], None if bool(real.all()) else real)


def _loss(model: nn.Module, batch: Batch, smoothing: float) -> Tensor:
    logits = _logits(model, batch).flatten(0, 1)
    return cross_entropy(logits, batch["target"].flatten(), reduction="sum", label_smoothing=smoothing)


def judge(
    model: nn.Module,
    pairs: Pairs,
    *,
    most: int | None = None,
    beams: int | None = None,
    watch: Callable[[list[list[str]]], Iterable[list[str]]] = iter,
    faults: Faults | None = None,
) -> dict[str, Any]:
    """BLEU and chrF of the translations of different sources, `most` of them, against all targets that each has.

    A source that passes the model's context is told to `faults` and left out; `watch` goes over the batches.
    """
    meant: dict[str, list[str]] = {}
    rows: dict[str, int] = {}
    for i in range(len(pairs)):
        source, target = pairs.pair(i)
        meant.setdefault(source, []).append(target)
        rows.setdefault(source, i)
    sources, words, context = list(meant), words_of(model), context_of(model)

    def fitting(i: int) -> str:
        if context is not None and len(words.encode(sources[i])) > context:
            raise Fault(f"sentence of more than {context} tokens", pairs.rows.place(rows[sources[i]]))
        return sources[i]

    tally = Faults() if faults is None else faults
    kept = sorted(tally.each(order.spread(len(sources), most), fitting), key=len)  # less padding
    if not kept:
        raise InputError(f"no sentence is within the model's context of {context} tokens", "give shorter ones")
    said: list[str] = []
    for some in watch([kept[start : start + AT_ONCE] for start in range(0, len(kept), AT_ONCE)]):
        said += translate(model, some, beams=beams)
    references = [meant[source] for source in kept]
    return {
        "bleu": bleu(said, references),
        "chrf": chrf(said, references),
        "bleu_first_reference": bleu(said, [one[0] for one in references]),
        "chrf_first_reference": chrf(said, [one[0] for one in references]),
        "sentences": len(said),
        "references": sum(map(len, references)),
        "signature": bleu_signature(said, references),
    }


def transformer(
    vocabulary: int, width: int, depth: int, count: int, hidden: int, *, dropout: float = 0.0, length: int = 128
) -> Seq2SeqConfig:
    """Pre-norm, ReLU, rotary positions on both sides, one table for source, target and answers, no biases."""
    norm = NormConfig(bias=False)
    attention = heads(width, count, biases="")
    ffn = FeedForwardConfig(width=width, hidden=hidden, activation="relu", bias=False)

    def side(block: BlockConfig) -> TextConfig:
        turned = Rotary(width=width // count)
        return TextConfig(vocabulary=vocabulary, depth=depth, block=block, relative=turned, last_norm=norm)

    encoder = BlockConfig(attention=attention, ffn=ffn, norm=norm, dropout=dropout)
    decoder = BlockConfig(attention=attention, cross=attention, ffn=ffn, norm=norm, dropout=dropout)
    return Seq2SeqConfig(source=side(encoder), target=side(decoder), start=START, end=END, pad=PAD, length=length)


def recurrent(vocabulary: int, width: int, layers: int, *, dropout: float = 0.0) -> RecurrentSeq2SeqConfig:
    """LSTMs, the encoder in both directions, the decoder with attention to its states."""
    return RecurrentSeq2SeqConfig(
        reads=Tokens(vocabulary=vocabulary),
        vocabulary=vocabulary,
        width=width,
        layers=layers,
        attention=True,
        bidirectional=True,
        dropout=dropout,
    )


def save_translator(
    model: nn.Module,
    folder: str | Path,
    tokenizer: Any,
    *,
    languages: tuple[str, str] | None = None,
    beams: int = 4,
    longest: int = 128,
    half: bool = False,
) -> Path:
    """So that `translate` works on the folder; `languages` are told by it ("en", "fr")."""
    raw = {} if languages is None else {"source_language": languages[0], "target_language": languages[1]}
    generation = {
        "num_beams": beams,
        "length_penalty": 1.0,
        "max_length": longest,
        "decoder_start_token_id": START,
        "eos_token_id": END,
        "bad_words_ids": [[PAD], [START]],
    }
    return save_words(model, folder, tokenizer, raw=raw, generation=generation, half=half)
