"""What a loaded model does: `generate`, `embed`, `classify`, `translate`, `transcribe`."""

from __future__ import annotations

from glassformer.tasks.chat import Message, has_template, render_chat
from glassformer.tasks.classify import Guess, classify
from glassformer.tasks.embed import Neighbour, embed, nearest
from glassformer.tasks.generate import generate, stream
from glassformer.tasks.sound import read_sound
from glassformer.tasks.tokenize import Words, words_of
from glassformer.tasks.transcribe import Segment, Transcribed, transcribe
from glassformer.tasks.translate import translate

__all__ = [
    "Guess",
    "Message",
    "Neighbour",
    "Segment",
    "Transcribed",
    "Words",
    "classify",
    "embed",
    "generate",
    "has_template",
    "nearest",
    "read_sound",
    "render_chat",
    "stream",
    "transcribe",
    "translate",
    "words_of",
]
