"""Real inputs that int8 is calibrated on and that precision="auto" compares: text, pictures and speech."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.data.audio import read_sound
from glassformer.data.sources.opening import unpack
from glassformer.errors import GlassError
from glassformer.models.protocols import (
    CTCModel,
    ImageModel,
    ImageTextModel,
    SpeechGenerator,
    StreamModel,
    TextModel,
    context_length,
    inputs_of,
)
from glassformer.pipelines.classify import pixels
from glassformer.pipelines.tokenizers import tokenizer_of
from glassformer.pipelines.transcribe import window_frames
from glassformer.runtime.example import example

Purpose = Literal["calibrate", "compare"]
TOKENS = 192
TEXTS = {
    # Carroll 1865, and what people write today
    "compare": """Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to \
do: once or twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, \
“and what is the use of a book,” thought Alice, “without pictures or conversations?” In 2024 the museum in Zürich sold \
1,250 tickets at 12.50 francs each; how much did it earn?""",
    # Austen 1813, Dickens 1859
    "calibrate": """\
It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a \
wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, this \
truth is so well fixed in the minds of the surrounding families, that he is considered the rightful property of some \
one or other of their daughters. It was the best of times, it was the worst of times, it was the age of wisdom, it \
was the age of foolishness, it was the epoch of belief, it was the epoch of incredulity. Water boils at 100 degrees. \
Please send the report by Friday, 3 May, and call me if anything is unclear. def area(r): return 3.14159 * r ** 2""",
}


class Sample(NamedTuple):
    """A call of a model, and what it is called with."""

    run: Callable[[], Tensor]
    described: str
    real: bool = True


def real_sample(model: nn.Module, purpose: Purpose) -> Sample:
    """Real input for a model that is prepared like its users' input, or random input, with the reason.

    The two purposes have different inputs. Raises InputError for models that have no example input.
    """
    reason = ""
    try:
        found = _real(model, purpose)
    except GlassError as error:  # no tokenizer, no folder, no place to unpack
        found, reason = None, f" ({error.fact})"
    seed = 0 if purpose == "calibrate" else 1
    return found or Sample(example(model, length=TOKENS, seed=seed), f"random input{reason}", real=False)


def _real(model: nn.Module, purpose: Purpose) -> Sample | None:
    if isinstance(model, SpeechGenerator):
        wave, text = _speech(purpose)
        ids = torch.tensor([[model.start_token, *tokenizer_of(model).encode(text)]])
        frames = window_frames(wave, model.window, model.bands)[None]
        return Sample(lambda: model(frames, ids), "read speech")
    if isinstance(model, ImageTextModel):
        return None
    if inputs_of(model)[:1] == ("image",) and isinstance(model, ImageModel):
        X = torch.cat([pixels(model, path) for path in _pictures(purpose)])
        return Sample(lambda: model(X), "pictures of Fashion-MNIST")
    if isinstance(model, TextModel) and inputs_of(model)[:1] == ("text",):
        words = tokenizer_of(model).encode(TEXTS[purpose])[:TOKENS]
        length = min(len(words), context_length(model) or len(words))
        return Sample(example(model, length=length, tokens=words), "English text")
    if isinstance(model, CTCModel) and isinstance(model, StreamModel):
        hop = model.example(None, torch.Generator()).shape[-1]
        wave = _speech(purpose)[0]
        X = wave[: len(wave) // hop * hop].view(1, -1, hop)
        return Sample(lambda: model.respond(X), "read speech")
    return None


def _speech(purpose: Purpose) -> tuple[Tensor, str]:
    """Recordings of the embedded LibriVox sentences one after the other, and their words."""
    folder = unpack("librivox")
    table = folder / ("train.tsv" if purpose == "calibrate" else "valid.tsv")
    rows = [line.split("\t")[:2] for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    return torch.cat([read_sound(folder / file) for file, _ in rows]), " ".join(text for _, text in rows)


def _pictures(purpose: Purpose, count: int = 4) -> list[str]:
    paths = sorted((unpack("fashion-mnist")).rglob("*.png"))
    first = 0 if purpose == "calibrate" else len(paths) // (2 * count)
    return [str(path) for path in paths[first :: len(paths) // count][:count]]
