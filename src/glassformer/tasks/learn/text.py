"""loss = −Σ_t log p(x_t | x_{<t}): plain text, each token from those before it in its block.

bits per byte = Σ nats / ln 2 / Σ bytes: what a token is worth depends on the tokenizer, what a byte is worth does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.errors import ConfigError, InputError
from glassformer.models import ConvNet1dConfig, DecoderConfig, MLPConfig, RecurrentConfig, Tokens, TokenWindow
from glassformer.models import decoder as decoders
from glassformer.models.mlp import MLP
from glassformer.tasks.data import Blocks, Fault, Faults, order
from glassformer.tasks.data.fingerprint import of_blocks, of_tokenizer
from glassformer.tasks.learn.folder import save_words
from glassformer.tasks.metrics import bits_per_byte, perplexity
from glassformer.tasks.training import Batch

AT_ONCE = 16  # held-out blocks in one batch
PROBE = "A  café,\n\tÖl 12."  # whoever counts its bytes rightly neither lowers letters nor joins spaces
BYTE = re.compile("<0x[0-9A-F]{2}>")


class TextLesson:
    """Batches of `size` blocks; each epoch cuts the text at other places.

    `before` tokens in front of each block are seen and not predicted: an MLP's window reaches that far back. At the
    beginning of the text they are token 0. `measure` looks at `held_blocks` blocks from all over `held`.
    """

    better: Literal["higher", "lower"] = "lower"

    def __init__(
        self,
        blocks: Blocks,
        held: Blocks,
        tokenizer: Any,
        *,
        size: int = 16,
        before: int = 0,
        held_blocks: int = 64,
        seed: int = 0,
    ) -> None:
        self.blocks, self.held, self.size, self.before, self.seed = blocks, held, size, before, seed
        self.held_blocks, self.bytes = held_blocks, token_bytes(tokenizer)
        self.tokenizer = tokenizer
        self.faults = blocks.faults

    def about(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("size", "before", "held_blocks", "seed")}
        data = {"data": of_blocks(self.blocks), "held": of_blocks(self.held)}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        """Rows are the places in the text where blocks begin."""
        length, some = self.blocks.length, max(1, len(self.blocks) - 1)  # one fewer leaves room to shift them
        shift = int(order.random_of(self.seed, number, 3).integers(0, self.blocks.tokens - some * length))
        return [[shift + length * i for i in rows] for rows in order.batches(some, self.size, self.seed, number)]

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        return {"tokens": torch.stack([stretch(self.blocks, start, self.before) for start in rows])}

    def weigh(self, batch: Batch) -> float:
        return float(len(batch["tokens"]) * self.blocks.length)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return nats(model, batch["tokens"], self.before).sum()

    def measure(self, model: nn.Module) -> dict[str, float]:
        return score(model, self.held, self.bytes, before=self.before, most=self.held_blocks)


def stretch(blocks: Blocks, start: int, before: int) -> Tensor:
    """A block's tokens and the next one, with those before it: (before + length + 1,)."""
    missing = max(0, before - start)
    ids = blocks.ids(max(0, start - before), start + blocks.length + 1)
    return torch.cat([ids.new_zeros(missing), ids]) if missing else ids


def nats(model: nn.Module, tokens: Tensor, before: int = 0) -> Tensor:
    """−log p of every token of the blocks (b, length), by any model that answers the next token."""
    seen, target = tokens[:, :-1], tokens[:, before + 1 :]
    if isinstance(model, MLP):
        reads = model.config.reads
        if not isinstance(reads, TokenWindow) or reads.length != before + 1:
            fact = f"an MLP that reads {reads} came to blocks with {before} tokens before them"
            raise ConfigError(fact, "give TextLesson(before=…) one less than the length of its window")
        logits = model(seen.unfold(1, reads.length, 1).flatten(0, 1))
    else:
        logits = model(seen)[:, before:].flatten(0, 1)
    return cross_entropy(logits, target.flatten(), reduction="none").view(target.shape)


