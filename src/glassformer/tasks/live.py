"""Words as they are heard: sound in pieces of any length → each word, once nothing can change it any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from torch import Tensor, nn

from glassformer.core.audio import RATE
from glassformer.tasks.ears import Ear
from glassformer.tasks.reading import Word, WordReader
from glassformer.tasks.sound import Resampler
from glassformer.tasks.spelt import SpeltReader
from glassformer.tasks.symbols import Hearing, hearing_of


def reader_of(hearing: Hearing, *, pause: float | None = None) -> WordReader | SpeltReader:
    """By how words are spelt, if the model came with that; else the likeliest letter of each row."""
    search = hearing.search if pause is None else replace(hearing.search, pause=pause, first=pause)
    if hearing.spelling is None:
        return WordReader(hearing.symbols, hearing.seconds, rate=hearing.mel.rate, pause=search.pause)
    return SpeltReader(hearing.symbols, hearing.seconds, hearing.spelling, search, rate=hearing.mel.rate)


def listen(
    model: nn.Module,
    chunks: Iterable[Tensor],
    *,
    rate: int = RATE,
    pause: float | None = None,
    hearing: Hearing | None = None,
) -> Iterator[Word]:
    """The words of sound that comes in pieces, each (samples,) from −1 to 1 at `rate`, as soon as they are final.

    `pause`: seconds without a letter that end a word; the model's own unless given.
    However the sound is cut, the words and their times are the same, and they are those of `transcribe`.
    """
    hearing = hearing_of(model) if hearing is None else hearing
    ear, reader = Ear(model, hearing), reader_of(hearing, pause=pause)
    resampler = Resampler(rate, ear.rate)
    for chunk in chunks:
        for rows in ear.feed(resampler.feed(chunk)):
            yield from reader.feed(rows)
    for rows in (*ear.feed(resampler.finish()), *ear.finish()):
        yield from reader.feed(rows)
    yield from reader.finish(ear.samples / ear.rate)
