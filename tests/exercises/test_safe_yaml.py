from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.exercises.safe_yaml import load_yaml, read_text


def test_numbers_stay_text_and_words_are_words() -> None:
    text = "a: [1, 2.50, 010, 1/2, 12:30]\nb: {c: true, d: ~, e: 'true', f: }"
    assert load_yaml(text) == {
        "a": ["1", "2.50", "010", "1/2", "12:30"],
        "b": {"c": True, "d": None, "e": "true", "f": None},
    }
    assert load_yaml("") is None


texts = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=8)
data = st.recursive(
    texts | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(data)
def test_reads_what_pyyaml_writes(value: object) -> None:
    assert load_yaml(yaml.safe_dump(value, default_style=None)) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 400_000, "deeper"),
        ("- " * 400_000, "deeper"),
        ("? " * 400_000, "key"),
        ("{a: " * 200_000, "deeper"),
        ("a: &x [1]\nb: *x", "alias"),
        ("a: 1\na: 2", "twice"),
        ("a: [1,\nb: 2", "line 3"),
        ("a: [" + "[1,2]," * 160_000 + "]", "entries"),
        ("x" * 10_000_000, "characters"),
        ("\x00", "parse"),
        ("--- 1\n--- 2", "several"),
        ("[1]: 2", "key"),
        ("true: 2", "word"),
        ("!!python/object/apply:os.system [ls]", None),
    ],
    ids=lambda value: str(value)[:10],
)
@pytest.mark.timeout(60)
def test_hostile_texts(text: str, says: str | None) -> None:
    if says is None:
        assert load_yaml(text) == ["ls"]  # the tag is not followed
    else:
        with pytest.raises(InputError, match=says) as caught:
            load_yaml(text)
        assert "\n" not in str(caught.value)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes("\ufeffα: 1".encode())
    assert read_text(path) == "α: 1"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_text(path)
    path.write_bytes(b"x" * 10_000_000)
    with pytest.raises(InputError, match="larger"):
        read_text(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_text(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        read_text(tmp_path)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InputError, match="surrogate"):
        load_yaml("title: \udaad\n")
