"""text → text of another language, searched as the model's folder says, and what each word of it looked at.

The models: Marian, T5, one that was trained here, or an LSTM with attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.decoding import Stopping, beam
from glassformer.decoding.speaker import quietly
from glassformer.errors import InputError
from glassformer.models import RecurrentSeq2Seq, Seq2Seq
from glassformer.nn.attention import weights_of
from glassformer.nn.tap import Tap
from glassformer.tasks.generate import ends_of, settings_of, start_of, voice_of
from glassformer.tasks.tokenize import Words, words_of

AT_ONCE = 64  # texts that are searched together

Translator = Seq2Seq | RecurrentSeq2Seq


def translate(
    model: nn.Module,
    texts: str | Sequence[str],
    *,
    beams: int | None = None,
    max_new: int | None = None,
    prefix: str = "",
) -> str | list[str]:
    """The translation of each text. `beams` of None: as many as the folder asks for.

    `prefix` stands before each text: ">>fra<< " for a model of many languages, "translate English to German: " for T5.
    """
    translator = _require_translator(model)
    several = [texts] if isinstance(texts, str) else list(texts)
    words = words_of(model)
    tokens = [words.encode(prefix + text) for text in several]
    found = [words.decode(answer) for answer in _searched(translator, tokens, beams, max_new)]
    return found[0] if isinstance(texts, str) else found


def context_of(model: nn.Module) -> int | None:
    """The longest source in tokens; a recurrent translator has none."""
    length = getattr(_require_translator(model).config, "length", None)
    return length if isinstance(length, int) else None


def _require_translator(model: nn.Module) -> Translator:
    if not isinstance(model, Translator):
        remedy = "load a model of the Marian or T5 family, or the translator that comes with Glassformer"
        raise InputError(f"a {type(model).__name__} does not translate", remedy)
    return model


def _searched(
    model: Translator, sources: Sequence[list[int]], beams: int | None, max_new: int | None
) -> list[tuple[int, ...]]:
    """The best answer to each source, its end left out; sources of like length are searched together."""
    said = settings_of(model)
    longest = said.get("max_length", getattr(model.config, "length", None))
    room = longest if type(longest) is int and longest > 1 else 512
    room = min(room, getattr(model.config, "length", room)) - 1
    found: dict[int, tuple[int, ...]] = {}
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    for start in range(0, len(order), AT_ONCE):
        places = order[start : start + AT_ONCE]
        answers = beam(
            voice_of(model),
            [sources[i] for i in places],
            width=_whole(said.get("num_beams"), 1) if beams is None else beams,
            length_penalty=float(said.get("length_penalty") or 1.0),
            early_stopping=said.get("early_stopping") or False,
            stopping=Stopping(max_new=room if max_new is None else max_new, ends=ends_of(model)),
            banned=_banned(said),
        )
        found |= {i: each[0].body for i, each in zip(places, answers, strict=True)}
    return [found[i] for i in range(len(sources))]


def _whole(value: Any, otherwise: int) -> int:
    return value if type(value) is int and value >= 1 else otherwise


def _banned(said: dict[str, Any]) -> tuple[int, ...]:
    """Tokens that are never said: Marian's own padding."""
    words = said.get("bad_words_ids") or []
    return tuple(word[0] for word in words if isinstance(word, list) and len(word) == 1 and type(word[0]) is int)


# ---- alignment -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Aligned:
    """A translation word by word: row i of A is how much word i of the target looked at each word of the source.

    A row sums to at most 1; the rest went to tokens that are no words, such as the end of the source.
    """

    text: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    A: Tensor

    @property
    def looks(self) -> tuple[int, ...]:
        """For each word of the target the word of the source that it looked at most."""
        return tuple(self.A.argmax(1).tolist()) if self.source else ()


def aligned(
    model: nn.Module, text: str, *, beams: int | None = None, max_new: int | None = None, prefix: str = ""
) -> Aligned:
    """The translation, and A of the last layer's attention to the source: the mean over heads, when each word came.

    Words are what spaces part. A word of several tokens looks with the mean of them, and is looked at with their sum.
    """
    translator, words = _require_translator(model), words_of(model)
    source = words.encode(prefix + text)
    (target,) = _searched(translator, [source], beams, max_new)
    A = _looked(translator, source, target)
    ours, theirs = _parted(words, source), _parted(words, target)
    to = torch.stack([A[:, places].sum(1) for places in ours], 1) if ours else A.new_zeros(len(target), 0)
    rows = [to[places].mean(0) for places in theirs]
    return Aligned(
        words.decode(target),
        tuple(words.decode([source[i] for i in places]).strip() for places in ours),
        tuple(words.decode([target[i] for i in places]).strip() for places in theirs),
        torch.stack(rows) if rows else to[:0],
    )


def _looked(model: Translator, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """A (target tokens, source tokens): where the decoder looked when it said each of them."""
    if not target:
        return torch.zeros(0, len(source))
    tap = _tap(model)
    seen: list[Tensor] = []
    tap.watchers.append(lambda pattern: seen.append(weights_of(pattern).detach()))
    try:
        with quietly(model):
            before = torch.tensor([[start_of(model), *target[:-1]]])
            model(torch.tensor([list(source)]), before)
    finally:
        tap.watchers.pop()
    A = seen[0][0].float()
    return A.mean(0) if A.dim() == 3 else A


def _tap(model: Translator) -> Tap:
    if isinstance(model, Seq2Seq):
        return list(model.decoder.blocks())[-1].cross.A
    if model.attention is None:
        raise InputError("this model translates without attention", "there is nothing that a word looks at")
    return model.attention.A


def _parted(words: Words, tokens: Sequence[int]) -> list[list[int]]:
    """The places of the tokens of each word; a new one begins with a space. Special tokens are in none."""
    parts: list[list[int]] = []
    for i, token in enumerate(tokens):
        if not words.decode([token]):
            continue
        before, after = words.decode(tokens[:i]), words.decode(tokens[: i + 1])
        if not parts or after[len(before) : len(before) + 1].isspace():
            parts.append([])
        parts[-1].append(i)
    return parts