def token_bytes(tokenizer: Any) -> Tensor:
    """How many bytes of text each token stands for; special tokens have none, an unknown character's are NaN.

    A byte-level piece has a letter for each byte; in SentencePiece's, ▁ is a space and <0x0A> one byte. Which of them
    it is, a text shows. (A space that the tokenizer puts before each text it is given counts as one of the text's.)
    """
    vocabulary, added = tokenizer.get_vocab(), tokenizer.get_added_tokens_decoder()
    unknown = getattr(tokenizer.model, "unk_token", None)
    for size in (len, _spelt):
        sizes = torch.zeros(max(vocabulary.values()) + 1, dtype=torch.float64)  # not its count: ids may have gaps
        for piece, i in vocabulary.items():
            sizes[i] = size(piece)
        for i, token in added.items():
            sizes[i] = 0 if token.special else len(token.content.encode())
        if size is _spelt and unknown in vocabulary:
            sizes[vocabulary[unknown]] = math.nan
        once, twice = (sizes[tokenizer.encode(PROBE * n, add_special_tokens=False).ids].sum() for n in (1, 2))
        if float(twice - once) == len(PROBE.encode()):  # what is put before each text is in both
            return sizes
    fact = "the tokenizer changes text, so that the bytes of its tokens cannot be counted"
    raise InputError(fact, "take a model whose tokens are bytes (byte-level BPE) or pieces with ▁ for a space")


def _spelt(piece: str) -> int:
    return 1 if BYTE.fullmatch(piece) else len(piece.replace("▁", " ").encode())


def score(
    model: nn.Module,
    blocks: Blocks,
    sizes: Tensor,
    *,
    before: int = 0,
    most: int | None = None,
    faults: Faults | None = None,
) -> dict[str, float]:
    """Bits and perplexity per byte, and nats per token, over `most` blocks from all over, each from its own beginning.

    A token of unknown size is not counted, and its block told to `faults`.
    """
    rows = order.spread(len(blocks), most)
    total = size = predicted = 0.0
    with torch.no_grad():
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            tokens = torch.stack([stretch(blocks, i * blocks.length, before) for i in some])
            each = sizes[tokens[:, before + 1 :]]
            known = ~each.isnan()
            for i, whole in zip(some, known.all(1).tolist(), strict=True):
                if not whole and faults is not None:
                    faults.count(Fault("characters that the tokenizer does not know", f"block {i + 1}"))
            total += float(nats(model, tokens, before).double()[known].sum())
            size, predicted = size + float(each[known].sum()), predicted + float(known.sum())
    if not size:
        raise InputError("the tokenizer knows no character of the text", "take a text in the model's language")
    return {
        "bits_per_byte": bits_per_byte(total, int(size)),
        "perplexity_per_byte": perplexity(total, int(size)),
        "nats": total / predicted,
    }


def transformer(vocabulary: int, width: int, depth: int, count: int, hidden: int, *, length: int) -> DecoderConfig:
    """Pre-norm by RMS, rotary positions, SwiGLU, no biases, as Llama; every head has keys of its own."""
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
    """The embeddings of the last `window` tokens, side by side (Bengio et al. 2003)."""
    return MLPConfig(
        reads=TokenWindow(vocabulary=vocabulary, length=window, width=width), widths=hidden, classes=vocabulary
    )


def save_writer(model: nn.Module, folder: str | Path, tokenizer: Any, *, half: bool = False) -> Path:
    """So that `generate` works on the folder; a text ends with the tokenizer's end token, if it has one."""
    ends = [tokenizer.token_to_id(token) for token in ("<|endoftext|>", "</s>")]
    known = [token for token in ends if token is not None]
    return save_words(model, folder, tokenizer, generation={"eos_token_id": known[0]} if known else {}, half=half)
