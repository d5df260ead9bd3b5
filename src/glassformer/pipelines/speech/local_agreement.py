"""LocalAgreement-2: words of a growing recording are final once two consecutive transcripts agree on them.

Liu et al., "Low-Latency Sequence-to-Sequence Speech Recognition and Translation by Partial Hypothesis Selection", 2020;
with Whisper: Macháček et al., "Turning Whisper into Real-Time Transcription System", 2023.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from glassformer.pipelines.speech.words import Word

TAIL = 4  # last final words that are looked for in a new transcript
SHIFT = 3  # places by which they may have moved


def normalized_words(text: str) -> str:
    """Return the text without case and punctuation, in which transcripts of one recording often differ."""
    return re.sub(r"[^\w']", "", text.casefold()) or text


class LocalAgreement:
    """Final words of the buffer so far, and the transcript of the previous pass."""

    def __init__(self) -> None:
        self.final: list[Word] = []
        self.before: list[Word] = []

    def update(self, words: Sequence[Word], known: float) -> list[Word]:
        """Return the words that this transcript and the previous one agree on, and that were not final yet."""
        agreed: list[Word] = []
        for old, new in zip(self._rest(self.before), self._rest(words), strict=False):
            if normalized_words(old.text) != normalized_words(new.text):
                break
            agreed.append(new._replace(known=known))
        self.final += agreed
        self.before = list(words)
        return agreed

    def finish(self, words: Sequence[Word], known: float) -> list[Word]:
        """Return every word of the last transcript that was not final yet."""
        return [word._replace(known=known) for word in self._rest(words)]

    def cut(self, seconds: float) -> None:
        """Forget the words that end by this time: the audio before it is dropped from the buffer."""
        self.final = [word for word in self.final if word.end > seconds]
        self.before = [word for word in self.before if word.end > seconds]

    def _rest(self, words: Sequence[Word]) -> Sequence[Word]:
        """Return the words after the final ones, which a revised transcript may have moved by a few places."""
        count = len(self.final)
        if not count:
            return words
        tail = [normalized_words(word.text) for word in self.final[-TAIL:]]
        for shift in sorted(range(-SHIFT, SHIFT + 1), key=abs):
            end = count + shift
            if end >= len(tail) and [normalized_words(word.text) for word in words[end - len(tail) : end]] == tail:
                return words[end:]
        return words[count:]
