"""Inputs of a report: the tensors passed to the model, and names for their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer import lens
from glassformer.checkpoints import Origin, origin_of
from glassformer.checkpoints.preprocess import Preprocess, open_image, read_preprocess
from glassformer.core.audio import MEL, log_mel, whisper_log_mel
from glassformer.data.audio import read_sound
from glassformer.errors import CheckpointError, InputError
from glassformer.models.protocols import (
    AudioModel,
    CellModel,
    ImageTextModel,
    PatchModel,
    SpeechGenerator,
    TextModel,
    Translator,
    device_of,
    inputs_of,
)
from glassformer.pipelines.speech.charset import FILE as CHARSET
from glassformer.pipelines.speech.whisper import whisper_tokens
from glassformer.pipelines.tokenizers import optional_tokenizer, token_name
from glassformer.pipelines.transcribe import transcribe
from glassformer.pipelines.translate import translate

FIRST_TOKEN = 3  # models without a tokenizer reserve lower ids for padding, start and end
TITLE = 60  # maximum number of characters of an input in a title


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The arguments of `forward`, and names for the positions of each stack (numbered if there are none).

    The first `audible` encoder positions hold audio, `seconds` each. `answer` is the model's own answer to the whole
    input. `towers` are shown one by one if the model has several. `grids` are the sizes of the grids in layers whose
    keys are the cells of a grid and the ring around it.
    """

    tensors: tuple[Tensor, ...]
    title: str
    labels: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    image: NDArray[np.float64] | None = None
    grid: tuple[int, int] | None = None
    grids: dict[str, tuple[int, int]] = field(default_factory=dict)
    audible: int = 0
    seconds: float = 0.0
    answer: str = ""
    towers: tuple[tuple[str, nn.Module, Inputs], ...] = ()

    def labels_of(self, path: str) -> tuple[list[str] | None, list[str] | None]:
        """Return the names of queries and keys, given the path of an attention layer or of one of its quantities."""
        layer, stack = path.removesuffix(".A"), path.split(".")[0]
        if layer in self.grids:
            return cell_names(*self.grids[layer]), cell_names(*self.grids[layer], ring=1)
        source = "encoder" if ".cross" in path else stack
        return self.labels.get(stack), self.labels.get(source)

    @property
    def tokens(self) -> Tensor | dict[str, Tensor] | None:
        """Token ids as head scores expect them, by stack if there are two."""
        if len(self.tensors) == 2:
            both = zip(("encoder", "decoder"), self.tensors, strict=True)
            return {stack: x for stack, x in both if not x.is_floating_point()}
        return next((x for x in self.tensors if not x.is_floating_point()), None)


def cell_names(rows: int, columns: int, ring: int = 0) -> list[str]:
    """Return the names of cells, row by row, counted from 1; those in the ring around them are called borders."""
    inside = lambda y, x: 1 <= y <= rows and 1 <= x <= columns
    place = lambda count: range(1 - ring, count + 1 + ring)
    return [f"{y},{x}" if inside(y, x) else "border" for y in place(rows) for x in place(columns)]


def prepare_inputs(model: nn.Module, inputs: Sequence[str | Path]) -> Inputs:
    """Convert texts, image files or audio files to the model's inputs, on the model's device."""
    given = [str(one) for one in inputs]
    if not given:
        raise InputError("no input was given", "give a text, an image file or an audio file")
    makers: dict[tuple[str, ...], tuple[int, str, Callable[[Any, list[str]], Inputs]]] = {
        ("text",): (1, "give one text", _text),
        ("text", "text"): (2, "give a text and its translation", _pair),
        ("image",): (1, "give one image", _image),
        ("image", "text"): (100, "", _image_and_texts),
        ("audio",): (1, "give one recording", _audio),
        ("audio", "text"): (2, "give a recording and its transcript", _audio_and_text),
    }
    kinds = inputs_of(model)
    if kinds not in makers or not _attends(model):
        fact = f"this {type(model).__name__} has no attention to show"
        raise InputError(fact, "gf.trace(model) records its other quantities")
    most, remedy, make = makers[kinds]
    if len(given) > most:
        raise InputError(f"a {type(model).__name__} takes at most {most} inputs, got {len(given)}", remedy)
    made = make(model, given)
    place = device_of(model)
    return replace(made, tensors=tuple(x.to(place) for x in made.tensors))


def _attends(model: nn.Module) -> bool:
    if lens.attention_layers(model):
        return True
    return isinstance(model, Translator) and bool(model.cross_attentions())


# ---- text ------------------------------------------------------------------------------------------------------------


