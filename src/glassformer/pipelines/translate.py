"""text → text in another language, with the decoding parameters of the model's folder, and word alignments.

Supports Marian, T5, models trained with Glassformer, and LSTMs with attention.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.checkpoints import origin_of
from glassformer.decoding import Sampling, Stopping, beam_search, generate_ids
from glassformer.errors import InputError
from glassformer.models.protocols import context_length, device_of, require
from glassformer.models.sessions import inference
from glassformer.nn.attention import weights_of
from glassformer.nn.tap import attached
from glassformer.pipelines.generate import cut_at_stop, decoding_session, start_of
from glassformer.pipelines.generation_config import generation_config_of
from glassformer.pipelines.tokenizers import TextTokenizer, tokenizer_of

AT_ONCE = 64  # texts per batch
LONGEST = 512  # maximum tokens of an answer, if neither the folder nor the model defines one
FINAL = re.compile(r"[^\w\s]\s*$")  # punctuation at the end of a text
ABBREVIATION = 4  # letters: a longer text in capitals is lower-cased


def translate(
    model: nn.Module,
    texts: str | Sequence[str],
    *,
    num_beams: int | None = None,
    max_new_tokens: int | None = None,
    prefix: str = "",
) -> str | list[str]:
    """Translate one text, or each of several.

    Args:
        num_beams: number of beams. Defaults to the model's generation config.
        max_new_tokens: maximum number of tokens to generate per text.
        prefix: text to prepend to each: ">>fra<< " for a multilingual model, "translate English to German: " for T5.

    >>> gf.translate(gf.load("translator"), "I have a dog.")
    "J'ai un chien."
    """
    require(model, "translate")
    several = [texts] if isinstance(texts, str) else list(texts)
    words = tokenizer_of(model)
    sources = [normalized(model, text) for text in several]
    tokens = [words.encode(prefix + source) for source, _ in sources]
    stop = generation_config_of(model).stop
    answers = [
        cut_at_stop(words.decode(answer), stop) for answer in _searched(model, tokens, num_beams, max_new_tokens)
    ]
    found = [
        without_full_stop(answer) if added else answer for answer, (_, added) in zip(answers, sources, strict=True)
    ]
    return found[0] if isinstance(texts, str) else found


def normalized(model: nn.Module, text: str) -> tuple[str, bool]:
    """Write a text as a sentence if the model's config says `"normalize_source": "sentence"`."""
    origin = origin_of(model)
    if origin is None or origin.raw.get("normalize_source") != "sentence" or not text.strip():
        return text, False
    return as_sentence(text)


def as_sentence(text: str) -> tuple[str, bool]:
    """Lower-case a text in capitals, capitalise its first letter, and add a full stop where there is no final mark.

    Returns the text and whether a full stop was added, which is then removed from the translation.
    """
    text = text.strip()
    if text.isupper() and len(text) > ABBREVIATION:
        text = text.lower()
    text = text[:1].upper() + text[1:]
    return (text, False) if FINAL.search(text) else (f"{text}.", True)


def without_full_stop(text: str) -> str:
    return re.sub(r"\s*[.!]$", "", text)


def _searched(
    model: nn.Module, sources: Sequence[list[int]], num_beams: int | None, max_new_tokens: int | None
) -> list[tuple[int, ...]]:
    """Return the best answer to each source without its end token; sources of similar length are batched."""
    config, context = generation_config_of(model), context_length(model)
    if max_new_tokens is None:
        limits = [n for n in (config.new_tokens(1), context and context - 1) if n is not None]
        max_new_tokens = max(1, min(limits, default=LONGEST - 1))
    ends = config.ends or decoding_session(model, config).ends
    found: dict[int, tuple[int, ...]] = {}
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    beams = config.num_beams if num_beams is None else num_beams
    least = min(config.min_new_tokens, max_new_tokens)
    stopping = Stopping(
        max_new_tokens=max_new_tokens,
        min_new_tokens=least,
        ends=ends,
        texts=config.stop,
        decode=tokenizer_of(model).decode if config.stop else None,
    )
    for start in range(0, len(order), AT_ONCE):
        places = order[start : start + AT_ONCE]
        session, prompts = decoding_session(model, config), [sources[i] for i in places]
        if beams == 1:
            greedy = Sampling(temperature=0.0, repetition_penalty=config.repetition_penalty)
            best = generate_ids(
                session, prompts, sampling=greedy, stopping=stopping, constraints=config.constraints(ends)
            )
        else:
            every = beam_search(
                session,
                prompts,
                num_beams=beams,
                length_penalty=config.length_penalty,
                early_stopping=config.early_stopping,
                stopping=stopping,
                repetition_penalty=config.repetition_penalty,
                constraints=config.constraints(ends),
                renormalize=config.renormalize,
            )
            best = [answers[0] for answers in every]
        found |= {i: answer.body for i, answer in zip(places, best, strict=True)}
    return [found[i] for i in range(len(sources))]


