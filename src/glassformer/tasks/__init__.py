"""What a loaded model does: `generate`, `embed`, `classify`, `translate`, `transcribe`."""

from __future__ import annotations

from glassformer.tasks.chat import Message, has_template, render_chat
from glassformer.tasks.classify import Guess, classify
from glassformer.tasks.embed import Neighbour, embed, nearest
from glassformer.tasks.generate import generate, stream
from glassformer.tasks.live import listen
from glassformer.tasks.reading import Word
from glassformer.tasks.shipped import find_model, open_model
from glassformer.tasks.sound import read_sound
from glassformer.tasks.tokenize import Words, words_of
from glassformer.tasks.transcribe import Segment, Transcribed, transcribe
from glassformer.tasks.translate import Aligned, aligned, translate

__all__ = [
    "Aligned",
    "Guess",
    "Message",
    "Neighbour",
    "Segment",
    "Transcribed",
    "Word",
    "Words",
    "aligned",
    "classify",
    "embed",
    "find_model",
    "generate",
    "has_template",
    "listen",
    "nearest",
    "open_model",
    "read_sound",
    "render_chat",
    "stream",
    "transcribe",
    "translate",
    "words_of",
]
