"""What the model is given, and what its positions are called: text, a pair of texts, a picture, sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from glassformer.app.report.both import picture_and_texts, sound_and_text
from glassformer.app.report.seen import Reader, Seen, short
from glassformer.checkpoints import Origin, origin_of
from glassformer.checkpoints.preprocess import Preprocess, open_image, read_preprocess
from glassformer.core.audio import log_mel
from glassformer.errors import CheckpointError, InputError
from glassformer.models import (
    CLIP,
    Decoder,
    Encoder,
    Hybrid,
    HybridConfig,
    RecurrentSeq2Seq,
    Seq2Seq,
    Seq2SeqConfig,
    Speech,
    Tokens,
    ViT,
    Whisper,
)
from glassformer.tasks.sound import read_sound
from glassformer.tasks.symbols import FILE as SYMBOLS
from glassformer.tasks.transcribe import transcribe
from glassformer.tasks.translate import translate


def see(model: nn.Module, inputs: Sequence[str]) -> Seen:
    """The arguments of the command as this model takes them."""
    if isinstance(model, Whisper):
        return sound_and_text(model, inputs)
    if isinstance(model, CLIP):
        return picture_and_texts(model, inputs, _picture)
    most = 2 if isinstance(model, Seq2Seq | RecurrentSeq2Seq) else 1
    if len(inputs) > most:
        fact = f"a {type(model).__name__} was given {len(inputs)} inputs"
        raise InputError(fact, "give a text and its translation" if most == 2 else "give one")
    match model:
        case Decoder() | Encoder():
            return _text(model, inputs[0])
        case Seq2Seq() | RecurrentSeq2Seq():
            return _pair(model, inputs[0], *inputs[1:])
        case ViT() | Hybrid():
            return _picture(model, inputs[0])
        case Speech():
            return _sound(model, inputs[0])
    raise InputError(f"a {type(model).__name__} has no attention to show", "gf.trace(model) has what else it works out")


# ---- text ------------------------------------------------------------------------------------------------------------


def _text(model: Decoder | Encoder, text: str) -> Seen:
    reader = Reader(model, model.config.text.vocabulary)
    ids, names = reader.read(text)
    stack = "decoder" if isinstance(model, Decoder) else "encoder"
    return Seen(inputs=(torch.tensor([ids]),), title=short(text), labels={stack: names}, notes=reader.notes)


def _pair(model: Seq2Seq | RecurrentSeq2Seq, source: str, given: str | None = None) -> Seen:
    """A text and its translation; left out, it is the model's own."""
    c = model.config
    if isinstance(c, Seq2SeqConfig):
        vocabulary, start = c.source.vocabulary, [c.start]
    else:
        if model.attention is None or not isinstance(c.reads, Tokens):
            fact = "this RecurrentSeq2Seq has no attention to show" if model.attention is None else "it reads frames"
            raise InputError(fact, "look into one of texts with attention=True; gf.trace(model) has its states")
        vocabulary, start = min(c.reads.vocabulary, c.vocabulary), []
    reader = Reader(model, vocabulary)
    ids, names = reader.read(source)
    if given is None and reader.words is None:
        raise InputError(f"there is no translation of {short(source)!r}", "give it as a second input")
    target = str(translate(model, source)) if given is None else given
    said, called = reader.read(target, special=False)
    return Seen(
        inputs=(torch.tensor([ids]), torch.tensor([[*start, *said]])),
        title=f"{short(source)} → {short(target)}",
        labels={"encoder": names, "decoder": [*("<start>" for _ in start), *called]},
        notes=reader.notes,
        said=target if given is None else "",
    )


# ---- pictures and sound ----------------------------------------------------------------------------------------------


def _picture(model: ViT | Hybrid, path: str, origin: Origin | None = None) -> Seen:
    c = model.config
    how, notes = _preprocess(model, origin or origin_of(model))
    image = how(open_image(path))[None]
    names: list[str] = []
    if isinstance(c, HybridConfig):
        rows, columns = c.stem.grid((image.shape[-2], image.shape[-1]))
    else:
        rows, columns = image.shape[-2] // c.patch[0], image.shape[-1] // c.patch[1]
        names += [*(["CLS"] if c.prefix else []), *(f"prefix {i}" for i in range(1, c.prefix))]
        names += [f"register {i}" for i in range(c.registers)]
    names += [f"{y},{x}" for y in range(rows) for x in range(columns)]
    shown = image[0].movedim(0, -1).double()
    if how.mean is not None and how.std is not None:
        shown = shown * torch.tensor(how.std).double() + torch.tensor(how.mean).double()
    shown = shown if how.scale is not None else shown / 255
    return Seen(
        inputs=(image,),
        title=Path(path).name,
        labels={"encoder": names},
        notes=notes,
        picture=shown.clamp(0, 1).numpy(),
        grid=(rows, columns),
    )


def _preprocess(model: ViT | Hybrid, origin: Origin | None) -> tuple[Preprocess, tuple[str, ...]]:
    c = model.config
    try:
        if origin is not None:
            return read_preprocess(origin), ()
    except CheckpointError:
        pass  # our own folders need not have one
    if c.channels not in (1, 3):
        raise InputError(f"the model sees {c.channels} channels", "look into one of grey or colour pictures")
    half = (0.5,) * c.channels
    how = Preprocess(resize=c.image, resample=2, crop=None, scale=1 / 255, mean=half, std=half)
    what = f"The model came without preprocessor_config.json: the picture was made {c.image[0]} × {c.image[1]}"
    return how, (f"{what}, colours from −1 to 1.",)


def _sound(model: Speech, path: str) -> Seen:
    mel, origin = model.config.mel, origin_of(model)
    wave = read_sound(path, mel.rate)
    frames = log_mel(wave, mel)[None].float()
    return Seen(
        inputs=(frames,),
        title=f"{Path(path).name}, {len(wave) / mel.rate:.1f} s",
        seconds=model.config.seconds,
        said=transcribe(model, wave).text if origin is not None and origin.file(SYMBOLS) else "",
    )