class InputReader:
    """Encodes texts with the model's tokenizer; without one, each new word gets the next token id."""

    def __init__(self, model: nn.Module, vocabulary: int | None = None) -> None:
        if vocabulary is None:
            if not isinstance(model, TextModel):
                raise InputError(f"a {type(model).__name__} does not state its vocabulary", "give it a tokenizer.json")
            vocabulary = model.vocabulary
        self.tokenizer, self.vocabulary = optional_tokenizer(model), vocabulary
        self.seen: dict[str, int] = {}

    def read(self, text: str, *, special: bool = True) -> tuple[list[int], list[str]]:
        """Return token ids and their names."""
        if is_file(text):
            raise InputError(f"{text!r} is a file, and the model reads text", "give the text itself")
        if self.tokenizer is not None:
            ids = self.tokenizer.encode(text, special=special)
            names = [token_name(self.tokenizer, i) for i in ids]
        else:
            names = text.split()
            ids = [self.seen.setdefault(name, FIRST_TOKEN + len(self.seen)) for name in names]
        if not ids or not text.strip():  # special tokens alone are not a text
            raise InputError(f"{text!r} has no tokens", "give a text that is not empty")
        if max(ids) >= self.vocabulary:
            fact = (
                f"the input has {len(self.seen) or max(ids)} different tokens, but the vocabulary has {self.vocabulary}"
            )
            raise InputError(fact, "give a shorter text")
        return ids, names

    @property
    def notes(self) -> tuple[str, ...]:
        what = "The model has no tokenizer.json: each new word was given the next token, from"
        return () if self.tokenizer is not None else (f"{what} {FIRST_TOKEN} on.",)


def is_file(text: str) -> bool:
    """Return whether a file of this name exists."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a file name, or with invalid characters
        return False


def short_title(text: str) -> str:
    """Shorten a text to fit a title."""
    return text if len(text) <= TITLE else text[: TITLE - 1] + "…"


def _text(model: nn.Module, given: list[str]) -> Inputs:
    reader = InputReader(model)
    ids, names = reader.read(given[0])
    stack = next(iter(lens.attention_layers(model))).split(".")[0]
    return Inputs(
        tensors=(torch.tensor([ids]),), title=short_title(given[0]), labels={stack: names}, notes=reader.notes
    )


def _pair(model: nn.Module, given: list[str]) -> Inputs:
    """Prepare a text and its translation, by default the model's own."""
    assert isinstance(model, Translator)
    reader = InputReader(model)
    source, *rest = given
    ids, names = reader.read(source)
    if not rest and reader.tokenizer is None:
        raise InputError(f"there is no translation of {short_title(source)!r}", "give it as a second input")
    target = rest[0] if rest else str(translate(model, source))
    start = [] if model.start_token is None else [model.start_token]
    produced, called = reader.read(target, special=False)
    return Inputs(
        tensors=(torch.tensor([ids]), torch.tensor([[*start, *produced]])),
        title=f"{short_title(source)} → {short_title(target)}",
        labels={"encoder": names, "decoder": [*("<start>" for _ in start), *called]},
        notes=reader.notes,
        answer="" if rest else target,
    )


# ---- images ----------------------------------------------------------------------------------------------------------


def _image(model: nn.Module, given: list[str], origin: Origin | None = None) -> Inputs:
    if not isinstance(model, PatchModel):
        fact = f"this {type(model).__name__} has no patches to show"
        raise InputError(fact, "gf.trace(model) records its other quantities")
    how, notes = _preprocess(model, origin or origin_of(model))
    pixels = how(open_image(given[0]))[None]
    rows, columns = model.patch_grid((pixels.shape[-2], pixels.shape[-1]))
    names = [*model.prefix_names, *cell_names(rows, columns)]
    shown = pixels[0].movedim(0, -1).double()
    if how.mean is not None and how.std is not None:
        shown = shown * torch.tensor(how.std).double() + torch.tensor(how.mean).double()
    shown = shown if how.scale is not None else shown / 255
    return Inputs(
        tensors=(pixels,),
        title=Path(given[0]).name,
        labels={"encoder": names},
        notes=notes,
        image=shown.clamp(0, 1).numpy(),
        grid=(rows, columns),
        grids=model.cell_grids((pixels.shape[-2], pixels.shape[-1])) if isinstance(model, CellModel) else {},
    )


def _preprocess(model: PatchModel, origin: Origin | None) -> tuple[Preprocess, tuple[str, ...]]:
    try:
        if origin is not None:
            return read_preprocess(origin), ()
    except CheckpointError:
        pass  # optional in Glassformer's own folders
    if model.channels not in (1, 3) or model.image_size is None:
        raise InputError(f"images of {model.channels} channels cannot be shown", "use a model of grey or colour images")
    half, size = (0.5,) * model.channels, model.image_size
    how = Preprocess(resize=size, resample=2, crop=None, scale=1 / 255, mean=half, std=half)
    what = f"The model has no preprocessor_config.json: the image was resized to {size[0]} × {size[1]}"
    return how, (f"{what} and scaled from −1 to 1.",)


