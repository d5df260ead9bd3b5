"""Exercise files are validated: types, sizes, unknown keys and hostile YAML."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import GlassError, InputError, MaskError, ShapeError
from glassformer.exercises import library
from glassformer.exercises.exercise import from_data, load_exercise, schema
from glassformer.exercises.fields import to_count, to_matrix, to_number, to_vector
from glassformer.exercises.numbers import Exact
from glassformer.exercises.safe_yaml import load_yaml, read_text
from glassformer.exercises.solution import solve

HEAD = "heads: [{WQ: [[1, 0], [0, 1]], WK: [[1, 0], [0, 1]], WV: [[1, 0], [0, 1]]}]\n"
GOOD = "X: [[1, 2], [3, 4]]\n" + HEAD


def test_reads_text_and_files(tmp_path: Path) -> None:
    path = tmp_path / "exercise.yaml"
    path.write_text(GOOD, encoding="utf-8")
    exercise = load_exercise(path)
    assert exercise == load_exercise(str(path)) == load_exercise(GOOD)
    assert exercise.X[1, 0] == 3
    assert exercise.kind == "attention"
    assert exercise.scale == "1/sqrt(dk)"


def test_scale() -> None:
    def beta(scale: str) -> Exact:
        return load_exercise(GOOD + f"scale: {scale}").beta(4, 16)

    assert beta("none") == 1
    assert beta("1/sqrt(dk)") == Exact(1) / 2
    assert beta("1/sqrt(d)") == Exact(1) / 4
    assert beta("0.1") == Exact(1) / 10
    assert beta("1/sqrt(3)") == Exact(3).sqrt() / 3
    assert from_data({"Q": [[1]], "K": [[1]], "V": [[1]], "scale": 0.5}).beta(1, 1) == Exact(1) / 2


def test_masks_lie_as_the_scores_do() -> None:
    rows = load_exercise(GOOD + "mask: causal")
    columns = load_exercise(GOOD + "mask: causal\nlayout: columns")
    assert rows.allowed(2, 2) == ((True, False), (True, True))
    assert columns.allowed(2, 2) == ((True, True), (False, True))
    assert load_exercise(GOOD + "mask: [[1, 1], [0, 1]]").allowed(2, 2) == ((True, True), (False, True))
    assert load_exercise(GOOD + "mask: none").allowed(2, 2) is None


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", InputError, "the exercise is empty"),
        ("[1, 2]\n", InputError, "not an exercise"),
        ("title: nothing\n", InputError, "neither X nor"),
        ("X: [[1, 2], [3]]\n" + HEAD, ShapeError, "X: row 2"),
        ("X: [[1, nan], [3, 4]]\n" + HEAD, InputError, "X: 'nan' is not a number: write a number such as 0.5, 1/2"),
        ("X: [[1, 1/0], [3, 4]]\n" + HEAD, InputError, "divided by 0"),
        ("X: [[1, 9**9**9], [3, 4]]\n" + HEAD, InputError, "exponent"),
        ("X: []\n" + HEAD, ShapeError, "X: "),
        (GOOD + "layuot: rows", InputError, "did you mean layout"),
        (GOOD + "wo: [[1]]", InputError, "did you mean WO"),
        (GOOD + "WQ: [[1]]", InputError, "the key 'WQ' is not known here: write it under heads"),
        (GOOD + "gamma: [1]", InputError, "the key 'gamma' is not known here: write it under layernorm"),
        (GOOD + "qwertzuiop: 1", InputError, "use one of"),
        (GOOD + "layout: diagonal", InputError, "layout"),
        (GOOD + "mask: backwards", GlassError, "mask"),
        (GOOD + "scale: 1/sqrt(dx)", InputError, "dx"),
        (GOOD + "scale: 9**9**9", InputError, "exponent"),
        (GOOD.replace("WV:", "WX:"), InputError, r"heads\[1\].WX.*did you mean"),
        (GOOD + "ffn: {W1: [[1], [1]]}", InputError, "ffn.W2 is missing"),
        (GOOD + "layernorm: {gama: [1, 1]}", InputError, "did you mean gamma"),
        (GOOD + "residual: maybe", InputError, "residual"),
        ("a: &a [1]\nb: *a\n", InputError, "alias"),
        ("X: [[1, 2]\nheads: 3", InputError, "line 2"),
        ("X: " + str([[0] * 200] * 200) + "\n", ShapeError, "200"),
        ("title: " + "x" * 10_000_000 + "\n", InputError, "characters"),
    ],
)
@pytest.mark.timeout(60)
def test_one_clear_line(text: str, error: type[GlassError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        load_exercise(text + "\n")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_schema_names_every_key() -> None:
    keys = {"X", "heads", "WO", "scale", "mask", "positions", "memory", "residual", "layernorm", "ffn"}
    assert keys <= set(schema()["properties"])
    assert schema()["additionalProperties"] is False


@pytest.mark.golden
def test_the_published_schema_is_the_models() -> None:
    """docs/exercise.schema.json is what editors complete and check exercise files by."""
    published = Path(__file__).parents[2] / "docs" / "exercise.schema.json"
    if os.environ.get("GLASSFORMER_GOLDEN") == "rewrite":
        published.write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(published.read_text(encoding="utf-8")) == schema()


@pytest.mark.parametrize("value", [0.5, "1/2", "0.50", Fraction(1, 2), Exact(1) / 2, "sqrt(1/4)"])
def test_numbers(value: object) -> None:
    assert to_number(value) == Exact(1) / 2


def test_decimals_are_exact() -> None:
    assert to_number(0.1) * 10 == 1
    assert to_number(1e-5) * 100_000 == 1


def test_vectors_take_rows_and_columns() -> None:
    for value in ([1, 2], [[1, 2]], [[1], [2]]):
        assert to_vector(value) == (Exact(1), Exact(2))


def test_counts() -> None:
    assert to_count("14") == 14
    assert to_count("224/16") == 14


@pytest.mark.parametrize(
    ("convert", "value", "says"),
    [
        (to_number, True, "number"),
        (to_number, None, "number"),
        (to_number, float("nan"), "nan"),
        (to_number, [1], "number"),
        (to_matrix, [1, 2], "rows"),
        (to_matrix, [], "matrix"),
        (to_matrix, [[]], "no entries"),
        (to_matrix, "abc", "matrix"),
        (to_matrix, [[1, 2], [3]], "row 2"),
        (to_matrix, [[0] * 65], "65 columns"),
        (to_matrix, [[0]] * 65, "65 rows"),
        (to_vector, [[1, 2], [3, 4]], "list of numbers"),
        (to_vector, [], "list of numbers"),
        (to_count, "1/2", "whole"),
        (to_count, 0, "whole"),
        (to_count, "sqrt(2)", "whole"),
    ],
)
def test_refusals(convert: object, value: object, says: str) -> None:
    with pytest.raises(GlassError, match=says):
        convert(value)  # type: ignore[operator]


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


EYE = [[1, 0], [0, 1]]
ONE_HEAD = {"WQ": EYE, "WK": EYE, "WV": EYE}
X = [[1, 2], [3, 4], [5, 6]]
ATTENTION = {"X": X, "heads": [ONE_HEAD]}


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ({**ATTENTION, "Q": EYE}, InputError, "both heads"),
        ({"Q": EYE, "K": EYE}, InputError, "V or WV: neither"),
        ({"heads": [ONE_HEAD]}, InputError, "neither X|no X"),
        ({"X": X, "heads": [{**ONE_HEAD, "Q": EYE}]}, InputError, r"heads\[1\].Q.*both"),
        (
            {"X": X, "heads": [{**ONE_HEAD, "WQ": [[1, 0]]}]},
            ShapeError,
            r"heads\[1\].WQ is 1×2, but there are 2.*2 rows",
        ),
        ({"X": X, "heads": [ONE_HEAD, {**ONE_HEAD, "WK": [[1], [1]]}]}, ShapeError, "Q of head 2 has width 2 and K"),
        ({"X": X, "heads": [{**ONE_HEAD, "bV": [1, 2, 3]}]}, ShapeError, "bV has 3 entries"),
        ({"Q": EYE, "K": EYE, "V": X}, ShapeError, "K has 2 tokens, V has 3"),
        ({**ATTENTION, "WO": [[1, 0]]}, ShapeError, "WO is 1×2"),
        ({**ATTENTION, "bO": [1, 2]}, InputError, "bO"),
        ({**ATTENTION, "mask": EYE}, MaskError, "2×2: make it 3×3"),
        ({**ATTENTION, "mask": [[1, 0, 0], [0, 0, 0], [1, 1, 1]]}, MaskError, "query 2 may attend to nothing"),
        ({**ATTENTION, "mask": [[1, 0, 0], [0, 2, 0], [1, 1, 1]]}, MaskError, "has 2 in row 2, column 2"),
        ({**ATTENTION, "positions": EYE}, ShapeError, "positions is 2×2: make it 3×2"),
        ({"Q": EYE, "K": EYE, "V": EYE, "positions": "sinusoidal"}, InputError, "without X"),
        ({"Q": EYE, "K": EYE, "V": EYE, "residual": True}, InputError, "needs X"),
        ({"Q": EYE, "K": EYE, "V": EYE, "memory": EYE}, InputError, "memory"),
        ({"X": X, "memory": EYE}, InputError, "memory is given without heads"),
        ({**ATTENTION, "WO": [[1], [1]], "residual": True}, ShapeError, "width 1"),
        ({**ATTENTION, "layernorm": {"gamma": [1]}}, ShapeError, "gamma has 1"),
        ({**ATTENTION, "layernorm": {"eps": -1}}, InputError, "eps"),
        ({**ATTENTION, "ffn": {"W1": [[1]], "W2": [[1]]}}, ShapeError, "ffn.W1"),
        ({**ATTENTION, "residual": True, "ffn": {"W1": EYE, "W2": [[1], [1]]}}, ShapeError, "ffn.W2"),
        ({"patches": {"size": 2}}, InputError, "no image"),
        ({"patches": {"size": 3, "height": 8, "width": 9}}, ShapeError, "8×9 does not split"),
        ({"patches": {"size": 2, "height": 8, "width": 8}, "heads": [ONE_HEAD]}, InputError, "no image"),
        ({"patches": {"size": 2, "image": EYE}, "X": X}, InputError, "both X and patches"),
        ({"patches": {"size": 1, "image": [[0] * 10] * 10}}, ShapeError, "too many"),
        ({"patches": {"size": 2, "image": EYE, "W": EYE}}, ShapeError, "numbers in a patch"),
        ({"transport": {"p": [1, 1], "q": [1]}}, ShapeError, "2 bins and q has 1"),
        ({"transport": {"p": [1, 1], "q": [1, 2]}}, InputError, "mass 2 and q the mass 3"),
        ({"transport": {"p": [2, -1], "q": [1, 0]}}, InputError, "-1 in bin 2"),
        ({"transport": {"p": [0], "q": [0]}}, InputError, "no mass"),
        ({"transport": {"p": [1, 0], "q": [0, 1], "positions": [2, 1]}}, InputError, "increas"),
        ({"transport": {"p": [1], "q": [1]}, "X": X}, InputError, "cannot be combined with X"),
        ({"cost": {"N": "1/2", "D": 2}}, InputError, "cost.N"),
    ],
)
def test_misfits_are_named(data: dict[str, object], error: type[GlassError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        from_data(data)
    assert "\n" not in str(caught.value)


def test_column_layout_reads_shapes_the_other_way() -> None:
    columns = {
        "layout": "columns",
        "X": [[1, 2, 3], [4, 5, 6]],
        "heads": [{**ONE_HEAD, "WV": [[1, 1], [0, 1], [1, 0]]}],
    }
    assert from_data({**columns, "WO": [[1, 0, 1]]}).kind == "attention"
    with pytest.raises(ShapeError, match=r"WO is 2×2, but there are 3.*3 columns"):
        from_data({**columns, "WO": EYE})


def test_at_least_twelve_of_every_kind() -> None:
    exercises = [library.get(name) for name in library.names()]
    assert len(exercises) >= 12
    assert len({exercise.title for exercise in exercises}) == len(exercises)
    assert {exercise.kind for exercise in exercises} == {"attention", "tokens", "patches", "transport", "cost"}
    assert all(exercise.text for exercise in exercises)


@pytest.mark.parametrize("name", library.names())
def test_every_one_is_solved(name: str) -> None:
    assert solve(library.get(name)).steps
    assert load_exercise(library.text(name)) == library.get(name)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(InputError, match="four-tokens"):
        library.get("fourtokens")
