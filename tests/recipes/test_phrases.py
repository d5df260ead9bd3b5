"""Phrases extracted from sentence pairs, and the augmentation of the translator."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.lists(st.sampled_from(["we", "see", "a", "red", "house"]), min_size=1, max_size=5)


def test_clauses_words_and_nouns_are_found(recipe: Any) -> None:
    phrases = recipe("phrases")
    nouns = [("the house", "la maison"), ("a dog", "un chien"), ("the table", "la table"), ("a book", "un livre")]
    verbs = [("I see", "je vois"), ("you want", "tu veux"), ("we have", "nous avons")]
    pairs = [(f"Yes, {a} {x}.", f"Oui, {b} {y}.") for a, b in verbs for x, y in nouns for _ in range(3)]
    pairs += [("He lives in Paris.", "Il vit à Paris."), ("Was he in Paris?", "Était-il à Paris ?")] * 6
    pairs += [("He lives in Rome.", "Il vit à Rome.")] * 9
    found = phrases.extract(pairs, held_out=["A dog!"])
    assert ("Yes", "Oui") in found
    assert ("the house", "la maison") in found
    assert ("Paris", "Paris") in found  # in the case in which it is mostly written
    assert not any(source == "a dog" for source, _ in found)  # held out


@given(st.data())
def test_one_word_away_is_an_edit_distance_of_at_most_one(data: Any) -> None:
    import phrases

    known = [" ".join(data.draw(WORDS)) for _ in range(3)]
    sentence = " ".join(data.draw(WORDS))

    def distance(a: list[str], b: list[str]) -> int:
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            row, last = [i], row
            for j, y in enumerate(b, 1):
                row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
        return row[-1]

    near = min(distance(sentence.split(), one.split()) for one in known) <= 1
    assert phrases.one_word_away([sentence], known) == ({sentence} if near else set())


def test_numbers_in_both_texts_change_together(recipe: Any) -> None:
    phrases, rng = recipe("phrases"), random.Random(0)
    found = {phrases.renumber("It costs 25 euros.", "Ça coûte 25 euros.", rng) for _ in range(200)}
    assert len(found) > 50
    for source, target in found:
        number = source.split()[2]
        assert int(number) > 1
        assert target == f"Ça coûte {number} euros."
    one_sided = ("I have 2 cats.", "J'ai deux chats.")
    assert phrases.renumber(*one_sided, rng) == one_sided
    assert phrases.renumber("Only 1 left.", "Plus que 1.", rng) == ("Only 1 left.", "Plus que 1.")  # 1 is singular


def test_augmentation_changes_case_and_punctuation_and_keeps_the_words(recipe: Any) -> None:
    translator, rng = recipe("translator"), random.Random(0)
    found = {translator.vary("Don't go!", "Ne pars pas !", rng) for _ in range(500)}
    assert {("Don't go!", "Ne pars pas !"), ("Don't go.", "Ne pars pas."), ("don't go!", "Ne pars pas !")} <= found
    assert all(source.replace("’", "'").casefold().strip("!.") == "don't go" for source, _ in found)
    assert {translator.vary("dog", "chien", rng) for _ in range(100)} >= {("Dog.", "Chien."), ("dog", "chien")}
    names = {translator.vary("Tom knows Mary.", "Tom connaît Mary.", rng) for _ in range(200)}
    assert len(names) > 20
    for source, target in names:
        copied = [word for word in target.rstrip(".").split() if word != "connaît"]
        assert [word.casefold() for word in source.rstrip(".").split() if word.casefold() != "knows"] == [
            word.casefold() for word in copied
        ]
    joined = translator.join(("I ran.", "J'ai couru."), ("She sang.", "Elle a chanté."), random.Random(1))
    assert joined[0].startswith("I ran")
    assert joined[0].endswith("she sang.")
    assert joined[1].endswith("elle a chanté.")


def test_a_grown_model_computes_the_same_function(recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = recipe("translator")
    monkeypatch.setattr(translator, "VOCABULARY", 50)
    source, target = torch.randint(3, 50, (2, 7)), torch.randint(3, 50, (2, 5))
    model = translator.Seq2Seq(translator.SMALL.config(), seed=1).eval()
    for growth in (translator.MEDIUM, translator.LARGE):
        grown = translator.grow(model, growth).eval()
        torch.testing.assert_close(grown(source, target), model(source, target), atol=1e-5, rtol=1e-5)
        assert sum(w.numel() for w in grown.parameters()) > 1.5 * sum(w.numel() for w in model.parameters())
        model = grown
