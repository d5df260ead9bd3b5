"""loss = −Σ_i log softargmax_τ(x_i · y)_i: a sentence is nearer to its paraphrase than to any other in the batch.

van den Oord et al. 2018 (InfoNCE); Gao, Yao, Chen, "SimCSE", 2021: a sentence paired with itself under dropout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from glassformer.errors import ConfigError
from glassformer.models import Encoder
from glassformer.tasks.data import Faults, order
from glassformer.tasks.data.fingerprint import of_rows, of_tokenizer
from glassformer.tasks.learn.folder import pad_rows
from glassformer.tasks.learn.masked import PAD, encoded, require_specials
from glassformer.tasks.training import Batch

Triple = tuple[str, str, str | None]  # a sentence, one that means the same, one that looks alike and does not


class ContrastLesson:
    """Pairs of sentences that mean the same, each with one that only looks like it, or none.

    A sentence paired with itself is told from others by dropout alone (SimCSE). `measure`: how often, among all
    held-out sentences, the nearest is one that means the same.
    """

    better: Literal["higher", "lower"] = "higher"

    def __init__(
        self,
        triples: Sequence[Triple],
        held: Sequence[tuple[str, str]],
        tokenizer: Any,
        *,
        size: int = 64,
        temperature: float = 0.05,
        seed: int = 0,
    ) -> None:
        require_specials(tokenizer)
        if size < 2 or temperature <= 0:
            fact = f"contrast of {size} pairs at temperature {temperature}"
            raise ConfigError(fact, "take at least 2 pairs, and a positive temperature such as 0.05")
        self.triples, self.held, self.tokenizer = triples, held, tokenizer
        self.size, self.temperature, self.seed = size, temperature, seed
        self.faults = Faults()

    def about(self) -> dict[str, Any]:
        own = {"size": self.size, "temperature": self.temperature, "seed": self.seed}
        both = (("data", self.triples), ("held", self.held))
        data = {name: of_rows(len(some), some.__getitem__) for name, some in both}
        return data | own | {"tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return order.batches(len(self.triples), min(self.size, len(self.triples)), self.seed, number, whole=True)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        """First the sentences, then what means the same, then what looks alike: one batch, `pairs` counts the first."""
        some = [self.triples[row] for row in rows]
        alike = [third for _, _, third in some if third is not None]
        texts = [*(first for first, _, _ in some), *(second for _, second, _ in some), *alike]
        tokens = pad_rows(encoded(self.tokenizer, texts), PAD)
        return {"tokens": tokens, "real": tokens != PAD, "pairs": torch.tensor(len(some))}

    def weigh(self, batch: Batch) -> float:
        return float(batch["pairs"])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        n = int(batch["pairs"])
        X = vectors(model, batch["tokens"], batch["real"])
        x, y = X[:n], X[n:]
        S = x @ y.mT / self.temperature
        same = torch.arange(n)
        # both ways: what looks alike is only asked for, and asks nothing
        return (cross_entropy(S, same, reduction="sum") + cross_entropy(S[:, :n].mT, same, reduction="sum")) / 2

    @torch.no_grad()
    def measure(self, model: nn.Module) -> dict[str, float]:
        same: dict[str, set[str]] = {}
        for first, second in self.held:
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
    """One vector of length 1 for each sentence. Networks beside the encoder pool by themselves, in their last layer."""
    X = model(tokens, None if bool(real.all()) else real)
    return normalize(model.sentences(X, real) if isinstance(model, Encoder) else X, dim=-1)
