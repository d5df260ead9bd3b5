"""text → text of another language: a Marian or T5 model, searched as its folder says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from glassformer.checkpoints import origin_of
from glassformer.decoding import Stopping, beam
from glassformer.errors import InputError
from glassformer.models import Seq2Seq
from glassformer.tasks.generate import ends_of
from glassformer.tasks.tokenize import words_of


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
    if not isinstance(model, Seq2Seq):
        raise InputError(f"a {type(model).__name__} does not translate", "load a model of the Marian or T5 family")
    several = [texts] if isinstance(texts, str) else list(texts)
    words, said = words_of(model), settings_of(model)
    longest = said.get("max_length", model.config.length)
    room = min(longest if type(longest) is int and longest > 1 else 512, model.config.length) - 1
    answers = beam(
        model,
        [words.encode(prefix + text) for text in several],
        width=_whole(said.get("num_beams"), 1) if beams is None else beams,
        length_penalty=float(said.get("length_penalty") or 1.0),
        early_stopping=said.get("early_stopping") or False,
        stopping=Stopping(max_new=room if max_new is None else max_new, ends=ends_of(model)),
        banned=_banned(said),
    )
    found = [words.decode(each[0].body) for each in answers]
    return found[0] if isinstance(texts, str) else found


def settings_of(model: nn.Module) -> dict[str, Any]:
    """How the folder wants answers searched: generation_config.json, or config.json of older ones."""
    origin = origin_of(model)
    return {} if origin is None else {**origin.raw, **origin.generation}


def _whole(value: Any, otherwise: int) -> int:
    return value if type(value) is int and value >= 1 else otherwise


def _banned(said: dict[str, Any]) -> tuple[int, ...]:
    """Tokens that are never said: Marian's own padding."""
    words = said.get("bad_words_ids") or []
    return tuple(word[0] for word in words if isinstance(word, list) and len(word) == 1 and type(word[0]) is int)
