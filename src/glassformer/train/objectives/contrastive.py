"""loss = −Σ_i log softargmax_τ(x_i · y)_i: contrastive learning of sentence embeddings with in-batch negatives.

van den Oord et al. 2018 (InfoNCE); Gao, Yao, Chen, "SimCSE", 2021: a sentence paired with itself under dropout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from glassformer.data import Faults, order
from glassformer.data.fingerprint import of_rows, of_tokenizer
from glassformer.errors import ConfigError
from glassformer.models.protocols import Embedder
from glassformer.pipelines.evaluate import PAD, pad_rows, require_specials
from glassformer.train.objective import Batch
from glassformer.train.objectives.mlm import encoded

Triple = tuple[str, str, str | None]  # anchor, positive, hard negative


class Contrastive:
    """Contrastive objective on pairs of sentences with the same meaning, each with an optional hard negative.

    A sentence may be paired with itself, distinguished by dropout alone (SimCSE). `evaluate` reports how often the
    nearest of all validation sentences is one with the same meaning.
    """

    better: Literal["higher", "lower"] = "higher"

    def __init__(
        self,
        triples: Sequence[Triple],
        val: Sequence[tuple[str, str]],
        tokenizer: Any,
        *,
        batch_size: int = 64,
        temperature: float = 0.05,
        seed: int = 0,
    ) -> None:
        require_specials(tokenizer)
        if batch_size < 2 or temperature <= 0:
            fact = f"batch_size {batch_size} and temperature {temperature}"
            raise ConfigError(fact, "choose at least 2 pairs per batch, and a positive temperature such as 0.05")
        self.triples, self.val, self.tokenizer = triples, val, tokenizer
        self.batch_size, self.temperature, self.seed = batch_size, temperature, seed
        self.faults = Faults()

    def fingerprint(self) -> dict[str, Any]:
        own = {"batch_size": self.batch_size, "temperature": self.temperature, "seed": self.seed}
        both = (("data", self.triples), ("val", self.val))
        data = {name: of_rows(len(some), some.__getitem__) for name, some in both}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return order.batches(len(self.triples), min(self.batch_size, len(self.triples)), self.seed, number, whole=True)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        """Return anchors, then positives, then hard negatives in one batch; `pairs` is the number of anchors."""
        some = [self.triples[row] for row in rows]
        alike = [third for _, _, third in some if third is not None]
        texts = [*(first for first, _, _ in some), *(second for _, second, _ in some), *alike]
        tokens = pad_rows(encoded(self.tokenizer, texts), PAD)
        return {"tokens": tokens, "real": tokens != PAD, "pairs": torch.tensor(len(some))}

    def count(self, batch: Batch) -> float:
        return float(batch["pairs"])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        n = int(batch["pairs"])
        X = vectors(model, batch["tokens"], batch["real"])
        x, y = X[:n], X[n:]
        S = x @ y.mT / self.temperature
        same = torch.arange(n)
        # in both directions; hard negatives serve as candidates only
        return (cross_entropy(S, same, reduction="sum") + cross_entropy(S[:, :n].mT, same, reduction="sum")) / 2

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        same: dict[str, set[str]] = {}
        for first, second in self.val:
            same.setdefault(first, set()).add(second)
            same.setdefault(second, set()).add(first)
        texts = list(same)
        found = []
        for start in range(0, len(texts), 64):
            tokens = pad_rows(encoded(self.tokenizer, texts[start : start + 64]), PAD)
            found.append(vectors(model, tokens, tokens != PAD))
        X = torch.cat(found)
        best = (X @ X.mT).fill_diagonal_(-torch.inf).argmax(1).tolist()
        return {"nearest": sum(texts[i] in same[text] for text, i in zip(texts, best, strict=True)) / len(texts)}


def vectors(model: nn.Module, tokens: Tensor, real: Tensor) -> Tensor:
    """Return one unit vector per sentence. Models other than an embedder pool in their last layer."""
    padding = None if bool(real.all()) else real
    X = model.embeddings(tokens, padding) if isinstance(model, Embedder) else model(tokens, padding)
    return normalize(X, dim=-1)
