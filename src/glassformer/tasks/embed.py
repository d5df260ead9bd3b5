"""text → a vector, as the folder says: pooled, then projected, then of length 1; and which vectors lie nearest.

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
from glassformer.models import Encoder
from glassformer.nn import Learned
from glassformer.tasks.tokenize import words_of

BATCH = 32


class Neighbour(NamedTuple):
    """The place of a vector among those searched, and its cosine."""

    place: int
    cosine: float


class Read(NamedTuple):
    """A text as tokens; `cut` if some of them were left out, as the folder's max_seq_length asks."""

    tokens: list[int]
    cut: bool


def require_encoder(model: nn.Module) -> Encoder:
    if not isinstance(model, Encoder):
        raise InputError(f"a {type(model).__name__} has no vectors for texts", "embed with a model of the BERT kind")
    return model


def read(model: nn.Module, text: str) -> Read:
    """The text's tokens. Sentence encoders say where they cut; elsewhere a text that is too long is an error."""
    encoder = require_encoder(model)
    words = words_of(model)
    tokens = words.encode(text)
    context, cut = _context(encoder), _cut(encoder)
    if cut is not None and len(tokens) > min(cut, context or cut):
        body, own = words.encode(text, special=False), words.encode("")
        kept = body[: max(0, min(cut, context or cut) - len(own))]
        return Read([*own[:1], *kept, *own[1:]], True)
    if context is not None and len(tokens) > context:
        raise InputError(f"a text of {len(tokens)} tokens passes the model's context of {context}", "shorten it")
    if not tokens:
        raise InputError("a text is 0 tokens", "leave empty texts out")
    return Read(tokens, False)


def _context(model: Encoder) -> int | None:
    positions = model.config.text.positions
    return positions.length if isinstance(positions, Learned) else None


def _cut(model: Encoder) -> int | None:
    """max_seq_length of sentence_bert_config.json."""
    origin = origin_of(model)
    path = origin.file("sentence_bert_config.json") if origin is not None else None
    found = read_object(path).get("max_seq_length") if path is not None else None
    return found if type(found) is int and found > 2 else None


def vectors(model: nn.Module, texts: Sequence[Sequence[int]], batch: int = BATCH) -> Iterator[tuple[list[int], Tensor]]:
    """(places, their vectors) of texts as tokens, in batches of like length: padding is work for nothing."""
    encoder = require_encoder(model)
    device = next(encoder.parameters()).device
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
            yield places, encoder.sentences(encoder(tokens, real), real).float().cpu().clone()


def embed(model: nn.Module, texts: str | Sequence[str], *, batch: int = BATCH) -> Tensor:
    """One vector for each text (n, width); for one text (width,)."""
    several = [texts] if isinstance(texts, str) else list(texts)
    if not several:
        raise InputError("there are 0 texts to embed", "give at least one")
    found: dict[int, Tensor] = {}
    for places, rows in vectors(model, [read(model, text).tokens for text in several], batch):
        found |= dict(zip(places, rows, strict=True))
    whole = torch.stack([found[i] for i in range(len(several))])
    return whole[0] if isinstance(texts, str) else whole


def nearest(query: Tensor, among: Tensor, k: int = 5) -> list[Neighbour]:
    """The k vectors with the largest cosine, best first."""
    if k < 1:
        raise InputError(f"{k} neighbours", "ask for at least 1")
    if among.dim() != 2 or query.shape != among.shape[1:]:
        fact = f"a query of shape {tuple(query.shape)} among vectors of {tuple(among.shape)}"
        raise InputError(fact, "search with the model that made the vectors")
    cosines = normalize(among.float(), dim=-1) @ normalize(query.float(), dim=-1)
    best = cosines.topk(min(k, len(among)))
    return [Neighbour(i, value) for i, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
