from __future__ import annotations

import hashlib
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.sources.split import chosen, fraction, part_of, plain


@given(st.text())
def test_the_fraction_is_the_hash(key: str) -> None:
    whole = int(hashlib.sha256(key.encode()).hexdigest(), 16)
    assert abs(fraction(key) - whole / 2**256) < 1e-15
    assert fraction(key) == fraction(key.encode())


def test_shares_are_what_was_asked() -> None:
    count = Counter(part_of(str(i), valid=0.1, test=0.2) for i in range(10_000))
    assert abs(count["valid"] - 1000) < 120  # four standard deviations of 30
    assert abs(count["test"] - 2000) < 160
    assert {part_of(str(i), valid=0, test=0) for i in range(100)} == {"train"}


def test_a_key_does_not_move() -> None:
    """Held-out data stay held out: these places are pinned."""
    # sha256 begins ca97…, 3e23…, 2e7d…, 18ac…, 3f79…: only the first is beyond 0.6
    assert [part_of(key, valid=0.3, test=0.3) for key in "abcde"] == ["train", "test", "test", "test", "test"]
    assert part_of("b", valid=0.1, test=0.2) == "valid"  # 0x3e / 256 = 0.24


def test_plain() -> None:
    assert plain("Hi!") == plain(" hi.") == "hi"
    assert plain("L'été, où ?") == "l été où"
    assert plain("...") == ""


@given(st.lists(st.text(max_size=4)))
def test_the_choice_does_not_depend_on_order(keys: list[str]) -> None:
    assert chosen(keys) == chosen(reversed(keys))
    assert sorted(chosen(keys)) == sorted(set(keys))
