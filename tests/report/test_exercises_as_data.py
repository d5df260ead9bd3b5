"""Exercises as plain data: every number's operands really give it."""

from __future__ import annotations

import json
import math

import pytest

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.report import paper


@pytest.mark.parametrize("name", library.names())
def test_every_embedded_exercise_has_a_view(name: str) -> None:
    data = paper.embedded(name)
    exact, quick = paper.view(data, True), paper.view(data, False)
    assert json.loads(json.dumps(exact, allow_nan=False)) == exact
    assert [step["decimal"] for step in exact["steps"]] == [step["decimal"] for step in quick["steps"]]
    known = {matrix["symbol"]: matrix for matrix in exact["given"] + exact["steps"]}
    for step in exact["steps"]:
        for row in step["cells"]:
            for cell in row:
                for address in cell["operands"]:
                    symbol, i, j = address.split(".")
                    assert 1 <= int(i) <= known[symbol]["rows"]
                    assert 1 <= int(j) <= known[symbol]["columns"]


@pytest.mark.parametrize("name", library.names())
def test_given_numbers_are_found_by_their_path(name: str) -> None:
    data = paper.embedded(name)
    for matrix in paper.view(data, False)["given"]:
        if matrix["path"] is None:  # follows from the image
            assert matrix["symbol"] in ("height", "width")
            continue
        found = data
        for key in matrix["path"]:
            found = found[key]
        cells = [x for row in matrix["text"] for x in row]
        flat = found if isinstance(found, list) else [found]
        flat = [x for row in flat for x in row] if isinstance(flat[0], list) else flat
        assert len(flat) == len(cells)


@pytest.mark.parametrize("name", ["first-look", "four-tokens", "columns", "two-heads", "layernorm", "cross"])
def test_sums_written_out_have_the_value_of_their_cell(name: str) -> None:
    """Products and sums are read back by the reader of learners' working and compared."""
    for step in paper.view(paper.embedded(name))["steps"]:
        if step["op"] not in ("matmul", "linear", "scale", "add", "total", "mean"):
            continue
        for i, row in enumerate(step["cells"]):
            for j, cell in enumerate(row):
                value = eval(_python(cell["how"]), {"sqrt": math.sqrt, "e": math.e})
                assert math.isclose(value, step["value"][i][j], abs_tol=5e-3), cell["how"]


def _python(how: str) -> str:
    import re

    up = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    text = re.sub(r"([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", lambda found: f"**({found.group().translate(up)})", how)
    text = re.sub(r"√(\d+)", r"sqrt(\1)", text.replace("·", "*").replace("−", "-").replace("^", "**"))
    return re.sub(r"(\d)(?=sqrt|e)", r"\1*", text)


def test_infinite_beta_gives_all_weight_to_the_largest_scores() -> None:
    data = {"Q": [[1, 0]], "K": [[2, 0], [2, 5], [1, 0]], "V": [[2, 0], [0, 4], [9, 9]], "scale": "inf"}
    steps = {step["symbol"]: step for step in paper.view(data)["steps"]}
    assert steps["A"]["text"] == [["1/2", "1/2", "0"]]
    assert steps["H"]["text"] == [["1", "2"]]
    assert "E" not in steps
    masked = {**data, "Q": [[1, 0]] * 3, "mask": "causal"}
    assert paper.view(masked, False)["steps"][-1]["decimal"][0] == ["2", "0"]


def test_a_view_that_would_be_too_large_is_refused() -> None:
    with pytest.raises(InputError, match="at most 2,000"):
        paper.view({"Q": [[1] * 40] * 40, "K": [[1] * 40] * 40, "V": [[1] * 40] * 40}, False)


def test_beta_zero_attends_evenly() -> None:
    data = {"Q": [[1, 0]], "K": [[2, 0], [1, 5]], "V": [[2, 0], [0, 4]], "scale": 0}
    assert paper.view(data)["steps"][-1]["text"] == [["1", "2"]]
