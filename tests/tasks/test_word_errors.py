from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from glassformer.tasks.word_errors import edits, error_rate

texts = st.lists(st.sampled_from("abc"), max_size=6)


@given(texts, texts, texts)
def test_a_distance(a: list[str], b: list[str], c: list[str]) -> None:
    assert edits(a, a) == 0
    assert edits(a, b) == edits(b, a)
    assert edits(a, c) <= edits(a, b) + edits(b, c)
    assert abs(len(a) - len(b)) <= edits(a, b) <= max(len(a), len(b))


def test_by_hand() -> None:
    assert edits(["the", "cat", "sat"], ["a", "cat", "sat", "down"]) == 2
    assert edits("kitten", "sitting") == 3
    assert error_rate([(["a", "b"], ["a", "c"]), ([], ["d", "e"])]) == 3 / 4
    assert error_rate([]) == 0
