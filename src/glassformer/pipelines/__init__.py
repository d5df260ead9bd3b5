"""Inference with a loaded model: `generate`, `embed`, `classify`, `translate`, `transcribe`."""

from __future__ import annotations

from glassformer.data.audio import read_sound
from glassformer.pipelines.chat import Message, has_template, render_chat
from glassformer.pipelines.classify import Classification, LabelScore, classify
from glassformer.pipelines.embed import Neighbour, embed, nearest
from glassformer.pipelines.evaluate import evaluate
from glassformer.pipelines.generate import generate, stream
from glassformer.pipelines.loading import find_model, load
from glassformer.pipelines.speech.words import Word
from glassformer.pipelines.tokenizers import TextTokenizer, tokenizer_of
from glassformer.pipelines.transcribe import Segment, Transcript, transcribe, transcribe_stream
from glassformer.pipelines.translate import Aligned, translate, translate_aligned

__all__ = [
    "Aligned",
    "Classification",
    "LabelScore",
    "Message",
    "Neighbour",
    "Segment",
    "TextTokenizer",
    "Transcript",
    "Word",
    "classify",
    "embed",
    "evaluate",
    "find_model",
    "generate",
    "has_template",
    "load",
    "nearest",
    "read_sound",
    "render_chat",
    "stream",
    "tokenizer_of",
    "transcribe",
    "transcribe_stream",
    "translate",
    "translate_aligned",
]
