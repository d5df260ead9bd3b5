"""What the model is given, and what its positions are called: text, a pair of texts, a picture, sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer import models
from glassformer.app.words import Words
from glassformer.checkpoints import load, origin_of
from glassformer.checkpoints.preprocess import Preprocess, open_image, read_preprocess
from glassformer.core.audio import log_mel
from glassformer.errors import CheckpointError, InputError
from glassformer.models import Decoder, Encoder, Seq2Seq, Speech, ViT
from glassformer.tasks.sound import read_sound

TINY = ("decoder", "encoder", "seq2seq", "vit", "speech")
FIRST_WORD = 3  # below it tiny models keep their padding, start and end
SHOWN = 60  # letters of an input in a title


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An input as tensors, and what each stack's positions are called (None: numbers do)."""

    inputs: tuple[Tensor, ...]
    title: str
    labels: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    picture: NDArray[np.float64] | None = None
    grid: tuple[int, int] | None = None

    def labels_of(self, path: str) -> tuple[list[str] | None, list[str] | None]:
        """Names of the queries and of the keys of an attention layer, or of its quantity."""
        stack = path.split(".")[0]
        source = "encoder" if ".cross" in path else stack
        return self.labels.get(stack), self.labels.get(source)

    @property
    def tokens(self) -> Tensor | dict[str, Tensor] | None:
        """As head scores want them."""
        ids = [x for x in self.inputs if not x.is_floating_point()]
        return dict(zip(("encoder", "decoder"), ids, strict=True)) if len(ids) == 2 else next(iter(ids), None)


def open_model(name: str, *, seed: int = 0) -> tuple[nn.Module, str]:
    """A model's folder, or tiny:decoder and the like; and what must be said of it."""
    if not name.startswith("tiny:"):
        return load(name).eval(), ""
    makers = {
        "decoder": lambda: Decoder(models.decoder.tiny(), seed=seed),
        "encoder": lambda: Encoder(models.encoder.tiny(), seed=seed),
        "seq2seq": lambda: Seq2Seq(models.seq2seq.tiny(), seed=seed),
        "vit": lambda: ViT(models.vit.plain(64, 8, 32, 3, 4, classes=5), seed=seed),
        "speech": lambda: Speech(models.speech.tiny(), seed=seed),
    }
    kind = name.removeprefix("tiny:")
    if kind not in makers:
        raise InputError(f"there is no {name}", f"choose a model's folder, or tiny: and one of {', '.join(TINY)}")
    model: nn.Module = makers[kind]()
    return model.eval(), f"Its weights are random (seed {seed}): it has learned nothing, and shows only what is where."


def see(model: nn.Module, inputs: Sequence[str]) -> Seen:
    """The arguments of the command as this model takes them."""
    wanted = 2 if isinstance(model, Seq2Seq) else 1
    if len(inputs) != wanted:
        fact = f"a {type(model).__name__} was given {len(inputs)} inputs"
        raise InputError(fact, "give a text and its translation" if wanted == 2 else "give one")
    match model:
        case Decoder() | Encoder():
            return _text(model, inputs[0])
        case Seq2Seq():
            return _pair(model, inputs[0], inputs[1])
        case ViT():
            return _picture(model, inputs[0])
        case Speech():
            return _sound(model, inputs[0])
    raise InputError(f"a {type(model).__name__} has no report", "look into a decoder, encoder, seq2seq, ViT or speech")


# ---- text ------------------------------------------------------------------------------------------------------------


class _Reader:
    """Words by the model's tokenizer; without one, words become tokens in the order in which they come."""

    def __init__(self, model: nn.Module, vocabulary: int) -> None:
        self.words, self.vocabulary = Words(model), vocabulary
        origin = origin_of(model)
        self.known = origin is not None and origin.tokenizer is not None
        self.seen: dict[str, int] = {}

    def read(self, text: str, *, special: bool = True) -> tuple[list[int], list[str]]:
        if self.known:
            ids = self.words.ids(text, special=special)[0].tolist()
            names = [self.words.text(i) for i in ids]
        else:
            names = text.split()
            ids = [self.seen.setdefault(name, FIRST_WORD + len(self.seen)) for name in names]
        if not ids:
            raise InputError(f"{text!r} is 0 tokens", "give some text")
        if max(ids) >= self.vocabulary:
            fact = f"{len(self.seen) or max(ids)} different words for a vocabulary of {self.vocabulary}"
            raise InputError(fact, "give a shorter text")
        return ids, names

    @property
    def notes(self) -> tuple[str, ...]:
        what = "The model came without tokenizer.json: each new word was given the next token, from"
        return () if self.known else (f"{what} {FIRST_WORD} on.",)


def _text(model: Decoder | Encoder, text: str) -> Seen:
    reader = _Reader(model, model.config.text.vocabulary)
    ids, names = reader.read(text)
    stack = "decoder" if isinstance(model, Decoder) else "encoder"
    return Seen(inputs=(torch.tensor([ids]),), title=_short(text), labels={stack: names}, notes=reader.notes)


def _pair(model: Seq2Seq, source: str, target: str) -> Seen:
    reader = _Reader(model, model.config.source.vocabulary)
    ids, names = reader.read(source)
    said, called = reader.read(target, special=False)
    start = model.config.start
    return Seen(
        inputs=(torch.tensor([ids]), torch.tensor([[start, *said]])),
        title=f"{_short(source)} → {_short(target)}",
        labels={"encoder": names, "decoder": ["<start>", *called]},
        notes=reader.notes,
    )


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


# ---- pictures and sound ----------------------------------------------------------------------------------------------


def _picture(model: ViT, path: str) -> Seen:
    c = model.config
    how, notes = _preprocess(model)
    image = how(open_image(path))[None]
    rows, columns = image.shape[-2] // c.patch[0], image.shape[-1] // c.patch[1]
    names = [*(["CLS"] if c.prefix else []), *(f"prefix {i}" for i in range(1, c.prefix))]
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


def _preprocess(model: ViT) -> tuple[Preprocess, tuple[str, ...]]:
    c, origin = model.config, origin_of(model)
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
    mel = model.config.mel
    wave = read_sound(path, mel.rate)
    return Seen(inputs=(log_mel(wave, mel)[None].float(),), title=f"{Path(path).name}, {len(wave) / mel.rate:.1f} s")