# ---- alignment -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Aligned:
    """A translation with word alignment: row i of A is the attention of target word i to each source word.

    A row sums to at most 1; the rest is attention to tokens that are not words, such as the end of the source.
    """

    text: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    A: Tensor

    @property
    def looks(self) -> tuple[int, ...]:
        """Index of the source word that each target word attends to most."""
        return tuple(self.A.argmax(1).tolist()) if self.source else ()


def translate_aligned(
    model: nn.Module, text: str, *, num_beams: int | None = None, max_new_tokens: int | None = None, prefix: str = ""
) -> Aligned:
    """Translate a text and return A of the cross-attention head that covers the source words best.

    Words are separated by spaces. For a word of several tokens, A is averaged over target tokens and summed over source
    tokens. A head covers the source well if each source word gets a large weight from some target word.
    """
    require(model, "translate")
    words = tokenizer_of(model)
    sentence, added = normalized(model, text)
    source = words.encode(prefix + sentence)
    (target,) = _searched(model, [source], num_beams, max_new_tokens)
    ours, theirs = _parted(words, source), _parted(words, target)
    by_word = [_by_word(A, theirs, ours) for A in _looked(model, source, target)]
    answer = words.decode(target)
    return Aligned(
        without_full_stop(answer) if added else answer,
        tuple(words.decode([source[i] for i in places]).strip() for places in ours),
        tuple(words.decode([target[i] for i in places]).strip() for places in theirs),
        max(by_word, key=_coverage),
    )


def _by_word(A: Tensor, targets: Sequence[Sequence[int]], sources: Sequence[Sequence[int]]) -> Tensor:
    """Weights of tokens, averaged over the target tokens and summed over the source tokens of each word."""
    found = A.new_zeros(len(targets), len(sources))
    for i, rows in enumerate(targets):
        for j, columns in enumerate(sources):
            found[i, j] = A[rows][:, columns].sum(1).mean()
    return found


def _coverage(A: Tensor) -> float:
    """The largest weight of each source word, averaged over source words."""
    return float(A.amax(0).mean()) if A.numel() else 0.0


def _looked(model: nn.Module, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """A (heads of all layers, target tokens, source tokens) when the decoder generated each token."""
    if not target:
        return torch.zeros(1, 0, len(source))
    taps = require(model, "translate").cross_attentions()
    if not taps:
        raise InputError("this model translates without attention, so there is no alignment", "leave out the alignment")
    seen: list[Tensor] = []
    watch = [(tap.watchers, lambda pattern: seen.append(weights_of(pattern).detach())) for tap in taps]
    device = device_of(model)
    with inference(model), attached(watch):
        before = torch.tensor([[*start_of(model, generation_config_of(model)), *target[:-1]]], device=device)
        model(torch.tensor([list(source)], device=device), before)
    return torch.cat([A[0].float().cpu().reshape(-1, *A.shape[-2:]) for A in seen])


def _parted(words: TextTokenizer, tokens: Sequence[int]) -> list[list[int]]:
    """Group token positions by word; a new word begins with a space. Special tokens are skipped."""
    parts: list[list[int]] = []
    for i, token in enumerate(tokens):
        if not words.decode([token]):
            continue
        before, after = words.decode(tokens[:i]), words.decode(tokens[: i + 1])
        if not parts or after[len(before) : len(before) + 1].isspace():
            parts.append([])
        parts[-1].append(i)
    return parts
