"""Short phrase pairs extracted from sentence pairs: clauses, single words, and nouns with their determiners.

Tatoeba has whole sentences and hardly a single word or fragment, which people type as well. Everything here is computed
from the training split alone.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from glassformer.data.sources.split import plain

Pair = tuple[str, str]

NOT_WORDS = re.compile(r"[\d\"«»()$%]")
CLAUSE = re.compile(r"\s*[,;:.!?…]+\s*")
ENGLISH_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
NUMBER = re.compile(r"\b\d+\b")
FRENCH_WORD = re.compile(r"[a-zàâäçéèêëîïôöùûüœæ]+(?:-[a-zàâäçéèêëîïôöùûüœæ]+)*'?")
MIN_COUNT, MIN_DICE = 6, 0.3
ENGLISH_DETERMINERS = frozenset((
    "the", "a", "an", "my", "your", "his", "her", "our", "their", "this", "that", "these", "those", "some", "two",
    "three",
))  # fmt: skip
FRENCH_DETERMINERS = frozenset((
    "le", "la", "les", "l'", "un", "une", "des", "du", "mon", "ma", "mes", "ton", "ta", "tes", "votre", "vos", "son",
    "sa", "ses", "notre", "nos", "leur", "leurs", "ce", "cet", "cette", "ces", "deux", "trois",
))  # fmt: skip
# Names that replace the commonest of the data; all begin with a consonant.
NAMES = {
    "Tom": ("Bob", "Charles", "David", "Daniel", "Frank", "George", "Jack", "James", "Kevin", "Lucas", "Mark", "Martin",
            "Michael", "Nick", "Paul", "Peter", "Ravi", "Sam", "Simon", "Thomas", "Victor", "Walter"),
    "Mary": ("Barbara", "Carla", "Clara", "Diana", "Fatima", "Jane", "Julia", "Laura", "Linda", "Lisa", "Maria",
             "Nadia", "Nina", "Paula", "Rosa", "Sarah", "Sofia", "Susan", "Tina", "Vera"),
}  # fmt: skip
SYLLABLES = tuple(c + v for c in "bcdfgklmnprstvz" for v in ("a", "e", "i", "o", "u"))


def clauses(pairs: Iterable[Pair], max_words: int = 4, share: float = 0.25) -> Iterator[Pair]:
    """Yield short clauses of pairs that have equally many on both sides, such as `of course` and `bien sûr`.

    A clause pair must occur twice, and be at least this share of the occurrences of its English clause.
    """
    found: Counter[Pair] = Counter()
    for source, target in pairs:
        ours, theirs = ([part for part in CLAUSE.split(text) if part] for text in (source, target))
        if len(ours) < 2 or len(ours) != len(theirs):
            continue
        for one, other in zip(ours, theirs, strict=True):
            short = len(one.split()) <= max_words and len(other.split()) <= max_words + 1
            if short and not NOT_WORDS.search(one + other):
                found[one, other] += 1
    total: Counter[str] = Counter()
    for (one, _), count in found.items():
        total[one] += count
    for (one, other), count in found.items():
        if count >= 2 and count >= share * total[one]:
            yield one, other


def _words(text: str, pattern: re.Pattern[str]) -> list[str]:
    return pattern.findall(text.lower().replace("’", "'"))


def dictionary(pairs: Sequence[Pair]) -> dict[str, str]:
    """Return English words with the French word that is their best match, if each is the best match of the other.

    The association of two words is Dice's coefficient 2·n(e, f)/(n(e) + n(f)) over sentence pairs.
    """
    english: Counter[str] = Counter()
    french: Counter[str] = Counter()
    both: Counter[Pair] = Counter()
    for source, target in pairs:
        ours, theirs = set(_words(source, ENGLISH_WORD)), set(_words(target, FRENCH_WORD))
        english.update(ours)
        french.update(theirs)
        both.update((one, other) for one in ours for other in theirs)
    dice = {
        (one, other): 2 * count / (english[one] + french[other])
        for (one, other), count in both.items()
        if count >= MIN_COUNT
    }
    best: tuple[dict[str, Pair], dict[str, Pair]] = ({}, {})
    for pair, score in dice.items():
        for side in (0, 1):
            if score > dice.get(best[side].get(pair[side], ("", "")), 0.0):
                best[side][pair[side]] = pair
    return {
        one: other
        for one, (_, other) in best[0].items()
        if best[1][other] == (one, other) and dice[one, other] >= MIN_DICE and len(one) > 1 and not other.endswith("'")
    }


def noun_phrases(pairs: Iterable[Pair], words: dict[str, str]) -> Iterator[Pair]:
    """Yield determiner + noun pairs that occur at least twice, such as `my brother` and `mon frère`."""
    found: Counter[Pair] = Counter()
    for source, target in pairs:
        ours, theirs = _words(source, ENGLISH_WORD), _words(target, FRENCH_WORD)
        for first, word in pairwise(ours):
            if first not in ENGLISH_DETERMINERS or (other := words.get(word)) is None or theirs.count(other) != 1:
                continue
            at = theirs.index(other)
            if at and (before := theirs[at - 1]) in FRENCH_DETERMINERS:
                found[f"{first} {word}", before + ("" if before.endswith("'") else " ") + other] += 1
    best: dict[str, Pair] = {}
    for pair, count in found.most_common():
        if count >= 2 and pair[0] not in best:
            best[pair[0]] = pair
            yield pair


def cased(words: dict[str, str], pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yield the words as they are mostly written within sentences, such as `Paris`."""
    forms: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for pair in pairs:
        for side in (0, 1):
            forms[side].update(re.findall(r"(?<=[\w,] )\w+", pair[side]))
    for pair in words.items():
        one, other = (max(word, word.capitalize(), key=forms[i].__getitem__) for i, word in enumerate(pair))
        yield one, other


