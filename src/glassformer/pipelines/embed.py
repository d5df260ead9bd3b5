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

TOKENS = 4096  # per batch, unless a number of texts is given


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
    return tokenize_all(model, [text])[0]


def tokenize_all(model: nn.Module, texts: Sequence[str]) -> list[TokenizedText]:
    """Tokenize texts as `tokenize` does, on all cores if the tokenizer can."""
    words, context, cut = tokenizer_of(model), context_length(model), _max_seq_length(model)
    most = None if cut is None else min(cut, context or cut)
    found = []
    for text, tokens in zip(texts, words.encode_all(texts), strict=True):
        if most is not None and len(tokens) > most:
            body, own = words.encode(text, special=False), words.encode("")
            found.append(TokenizedText([*own[:1], *body[: max(0, most - len(own))], *own[1:]], True))
        elif context is not None and len(tokens) > context:
            raise InputError(f"a text of {len(tokens)} tokens exceeds the model's context of {context}", "shorten it")
        elif not tokens:
            raise InputError("a text has no tokens", "leave empty texts out")
        else:
            found.append(TokenizedText(tokens, False))
    return found


def _max_seq_length(model: nn.Module) -> int | None:
    """max_seq_length of sentence_bert_config.json."""
    origin = origin_of(model)
    path = origin.file("sentence_bert_config.json") if origin is not None else None
    found = read_object(path).get("max_seq_length") if path is not None else None
    return found if type(found) is int and found > 2 else None


def batches_by_length(texts: Sequence[Sequence[int]], batch_size: int | None = None) -> list[list[int]]:
    """Return batches of indices of texts of similar length, to minimise padding.

    A batch has `batch_size` texts, or as many as fit `TOKENS` tokens.
    """
    found: list[list[int]] = []
    for i in sorted(range(len(texts)), key=lambda i: len(texts[i])):
        most = batch_size if batch_size is not None else max(1, TOKENS // len(texts[i]))
        if not found or len(found[-1]) >= most:
            found.append([])
        found[-1].append(i)
    return found


def embed_batches(
    model: nn.Module, texts: Sequence[Sequence[int]], batch_size: int | None = None
) -> Iterator[tuple[list[int], Tensor]]:
    """Embed tokenized texts and yield (indices, vectors), batch by batch."""
    embedder, device = require(model, "embed"), device_of(model)
    for places in batches_by_length(texts, batch_size):
        longest = len(texts[places[-1]])
        tokens = torch.tensor([[*texts[i], *[0] * (longest - len(texts[i]))] for i in places], device=device)
        lengths = torch.tensor([len(texts[i]) for i in places], device=device)
        real = torch.arange(longest, device=device) < lengths[:, None]
        with torch.inference_mode():
            found = embedder.embeddings(tokens, real).float().cpu()
        yield places, found.clone()  # outside, so that the caller's code does not run in inference mode


def embed(model: nn.Module, texts: str | Sequence[str], *, batch_size: int | None = None) -> Tensor:
    """Embed texts as vectors (n, width), or one text as a vector (width,).

    `batch_size` texts are embedded at a time; by default as many as fit 4,096 tokens.

    >>> gf.embed(gf.load("finder"), ["a dog", "a cat"]).shape
    torch.Size([2, 128])
    """
    require(model, "embed")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}", "choose 1 or more")
    several = [texts] if isinstance(texts, str) else list(texts)
    if not several:
        raise InputError("no texts were given", "give at least one")
    found = list(embed_batches(model, [text.tokens for text in tokenize_all(model, several)], batch_size))
    whole = torch.empty(len(several), found[0][1].shape[1])
    for places, rows in found:
        whole[places] = rows
    return whole[0] if isinstance(texts, str) else whole


def nearest(query: Tensor, among: Tensor, k: int = 5) -> list[Neighbour]:
    """Return the k vectors with the largest cosine similarity, best first."""
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}", "ask for at least one neighbour")
    if among.dim() != 2 or query.shape != among.shape[1:]:
        fact = f"the query has shape {tuple(query.shape)} and the vectors have shape {tuple(among.shape)}"
        raise InputError(fact, "search with the model that made the vectors")
    cosines = normalize(among.float(), dim=-1) @ normalize(query.float(), dim=-1)
    best = cosines.topk(min(k, len(among)))
    return [Neighbour(i, value) for i, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
