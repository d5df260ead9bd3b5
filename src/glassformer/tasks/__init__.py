"""What a loaded model does: `generate`, `embed`, `classify`, `translate`, `transcribe`."""

from __future__ import annotations

from glassformer.tasks.chat import Message, has_template, render_chat
from glassformer.tasks.embed import Neighbour, embed, nearest
from glassformer.tasks.generate import generate, stream
from glassformer.tasks.tokenize import Words, words_of

__all__ = [
    "Message",
    "Neighbour",
    "Words",
    "embed",
    "generate",
    "has_template",
    "nearest",
    "render_chat",
    "stream",
    "words_of",
]
