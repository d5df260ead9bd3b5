"""loss = −Σ_{t masked} log p(x_t | the rest): words left out of sentences, from both sides of the gap.

Devlin et al., "BERT", 2018: of the tokens chosen, 80 % become the mask, 10 % another token, 10 % stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.errors import ConfigError
from glassformer.models import EncoderConfig
from glassformer.models.encoder import Pooling
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, Rotary, heads
from glassformer.nn.text import TextConfig
from glassformer.tasks.data import Fault, Faults, order
from glassformer.tasks.data.fingerprint import of_rows, of_tokenizer
from glassformer.tasks.learn.folder import pad_rows, save_words
from glassformer.tasks.training import Batch

SPECIALS = ("<pad>", "<s>", "</s>", "<mask>")
PAD, START, END, MASK = range(4)
NOWHERE = -100
CHUNK = 1000  # sentences that are tokenized at once


class Sentences(Protocol):
    """`data.Lines`, or anything else that has sentences by number."""

    def __len__(self) -> int: ...

    def line(self, i: int, /) -> str: ...


class Listed:
    """Sentences that are in memory already."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)

    def __len__(self) -> int:
        return len(self.texts)

    def line(self, i: int, /) -> str:
        return self.texts[i]


def encoded(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    return [one.ids for one in tokenizer.encode_batch_fast(list(texts))]


def token_lengths(tokenizer: Any, sentences: Sentences) -> np.ndarray[Any, Any]:
    """How many tokens each sentence has, in one pass."""
    sizes: list[int] = []
    for start in range(0, len(sentences), CHUNK):
        texts = [sentences.line(i) for i in range(start, min(start + CHUNK, len(sentences)))]
        sizes += map(len, encoded(tokenizer, texts))
    return np.array(sizes, dtype=np.int32)


def require_specials(tokenizer: Any) -> None:
    if any(tokenizer.token_to_id(token) != i for i, token in enumerate(SPECIALS)):
        remedy = f"train it with bpe.train(…, specials={SPECIALS}, begin='<s>', end='</s>')"
        raise ConfigError("the tokenizer does not count <pad>, <s>, </s>, <mask> as 0, 1, 2, 3", remedy)


class MaskedLesson:
    """Batches of about `tokens` tokens, sentences of like length together; a part `rate` of each is to be filled in.

    At least one token of every sentence is chosen. `measure` leaves the same words out every time.
    """

    better: Literal["higher", "lower"] = "lower"

    def __init__(
        self,
        sentences: Sentences,
        held: Sentences,
        tokenizer: Any,
        *,
        tokens: int = 2048,
        rate: float = 0.15,
        longest: int = 64,
        held_rows: int = 1000,
        seed: int = 0,
    ) -> None:
        require_specials(tokenizer)
        if not 0 < rate < 1:
            raise ConfigError(f"a part of {rate} of the words is masked", "choose one between 0 and 1, such as 0.15")
        self.sentences, self.held, self.tokenizer = sentences, held, tokenizer
        self.tokens, self.rate, self.longest, self.seed = tokens, rate, longest, seed
        self.held_rows, self.vocabulary = min(held_rows, len(held)), int(tokenizer.get_vocab_size())
        self.faults = Faults()
        self.lengths: np.ndarray[Any, Any] | None = None

    def about(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("tokens", "rate", "longest", "held_rows", "seed")}
        data = {name: of_rows(len(some), some.line) for name, some in (("data", self.sentences), ("held", self.held))}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        if self.lengths is None:
            self.lengths = token_lengths(self.tokenizer, self.sentences)
            for i in np.flatnonzero(self.lengths > self.longest):
                self.faults.count(Fault(f"sentence of more than {self.longest} tokens", f"sentence {i}"))
            self.faults.good(int((self.lengths <= self.longest).sum()))
        rows = np.flatnonzero((self.lengths <= self.longest) & (self.lengths > 2))
        batches = order.bucketed(self.lengths[rows], self.tokens, self.seed, number)
        return [[int(row) for row in rows[batch]] for batch in batches]

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        texts = self.faults.each(rows, self.sentences.line)
        return self._batch(texts, seed) if texts else None

    def _batch(self, texts: Sequence[str], seed: int) -> Batch:
        tokens = pad_rows(encoded(self.tokenizer, texts), PAD)
        random = torch.Generator().manual_seed(seed)
        seen, target = mask(tokens, self.rate, self.vocabulary, random)
        return {"tokens": seen, "real": tokens != PAD, "target": target}

    def weigh(self, batch: Batch) -> float:
        return float((batch["target"] != NOWHERE).sum())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits, target = filled(model, batch)
        return cross_entropy(logits, target, reduction="sum")

    @torch.no_grad()
    def measure(self, model: nn.Module) -> dict[str, float]:
        """Nats and accuracy of the words that are left out of held-out sentences."""
        total = right = count = 0.0
        rows = order.spread(len(self.held), self.held_rows)
        for start in range(0, len(rows), 64):
            batch = self._batch([self.held.line(i) for i in rows[start : start + 64]], start)
            logits, target = filled(model, batch)
            total += float(cross_entropy(logits, target, reduction="sum"))
            right, count = right + float((logits.argmax(-1) == target).sum()), count + len(target)
        return {"nats": total / count, "accuracy": right / count}


def mask(tokens: Tensor, rate: float, vocabulary: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """What the model sees, and what it should have seen where something was chosen (elsewhere NOWHERE)."""
    words = (tokens != PAD) & (tokens != START) & (tokens != END)
    draw = torch.rand(tokens.shape, generator=random).masked_fill(~words, 2.0)
    first = draw.argmin(1, keepdim=True)  # whatever the draw, every sentence has something to fill in
    picked = ((draw < rate) | torch.zeros_like(words).scatter(1, first, True)) & words
    fate = torch.rand(tokens.shape, generator=random)
    other = torch.randint(len(SPECIALS), vocabulary, tokens.shape, generator=random)
    seen = torch.where(picked & (fate < 0.8), MASK, tokens)
    seen = torch.where(picked & (fate >= 0.8) & (fate < 0.9), other, seen)
    return seen, tokens.masked_fill(~picked, NOWHERE)


def filled(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (n, vocabulary) of the chosen tokens alone, and what they are: a sixth of the work of all of them."""
    real, target = batch["real"], batch["target"]
    X = model(batch["tokens"], None if bool(real.all()) else real)
    chosen = target != NOWHERE
    words: Any = model.words
    return words(X[chosen]), target[chosen]


def transformer(
    vocabulary: int,
    width: int,
    depth: int,
    count: int,
    hidden: int,
    *,
    dropout: float = 0.0,
    pooling: Pooling = "mean",
) -> EncoderConfig:
    """Pre-norm, GELU, rotary positions, no biases; vectors of sentences have length 1."""
    norm = NormConfig(bias=False)
    block = BlockConfig(
        attention=heads(width, count, biases=""),
        ffn=FeedForwardConfig(width=width, hidden=hidden, bias=False),
        norm=norm,
        dropout=dropout,
    )
    turned = Rotary(width=width // count)
    text = TextConfig(vocabulary=vocabulary, depth=depth, block=block, relative=turned, last_norm=norm)
    return EncoderConfig(text=text, pooling=pooling, normalise=True)


def save_finder(model: nn.Module, folder: str | Path, tokenizer: Any, *, half: bool = False) -> Path:
    """So that `embed` works on the folder."""
    return save_words(model, folder, tokenizer, raw={"mask_token_id": MASK}, half=half)
