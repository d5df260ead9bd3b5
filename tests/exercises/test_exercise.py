from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from glassformer.errors import GlassError, InputError, ShapeError
from glassformer.exercises.exercise import from_data, load, schema
from glassformer.exercises.numbers import Exact

HEAD = "heads: [{WQ: [[1, 0], [0, 1]], WK: [[1, 0], [0, 1]], WV: [[1, 0], [0, 1]]}]\n"
GOOD = "X: [[1, 2], [3, 4]]\n" + HEAD


def test_reads_text_and_files(tmp_path: Path) -> None:
    path = tmp_path / "exercise.yaml"
    path.write_text(GOOD, encoding="utf-8")
    exercise = load(path)
    assert exercise == load(str(path)) == load(GOOD)
    assert exercise.X[1, 0] == 3
    assert exercise.kind == "attention"
    assert exercise.scale == "1/sqrt(dk)"


def test_scale() -> None:
    def beta(scale: str) -> Exact:
        return load(GOOD + f"scale: {scale}").beta(4, 16)

    assert beta("none") == 1
    assert beta("1/sqrt(dk)") == Exact(1) / 2
    assert beta("1/sqrt(d)") == Exact(1) / 4
    assert beta("0.1") == Exact(1) / 10
    assert beta("1/sqrt(3)") == Exact(3).sqrt() / 3
    assert from_data({"Q": [[1]], "K": [[1]], "V": [[1]], "scale": 0.5}).beta(1, 1) == Exact(1) / 2


def test_masks_lie_as_the_scores_do() -> None:
    rows = load(GOOD + "mask: causal")
    columns = load(GOOD + "mask: causal\nlayout: columns")
    assert rows.allowed(2, 2) == ((True, False), (True, True))
    assert columns.allowed(2, 2) == ((True, True), (False, True))
    assert load(GOOD + "mask: [[1, 1], [0, 1]]").allowed(2, 2) == ((True, True), (False, True))
    assert load(GOOD + "mask: none").allowed(2, 2) is None


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
        load(text + "\n")
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
