"""What models of two kinds of input are given: sound and what is said in it, a picture and texts for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from glassformer.app.report.seen import Reader, Seen, is_file, short
from glassformer.app.tokens import name_of
from glassformer.checkpoints import Origin, origin_of
from glassformer.core.audio import MEL, whisper_log_mel
from glassformer.errors import InputError
from glassformer.models import CLIP, ViT, Whisper
from glassformer.tasks.hearing import codes_of
from glassformer.tasks.sound import read_sound
from glassformer.tasks.transcribe import transcribe


def sound_and_text(model: Whisper, inputs: Sequence[str]) -> Seen:
    """A recording and what is said in it; left out, it is what the model hears."""
    if len(inputs) > 2:
        raise InputError(f"a Whisper was given {len(inputs)} inputs", "give sound, and what is said in it if you know")
    mel, factor = replace(MEL, bands=model.config.embed.bands), model.config.embed.factor
    window = model.config.frames * mel.hop
    whole = read_sound(inputs[0], mel.rate)
    wave = whole[:window]
    frames = whisper_log_mel(pad(wave, (0, window - len(wave))), mel)[None]
    ids, names, notes, said = _said(model, wave, frames, inputs[1:])
    if len(whole) > window:
        notes = (*notes, f"The first {window / mel.rate:g} s are shown: the model hears no more at once.")
    return Seen(
        inputs=(frames, torch.tensor([ids])),
        title=f"{Path(inputs[0]).name}, {len(wave) / mel.rate:.1f} s",
        labels={"decoder": names},
        notes=notes,
        heard=max(1, min(model.config.places, -(-len(wave) // (mel.hop * factor)))),
        seconds=mel.hop * factor / mel.rate,
        said=said,
    )


def _said(
    model: Whisper, wave: Tensor, frames: Tensor, given: Sequence[str]
) -> tuple[list[int], list[str], tuple[str, ...], str]:
    """Tokens of the text, their names, what must be said of them, and what the model itself hears if it was asked."""
    reader, begin = Reader(model, model.config.target.vocabulary), [model.config.start]
    if reader.words is None:
        note = "Nothing was said to be in it: give that as a second input."
        ids, names = reader.read(given[0]) if given else ([], [])
        return [*begin, *ids], ["<start>", *names], reader.notes if given else (note,), ""
    codes = codes_of(model, reader.words)
    text = given[0] if given else transcribe(model, wave, timestamps=False).text
    if codes.languages:
        with torch.inference_mode():
            logits = model(frames, torch.tensor([begin]))[0, -1]
        heard = max(codes.languages.values(), key=lambda token: float(logits[token]))
        begin += [heard, codes.tasks["transcribe"]]
    ids, names = reader.read(" " + text.strip(), special=False) if text.strip() else ([], [])
    begin.append(codes.silent)
    called = [name_of(reader.words, token) for token in begin]
    return [*begin, *ids], [*called, *names], (), "" if given else text


class Tower(nn.Module):
    """One tower alone, under its own name: paths begin with it."""

    def __init__(self, name: str, stack: nn.Module, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.add_module(name, stack)
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


def picture_and_texts(
    model: CLIP, inputs: Sequence[str], see_picture: Callable[[ViT, str, Origin | None], Seen]
) -> Seen:
    """A picture, texts, or both: files are pictures. Of several texts the first is shown, and all are compared."""
    files = [path for path in inputs if is_file(path)]
    texts = [text for text in inputs if text not in files]
    wanted = [("image", files, model.config.vision), ("text", texts, model.config.text)]
    for kind, given, tower in wanted:
        if given and tower is None:
            raise InputError(f"this CLIP has no {kind} tower for {given[0]!r}", "leave it out, or load both towers")
    if len(files) > 1 or not inputs:
        raise InputError(f"a CLIP was given {len(files)} pictures", "give one picture, texts, or both")
    towers: list[tuple[str, nn.Module, Seen]] = []
    if files:
        towers.append(("Image", model.vision, see_picture(model.vision, files[0], origin_of(model))))
    read = [_ended(model, text) for text in texts]
    if texts:
        towers.append(("Text", Tower("text", model.text, model.texts), read[0]))
    note = f"Of {len(texts)} texts the first is looked into." if len(texts) > 1 else ""
    return Seen(
        inputs=tuple(x for _, _, seen in towers[: len(files)] for x in seen.inputs) + tuple(r.inputs[0] for r in read),
        title=" and ".join(short(Path(given).name if given in files else given) for given in inputs),
        labels={"texts": texts},
        notes=tuple(dict.fromkeys(note for note in (note, *(n for _, _, seen in towers for n in seen.notes)) if note)),
        towers=tuple((name, tower, replace(seen, notes=())) for name, tower, seen in towers),
    )


def _ended(model: CLIP, text: str) -> Seen:
    c = model.config
    assert c.text is not None
    reader = Reader(model, c.text.vocabulary if c.end is None or c.end < c.text.vocabulary - 1 else c.end)
    if reader.words is not None:
        reader.vocabulary = c.text.vocabulary
    ids, names = reader.read(text)
    if reader.words is None and c.end is not None:
        ids, names = [*ids, c.end], [*names, "<end>"]
    return Seen(inputs=(torch.tensor([ids]),), title=short(text), labels={"text": names}, notes=reader.notes)


def fits(model: CLIP, seen: Seen) -> list[tuple[str, str, str]]:
    """(text, probability, cosine) of each text for the picture; none without one."""
    texts = seen.labels["texts"]
    if len(seen.inputs) == len(texts) or not texts:
        return []
    x = normalize(model.images(seen.inputs[0]), dim=-1)
    y = normalize(torch.cat([model.texts(ids) for ids in seen.inputs[1:]]), dim=-1)
    cosine = (x @ y.mT)[0]
    share = (model.tau.exp() * cosine).softmax(-1)
    return [(text, f"{p:.3f}", f"{c:.3f}") for text, p, c in zip(texts, share.tolist(), cosine.tolist(), strict=True)]
