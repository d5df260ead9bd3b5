"""text → vector, as defined by the model's folder: pooled, projected and normalised; and nearest-neighbour search.

Reimers, Gurevych, "Sentence-BERT", 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from glassformer.checkpoints import origin_of
from glassformer.checkpoints.files import read_object
from glassformer.errors import InputError
from glassformer.models.protocols import context_length, device_of, require
from glassformer.pipelines.tokenizers import tokenizer_of

BATCH = 32


class Neighbour(NamedTuple):
    """Index of a vector among those searched, and its cosine similarity."""

    place: int
    cosine: float


class TokenizedText(NamedTuple):
    """A tokenized text; `cut` if it was truncated to the folder's max_seq_length."""

    tokens: list[int]
    cut: bool


def tokenize(model: nn.Module, text: str) -> TokenizedText:
    """Tokenize a text. Texts beyond a sentence encoder's max_seq_length are truncated; other models raise an error."""
    words = tokenizer_of(model)
    tokens = words.encode(text)
    context, cut = context_length(model), _max_seq_length(model)
    if cut is not None and len(tokens) > min(cut, context or cut):
        body, own = words.encode(text, special=False), words.encode("")
        kept = body[: max(0, min(cut, context or cut) - len(own))]
        return TokenizedText([*own[:1], *kept, *own[1:]], True)
    if context is not None and len(tokens) > context:
        raise InputError(f"a text of {len(tokens)} tokens exceeds the model's context of {context}", "shorten it")
    if not tokens:
        raise InputError("a text is 0 tokens", "leave empty texts out")
    return TokenizedText(tokens, False)


def _max_seq_length(model: nn.Module) -> int | None:
    """max_seq_length of sentence_bert_config.json."""
    origin = origin_of(model)
    path = origin.file("sentence_bert_config.json") if origin is not None else None
    found = read_object(path).get("max_seq_length") if path is not None else None
    return found if type(found) is int and found > 2 else None


def vectors(model: nn.Module, texts: Sequence[Sequence[int]], batch: int = BATCH) -> Iterator[tuple[list[int], Tensor]]:
    """Embed tokenized texts and yield (indices, vectors) in batches of similar length, which minimises padding."""
    embedder, device = require(model, "embed"), device_of(model)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        longest = len(texts[places[-1]])
        tokens = torch.zeros(len(places), longest, dtype=torch.long)
        real = torch.zeros(len(places), longest, dtype=torch.bool)
        for row, i in enumerate(places):
            tokens[row, : len(texts[i])] = torch.tensor(list(texts[i]))
            real[row, : len(texts[i])] = True
        tokens, real = tokens.to(device), real.to(device)
        with torch.inference_mode():
            found = embedder.embeddings(tokens, real).float().cpu()
        yield places, found.clone()  # outside, so that the caller's code does not run in inference mode


def embed(model: nn.Module, texts: str | Sequence[str], *, batch: int = BATCH) -> Tensor:
    """Embed texts as vectors (n, width), or one text as (width,)."""
    require(model, "embed")
    several = [texts] if isinstance(texts, str) else list(texts)
    if not several:
        raise InputError("there are 0 texts to embed", "give at least one")
    found: dict[int, Tensor] = {}
    for places, rows in vectors(model, [tokenize(model, text).tokens for text in several], batch):
        found |= dict(zip(places, rows, strict=True))
    whole = torch.stack([found[i] for i in range(len(several))])
    return whole[0] if isinstance(texts, str) else whole


def nearest(query: Tensor, among: Tensor, k: int = 5) -> list[Neighbour]:
    """Return the k vectors with the largest cosine similarity, best first."""
    if k < 1:
        raise InputError(f"{k} neighbours", "ask for at least 1")
    if among.dim() != 2 or query.shape != among.shape[1:]:
        fact = f"a query of shape {tuple(query.shape)} among vectors of {tuple(among.shape)}"
        raise InputError(fact, "search with the model that made the vectors")
    cosines = normalize(among.float(), dim=-1) @ normalize(query.float(), dim=-1)
    best = cosines.topk(min(k, len(among)))
    return [Neighbour(i, value) for i, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
