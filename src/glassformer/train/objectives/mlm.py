"""loss = −Σ_{t masked} log p(x_t | the rest): masked language modeling.

Devlin et al., "BERT", 2018: of the selected tokens, 80 % become the mask token, 10 % another token, 10 % stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.data import Fault, Faults, Lines, bpe, order, remarks
from glassformer.data.fingerprint import of_rows, of_tokenizer
from glassformer.data.stream import Window
from glassformer.errors import ConfigError
from glassformer.models import Encoder, EncoderConfig
from glassformer.models.encoder import Pooling
from glassformer.models.protocols import TokenPredictor, can
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, Rotary, heads
from glassformer.nn.text import TextConfig
from glassformer.pipelines.evaluate import (
    IGNORED,
    MASK,
    SPECIALS,
    Sentences,
    masked_batch,
    masked_logits,
    require_specials,
    score_masked,
)
from glassformer.pipelines.tokenizers import raw_tokenizer
from glassformer.train.args import TrainArgs
from glassformer.train.objective import Batch, TaskObjective
from glassformer.train.objectives.text_folder import save_text_model
from glassformer.train.splits import base_model, data_paths, split

CHUNK = 1000  # sentences tokenized at once


def encoded(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    return [one.ids for one in tokenizer.encode_batch_fast(list(texts))]


def token_lengths(tokenizer: Any, sentences: Sentences) -> np.ndarray[Any, Any]:
    """Return the number of tokens of each sentence."""
    sizes: list[int] = []
    for start in range(0, len(sentences), CHUNK):
        texts = [sentences.line(i) for i in range(start, min(start + CHUNK, len(sentences)))]
        sizes += map(len, encoded(tokenizer, texts))
    return np.array(sizes, dtype=np.int32)


class MaskedLM(TaskObjective):
    """Masked language modeling on batches of about `batch_tokens` tokens from sentences of similar length.

    A fraction `mask_rate` of the tokens is masked, at least one per sentence. `evaluate` always masks the same tokens.
    """

    better: Literal["higher", "lower"] = "lower"

    def __init__(
        self,
        sentences: Sentences,
        val: Sentences,
        tokenizer: Any,
        *,
        batch_tokens: int = 2048,
        mask_rate: float = 0.15,
        max_tokens: int = 64,
        val_rows: int = 1000,
        seed: int = 0,
    ) -> None:
        require_specials(tokenizer)
        if not 0 < mask_rate < 1:
            raise ConfigError(f"mask_rate is {mask_rate}", "choose a number between 0 and 1, such as 0.15")
        self.train, self.val, self.tokenizer = sentences, val, tokenizer
        self.batch_tokens, self.mask_rate, self.max_tokens, self.seed = batch_tokens, mask_rate, max_tokens, seed
        self.val_rows, self.vocabulary = min(val_rows, len(val)), int(tokenizer.get_vocab_size())
        self.faults = Faults()
        self.lengths: np.ndarray[Any, Any] | None = None

    def summary(self) -> str:
        return f"{len(self.train):,} sentences, {len(self.val):,} for validation"

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        return save_encoder(model, folder, self.tokenizer)

    def fingerprint(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("batch_tokens", "mask_rate", "max_tokens", "val_rows", "seed")}
        data = {name: of_rows(len(some), some.line) for name, some in (("data", self.train), ("val", self.val))}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        if self.lengths is None:
            self.lengths = token_lengths(self.tokenizer, self.train)
            for i in np.flatnonzero(self.lengths > self.max_tokens):
                self.faults.count(Fault(f"sentence of more than {self.max_tokens} tokens", f"sentence {i}"))
            self.faults.count_usable(int((self.lengths <= self.max_tokens).sum()))
        rows = np.flatnonzero((self.lengths <= self.max_tokens) & (self.lengths > 2))
        batches = order.bucketed(self.lengths[rows], self.batch_tokens, self.seed, number)
        return [[int(row) for row in rows[batch]] for batch in batches]

    def refill(self, window: Window) -> None:
        super().refill(window)
        self.lengths = None

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        texts = self.faults.each(rows, self.train.line)
        return self._batch(texts, seed) if texts else None

    def _batch(self, texts: Sequence[str], seed: int) -> Batch:
        return masked_batch(self.tokenizer, texts, self.mask_rate, seed)

    def count(self, batch: Batch) -> float:
        return float((batch["target"] != IGNORED).sum())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits, target = masked_logits(model, batch)
        return cross_entropy(logits, target, reduction="sum")

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return cross-entropy in nats and accuracy on the masked tokens of the validation sentences."""
        return score_masked(model, self.val, self.tokenizer, rate=self.mask_rate, limit=self.val_rows)


def build(args: TrainArgs) -> tuple[nn.Module, MaskedLM]:
    """Build an encoder that predicts masked tokens and embeds sentences, from text with one sentence per line."""
    args.one_of("transformer")
    args.reject("masked language modeling", "max_length")
    first, second = data_paths(args)
    columns = args.column_names
    whole = Lines.open(first, columns)
    lines, val, faults = split(whole, None if second is None else Lines.open(second, columns), args.seed)
    model = base_model(args, "an encoder with a masked language modeling head", _predicts_masked)
    if model is not None:
        tokenizer = raw_tokenizer(model)
    else:
        texts = (lines.line(i) for i in range(len(lines)))
        tokenizer = bpe.train(texts, args.vocab_size or 6000, specials=SPECIALS, begin="<s>", end="</s>")
        width = args.width or 192
        size = (tokenizer.get_vocab_size(), width, args.depth or 4, args.heads or 4, 2 * width)
        model = Encoder(transformer(*size, dropout=0.1), seed=args.seed)
    objective = MaskedLM(lines, val, tokenizer, batch_tokens=args.batch_size or 2048, seed=args.seed)
    objective.faults.remember(faults)
    objective.understood = (
        *((lines.rows.described(),) if len(lines.rows.reader.names) > 1 else ()),
        *remarks.examples(lines.rows, lambda i: remarks.short(lines.line(i))),
        *remarks.small_validation(len(val)),
        *remarks.duplicate_texts(lines.line, len(lines), val.line, len(val), "sentences"),
    )
    objective.default_lr = 1e-3 if args.from_ is None else 2e-4
    return model, objective


def _predicts_masked(model: nn.Module) -> bool:
    return can(model, "embed") and isinstance(model, TokenPredictor) and model.predicts_tokens


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
    """Return an encoder config: pre-norm, GELU, rotary positions, no biases, sentence embeddings of length 1."""
    norm = NormConfig(bias=False)
    block = BlockConfig(
        attention=heads(width, count, biases=""),
        ffn=FeedForwardConfig(width=width, hidden=hidden, bias=False),
        norm=norm,
        dropout=dropout,
    )
    positions = Rotary(width=width // count)
    text = TextConfig(vocabulary=vocabulary, depth=depth, block=block, relative=positions, last_norm=norm)
    return EncoderConfig(text=text, pooling=pooling, normalise=True)


def save_encoder(model: nn.Module, folder: str | Path, tokenizer: Any, *, half: bool = False) -> Path:
    """Save a folder that `embed` accepts."""
    return save_text_model(model, folder, tokenizer, config={"mask_token_id": MASK}, half=half)