class Tower(nn.Module):
    """A single tower under its own name, so that trace paths begin with it."""

    def __init__(self, name: str, stack: nn.Module, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.add_module(name, stack)
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


def _image_and_texts(model: nn.Module, given: list[str]) -> Inputs:
    """Prepare an image, texts, or both. The first text is shown, and all are compared with the image."""
    assert isinstance(model, ImageTextModel)
    files = [path for path in given if is_file(path)]
    texts = [text for text in given if text not in files]
    for kind, some in (("image", files), ("text", texts)):
        if some and kind not in model.towers:
            fact = f"this {type(model).__name__} has no {kind} tower for {some[0]!r}"
            raise InputError(fact, "leave it out, or load both towers")
    if len(files) > 1:
        raise InputError(f"a {type(model).__name__} takes 1 image, got {len(files)}", "give one image, texts, or both")
    towers: list[tuple[str, nn.Module, Inputs]] = []
    if files:
        vision = model.get_submodule("vision")
        towers.append(("Image", vision, _image(vision, files, origin_of(model))))
    read = [_ended(model, text) for text in texts]
    if texts:
        towers.append(("Text", Tower("text", model.get_submodule("text"), model.texts), read[0]))
    note = f"Of {len(texts)} texts, the first is shown." if len(texts) > 1 else ""
    images = tuple(x for _, _, inputs in towers[: len(files)] for x in inputs.tensors)
    return Inputs(
        tensors=images + tuple(inputs.tensors[0] for inputs in read),
        title=" and ".join(short_title(Path(one).name if one in files else one) for one in given),
        labels={"texts": texts},
        notes=tuple(dict.fromkeys(n for n in (note, *(n for _, _, one in towers for n in one.notes)) if n)),
        towers=tuple((name, tower, replace(inputs, notes=())) for name, tower, inputs in towers),
    )


def _ended(model: Any, text: str) -> Inputs:
    """Prepare a text with its end token, which is added here if there is no tokenizer to add it."""
    reader, end = InputReader(model), model.config.end
    if reader.tokenizer is None and end is not None:
        reader.vocabulary = min(reader.vocabulary, end)
    ids, names = reader.read(text)
    if reader.tokenizer is None and end is not None:
        ids, names = [*ids, end], [*names, "<end>"]
    return Inputs(tensors=(torch.tensor([ids]),), title=short_title(text), labels={"text": names}, notes=reader.notes)


# ---- audio -----------------------------------------------------------------------------------------------------------


def _audio(model: nn.Module, given: list[str]) -> Inputs:
    assert isinstance(model, AudioModel)
    mel, origin = model.mel, origin_of(model)
    wave = read_sound(given[0], mel.rate)
    return Inputs(
        tensors=(log_mel(wave, mel)[None].float(),),
        title=f"{Path(given[0]).name}, {len(wave) / mel.rate:.1f} s",
        seconds=model.row_seconds,
        answer=transcribe(model, wave).text if origin is not None and origin.file(CHARSET) else "",
    )


def _audio_and_text(model: nn.Module, given: list[str]) -> Inputs:
    """Prepare a recording and its transcript, by default the model's own."""
    assert isinstance(model, SpeechGenerator)
    mel, factor = replace(MEL, bands=model.bands), model.factor
    window = model.window * mel.hop
    whole = read_sound(given[0], mel.rate)
    wave = whole[:window]
    frames = whisper_log_mel(pad(wave, (0, window - len(wave))), mel)[None]
    ids, names, notes, answer = _transcript(model, wave, frames, given[1:])
    if len(whole) > window:
        notes = (*notes, f"The first {window / mel.rate:g} s are shown: the model takes no more at once.")
    return Inputs(
        tensors=(frames, torch.tensor([ids])),
        title=f"{Path(given[0]).name}, {len(wave) / mel.rate:.1f} s",
        labels={"decoder": names},
        notes=notes,
        audible=max(1, min(model.window // factor, -(-len(wave) // (mel.hop * factor)))),
        seconds=mel.hop * factor / mel.rate,
        answer=answer,
    )


def _transcript(
    model: Any, wave: Tensor, frames: Tensor, given: Sequence[str]
) -> tuple[list[int], list[str], tuple[str, ...], str]:
    """Return token ids of the transcript, their names, notes, and the model's own transcript if none was passed."""
    reader, begin = InputReader(model), [model.start_token]
    if reader.tokenizer is None:
        note = "There is no transcript: give one as a second input."
        ids, names = reader.read(given[0]) if given else ([], [])
        return [*begin, *ids], ["<start>", *names], reader.notes if given else (note,), ""
    codes = whisper_tokens(model, reader.tokenizer)
    text = given[0] if given else transcribe(model, wave, timestamps=False).text
    if codes.languages:
        place = device_of(model)
        with torch.inference_mode():
            logits = model(frames.to(place), torch.tensor([begin], device=place))[0, -1]
        language = max(codes.languages.values(), key=lambda token: float(logits[token]))
        begin += [language, codes.tasks["transcribe"]]
    ids, names = reader.read(" " + text.strip(), special=False) if text.strip() else ([], [])
    begin.append(codes.silent)
    called = [token_name(reader.tokenizer, token) for token in begin]
    return [*begin, *ids], [*called, *names], (), "" if given else text
