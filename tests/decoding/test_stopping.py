from __future__ import annotations

import pytest

from glassformer.decoding.stopping import Answer, Ending, Stopping
from glassformer.errors import ConfigError


def spell(tokens: object) -> str:
    return "".join("abcdefghij"[t] for t in tokens)  # type: ignore[attr-defined]


def test_endings() -> None:
    stopping = Stopping(stops=((1, 2), (0, 1, 2), (5,)))
    assert stopping.ending([3, 9], 5, (9,)) == Ending("end", 1)
    assert stopping.ending([3, 1, 2], 5, (9,)) == Ending("stop", 2)
    assert stopping.ending([0, 1, 2], 5, (9,)) == Ending("stop", 3), "the longest that matches"
    assert stopping.ending([2], 5, (9,)) is None, "longer than the answer"
    assert stopping.ending([3, 3], 2, (9,)) == Ending("length", 0)
    assert stopping.ending([3, 9], 2, (9,)) == Ending("end", 1), "an end token is more than the length"
    assert stopping.ending([3], 2, ()) is None


def test_lists_do_as_well_as_tuples() -> None:
    stopping = Stopping(stops=[[1, 2]], texts=["zz"], decode=spell)  # type: ignore[arg-type]
    assert stopping.ending((1, 2), 5, ()) == Ending("stop", 2)


def test_text_may_begin_inside_a_token() -> None:
    pieces = {0: "Hel", 1: "lo\n", 2: "\nYou"}
    stopping = Stopping(texts=("\n\n",), decode=lambda tokens: "".join(pieces[t] for t in tokens))
    assert stopping.ending([0, 1], 9, ()) is None
    assert stopping.ending([0, 1, 2], 9, ()) == Ending("stop", 0)


def test_nothing_stops_before_min_new() -> None:
    stopping = Stopping(min_new_tokens=3, stops=((1,),), texts=("c",), decode=spell)
    assert stopping.ending([2, 1], 9, ()) is None
    assert stopping.ending([0, 0, 1], 9, ()) == Ending("stop", 1)
    assert stopping.ending([2, 0, 0], 9, ()) == Ending("stop", 0)


def test_body_is_without_the_ending() -> None:
    def answer(ended: Ending) -> Answer:
        return Answer(tokens=(4, 5, 6), logprobs=(0.0, 0.0, 0.0), ended=ended, score=0.0)

    assert answer(Ending("end", 1)).body == (4, 5)
    assert answer(Ending("stop", 3)).body == ()
    assert answer(Ending("length", 0)).body == (4, 5, 6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0: ask for at least 1"),
        ({"min_new_tokens": -1}, "min_new_tokens is -1"),
        ({"min_new_tokens": 5, "max_new_tokens": 4}, r"min_new_tokens is 5: choose 0 to max_new_tokens \(4\)"),
        ({"ends": (1.5,)}, r"ends is \(1.5,\): give a tuple of token ids"),
        ({"stops": (1, 2)}, "a stop sequence is 1: give a tuple of token ids"),
        ({"stops": ((),)}, "none of them empty"),
        ({"texts": "ab", "decode": spell}, "texts 'ab': give tuples"),
        ({"texts": ("",), "decode": spell}, "none of them empty"),
        ({"texts": ("ab",)}, "decode is None: give both or neither"),
        ({"decode": spell}, "give both or neither"),
    ],
)
def test_bad_values(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Stopping(**wrong)  # type: ignore[arg-type]
