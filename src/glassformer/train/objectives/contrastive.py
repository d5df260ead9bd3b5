"""loss = −Σ_i log softargmax_τ(x_i · y)_i: contrastive learning of sentence embeddings with in-batch negatives.

van den Oord et al. 2018 (InfoNCE); Gao, Yao, Chen, "SimCSE", 2021: a sentence paired with itself under dropout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from glassformer.data import Faults, order, remarks
from glassformer.data.fingerprint import of_rows, of_tokenizer
from glassformer.data.rows import RowDataset, Rows, Source, name_of, open_rows
from glassformer.errors import ConfigError
from glassformer.models.protocols import Embedder, can, context_length, device_of
from glassformer.pipelines.evaluate import PAD, pad_rows
from glassformer.pipelines.tokenizers import JsonTokenizer, raw_tokenizer
from glassformer.train.args import TrainArgs
from glassformer.train.objective import Batch, TaskObjective
from glassformer.train.objectives.mlm import encoded
from glassformer.train.objectives.text_folder import save_text_model
from glassformer.train.splits import base_model, split

LONGEST = 128  # tokens of a sentence unless --max-length is given
Triple = tuple[str, str, str | None]  # anchor, positive, hard negative


class SentenceTriples(RowDataset):
    """Pairs of sentences with the same meaning, each with a hard negative if the data has one."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @classmethod
    def open(cls, source: Source, columns: Mapping[str, str] | None = None) -> SentenceTriples:
        roles = ("text", "text_pair", "negative")
        whole = lambda row: all(isinstance(row[role], str) and row[role].strip() for role in roles if role in row)
        check = lambda row: "" if whole(row) else "empty sentence"
        rows = open_rows(source, roles[:2], optional=roles[2:], given=columns, check=check)
        remedy = "give a table with the columns text and text_pair"
        rows.require_some(f"{name_of(source)} has no pairs of sentences", remedy)
        return cls(rows)

    def __getitem__(self, i: int) -> Triple:
        row = self.rows[i]
        return row["text"], row["text_pair"], row.get("negative")

    def part(self, rows: NDArray[np.int64]) -> SentenceTriples:
        return SentenceTriples(self.rows.part(rows))

    def like(self, source: Source) -> SentenceTriples:
        return SentenceTriples.open(source, self.rows.given)


