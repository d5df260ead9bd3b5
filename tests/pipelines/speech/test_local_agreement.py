from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from glassformer.pipelines.speech.local_agreement import LocalAgreement, key
from glassformer.pipelines.speech.words import Word


def transcript(text: str, start: float = 0.0) -> list[Word]:
    return [Word(word, start + i, start + i + 1, 0.0) for i, word in enumerate(text.split())]


def texts(words: list[Word]) -> str:
    return " ".join(word.text for word in words)


def test_words_are_final_once_two_transcripts_agree() -> None:
    agreement = LocalAgreement()
    assert agreement.update(transcript("he was"), 1.0) == []
    first = agreement.update(transcript("He was not an"), 2.0)
    assert texts(first) == "He was"
    assert {word.known for word in first} == {2.0}
    assert texts(agreement.update(transcript("he was not and ill"), 3.0)) == "not"
    assert texts(agreement.finish(transcript("he was not an ill-disposed man"), 4.0)) == "an ill-disposed man"


def test_a_revision_of_final_words_neither_repeats_nor_drops_the_next_ones() -> None:
    agreement = LocalAgreement()
    for _ in range(2):
        agreement.update(transcript("one two three four five"), 1.0)
    assert texts(agreement.finish(transcript("so one two three four five six"), 2.0)) == "six"
    assert texts(agreement.finish(transcript("two three four five six"), 2.0)) == "six"


def test_audio_that_was_cut_is_forgotten() -> None:
    agreement = LocalAgreement()
    for _ in range(2):
        agreement.update(transcript("one two three"), 3.0)
    agreement.cut(2.0)
    assert texts(agreement.final) == "three"
    assert texts(agreement.finish(transcript("three four", start=2.0), 4.0)) == "four"


def test_case_and_punctuation_do_not_prevent_agreement() -> None:
    assert key("Woman,") == key("woman")
    assert key("don't") == "don't"
    assert key("…") == "…"


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12, unique=True), st.lists(st.integers(0, 12)))
def test_growing_transcripts_give_every_word_once(words: list[str], ends: list[int]) -> None:
    agreement, whole = LocalAgreement(), transcript(" ".join(words))
    found = [word for end in sorted(ends) for word in agreement.update(whole[:end], float(end))]
    found += agreement.finish(whole, 12.0)
    assert [word.text for word in found] == words