def extract(pairs: Sequence[Pair], held_out: Iterable[str]) -> list[Pair]:
    """Return all phrase pairs of the training pairs, without those whose English is a held-out sentence."""
    words, fragments = dictionary(pairs), list(clauses(pairs))
    for one, _ in fragments:
        words.pop(one.lower(), None)
    excluded = {plain(sentence) for sentence in held_out}
    found = [*fragments, *cased(words, pairs), *noun_phrases(pairs, words)]
    return [pair for pair in dict.fromkeys(found) if plain(pair[0]) not in excluded]


def rename(source: str, target: str, rng: random.Random) -> Pair:
    """Replace the commonest names of the data by others, so that names are copied rather than learned by heart."""
    for known, others in NAMES.items():
        if re.search(rf"\b{known}\b", source) and re.search(rf"\b{known}\b", target):
            name = rng.choice(others) if rng.random() < 0.5 else invented(rng)
            source, target = (re.sub(rf"\b{known}\b", name, text) for text in (source, target))
    return source, target


def renumber(source: str, target: str, rng: random.Random) -> Pair:
    """Replace a number in digits that both texts contain by another, so that numbers are copied digit by digit."""
    ours, theirs = (NUMBER.findall(text) for text in (source, target))
    common = [number for number in ours if int(number) > 1 and ours.count(number) == theirs.count(number) == 1]
    if not common:
        return source, target
    old, new = rng.choice(common), str(rng.randrange(2, 10 ** rng.randint(1, 4)))
    return re.sub(rf"\b{old}\b", new, source), re.sub(rf"\b{old}\b", new, target)


def invented(rng: random.Random) -> str:
    """Return a name that nobody has. It begins with a consonant, as `de` and `que` do not change before it."""
    syllables = rng.choices(SYLLABLES, k=rng.choice((1, 2, 2, 3)))
    return ("".join(syllables) + rng.choice(("", "n", "r", "s", "l"))).capitalize()


def one_word_away(sentences: Iterable[str], known: Iterable[str]) -> set[str]:
    """Return the sentences that differ from a known one by at most one word: changed, added or left out."""
    exact: set[str] = set()
    changed: set[str] = set()
    for sentence in known:
        words = plain(sentence).split()
        exact.add(" ".join(words))
        changed.update(_without(words, "*"), _without(words, None))
    found = set()
    for sentence in sentences:
        words = plain(sentence).split()
        whole = " ".join(words)
        near = whole in exact or whole in changed or any(one in changed for one in _without(words, "*"))
        if near or any(one in exact for one in _without(words, None)):
            found.add(sentence)
    return found


def _without(words: Sequence[str], placeholder: str | None) -> Iterator[str]:
    """Yield the sentence with each word replaced by the placeholder in turn, or left out."""
    filler = [] if placeholder is None else [placeholder]
    for i in range(len(words)):
        yield " ".join([*words[:i], *filler, *words[i + 1 :]])