class Contrastive(TaskObjective):
    """Contrastive objective on pairs of sentences with the same meaning, each with an optional hard negative.

    A sentence may be paired with itself under different dropout masks (SimCSE). `evaluate` reports how often the
    nearest of all validation sentences is one with the same meaning, and the loss.
    """

    batch_unit = "pairs"

    better: Literal["higher", "lower"] = "higher"

    def __init__(
        self,
        triples: Sequence[Triple] | SentenceTriples,
        val: Sequence[tuple[str, str]],
        tokenizer: Any,
        *,
        batch_size: int = 64,
        temperature: float = 0.05,
        max_tokens: int | None = None,
        seed: int = 0,
    ) -> None:
        if batch_size < 2 or temperature <= 0:
            fact = f"batch_size is {batch_size} and temperature is {temperature}"
            raise ConfigError(fact, "choose at least 2 pairs per batch, and a positive temperature such as 0.05")
        self.train, self.val, self.tokenizer = triples, val, tokenizer
        self.words = JsonTokenizer(tokenizer)
        self.max_tokens = max_tokens
        self.batch_size, self.temperature, self.seed = batch_size, temperature, seed
        self.faults = Faults()

    def fingerprint(self) -> dict[str, Any]:
        own = {"batch_size": self.batch_size, "temperature": self.temperature, "seed": self.seed}
        both = (("data", self.train), ("val", self.val))
        data = {name: of_rows(len(some), some.__getitem__) for name, some in both}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        n = len(self.train)
        return order.batches(n, max(1, min(self.batch_size, n)), self.seed, number, whole=True)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        """Return anchors, then positives, then hard negatives in one batch; `pairs` is the number of anchors."""
        some: list[Triple] = self.faults.each(rows, self.train.__getitem__)
        if not some:
            return None
        alike = [third for _, _, third in some if third is not None]
        texts = [*(first for first, _, _ in some), *(second for _, second, _ in some), *alike]
        return {**self._encoded(texts), "pairs": torch.tensor(len(some))}

    def _encoded(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Return token ids, truncated to `max_tokens`, and the mask of real tokens."""
        tokenizer = self.tokenizer if self.max_tokens is None else self.words.truncating(self.max_tokens)
        rows = encoded(tokenizer, texts)
        tokens = pad_rows(rows, PAD)
        return {"tokens": tokens, "real": torch.arange(tokens.shape[1]) < torch.tensor([[len(row)] for row in rows])}

    def summary(self) -> str:
        return f"{len(self.train):,} pairs of sentences, {len(self.val):,} for validation"

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        return save_text_model(model, folder, self.tokenizer)

    def count(self, batch: Batch) -> float:
        return float(batch["pairs"])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        n = int(batch["pairs"])
        X = vectors(model, batch["tokens"], batch["real"])
        return info_nce(X[:n], X[n:], self.temperature)

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        same: dict[str, set[str]] = {}
        for first, second in self.val:
            same.setdefault(first, set()).add(second)
            same.setdefault(second, set()).add(first)
        texts = list(same)
        found = []
        for start in range(0, len(texts), 64):
            batch = {name: x.to(device_of(model)) for name, x in self._encoded(texts[start : start + 64]).items()}
            found.append(vectors(model, batch["tokens"], batch["real"]))
        X = torch.cat(found)
        best = (X @ X.mT).fill_diagonal_(-torch.inf).argmax(1).tolist()
        nearest = sum(texts[i] in same[text] for text, i in zip(texts, best, strict=True)) / len(texts)
        return {"nearest": nearest, "loss": self._val_loss(X, {text: i for i, text in enumerate(texts)})}

    def _val_loss(self, X: Float[Tensor, "n width"], rows: Mapping[str, int]) -> float:
        """Return the loss per pair in whole batches of the size used in training, or in one of all pairs if there are
        fewer, and without hard negatives."""
        n = min(self.batch_size, len(self.val))
        batches = [self.val[start : start + n] for start in range(0, len(self.val) - n + 1, n)]
        sides = [[X[[rows[pair[k]] for pair in some]] for k in (0, 1)] for some in batches]
        return sum(float(info_nce(x, y, self.temperature)) for x, y in sides) / (n * len(batches))


def info_nce(x: Float[Tensor, "n width"], y: Float[Tensor, "m width"], temperature: float) -> Float[Tensor, ""]:
    """loss = −½ Σᵢ log softmax(xᵢ Yᵀ / t)ᵢ + log softmax(yᵢ Xᵀ / t)ᵢ; the rows of y after the first n are only
    candidates, which are hard negatives."""
    n, S = len(x), x @ y.mT / temperature
    same = torch.arange(n, device=S.device)
    return (cross_entropy(S, same, reduction="sum") + cross_entropy(S[:, :n].mT, same, reduction="sum")) / 2


def build(args: TrainArgs, first: Source, second: Source | None) -> tuple[nn.Module, Contrastive]:
    """Build the objective for fine-tuning a sentence encoder on pairs of sentences with the same meaning."""
    base = base_model(args, "a sentence encoder", lambda model: can(model, "embed"))
    if base is None:
        raise ConfigError("training on sentence pairs needs an encoder to fine-tune", "add --from all-minilm-l6-v2")
    columns = args.column_names
    other = None if second is None else SentenceTriples.open(second, columns)
    train, rest, faults = split(SentenceTriples.open(first, columns), other, args.seed)
    val = [rest[i][:2] for i in range(len(rest))]
    length = min(args.max_length or LONGEST, context_length(base) or args.max_length or LONGEST)
    objective = Contrastive(
        train, val, raw_tokenizer(base), batch_size=args.batch_size or 32, max_tokens=length, seed=args.seed
    )
    objective.faults.remember(faults)
    objective.understood = (
        train.rows.described(),
        *remarks.examples(train.rows, lambda i: " ~ ".join(map(remarks.short, train[i][:2]))),
        *remarks.small_validation(len(val)),
        *remarks.duplicate_texts(lambda i: train[i][0], len(train), lambda i: val[i][0], len(val), "sentences"),
    )
    objective.default_lr, objective.default_epochs = (1e-3 if args.lora_rank is not None else 5e-5), 1.0
    return base, objective


def vectors(model: nn.Module, tokens: Tensor, real: Tensor) -> Tensor:
    """Return one unit vector per sentence. Models other than an embedder pool in their last layer."""
    padding = None if bool(real.all()) else real
    X = model.embeddings(tokens, padding) if isinstance(model, Embedder) else model(tokens, padding)
    return normalize(X, dim=-1)
