"""Paper, Check and practice over HTTP: the same numbers as the library."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import pytest

from glassformer.exercises import library
from glassformer.exercises.exercise import from_data
from glassformer.exercises.practice.sheet import sheet
from glassformer.exercises.solution import render, solve
from server.conftest import Server


def test_embedded_exercises_are_listed_and_served(server: Server) -> None:
    listed = server.ask("GET", "api/exercises")[1]
    assert [each["name"] for each in listed] == list(library.names())
    assert server.ask("GET", "api/exercises/first-look")[1]["labels"] == ["the", "cat", "sat", "it"]
    assert server.ask("GET", "api/exercises/nothing")[0] == 422


@pytest.mark.parametrize("name", ["first-look", "columns", "two-heads", "transport"])
def test_values_are_those_of_the_solver(server: Server, name: str) -> None:
    exercise = server.ask("GET", f"api/exercises/{name}")[1]
    exact = server.post("api/paper", exercise=exercise)
    quick = server.post("api/paper", exercise=exercise, exact=False)
    solution = solve(library.get(name))
    for step in exact["steps"] + quick["steps"]:
        wanted = solution[step["symbol"]]
        for i, row in enumerate(step["value"]):
            for j, value in enumerate(row):
                assert math.isclose(float(value), float(wanted[i, j]), rel_tol=1e-9, abs_tol=1e-12)


def test_the_first_screen_has_its_numbers(server: Server) -> None:
    exercise = server.ask("GET", "api/exercises/first-look")[1]
    steps = {step["symbol"]: step for step in server.post("api/paper", exercise=exercise)["steps"]}
    assert steps["S"]["cells"][3][1] == {"operands": ["Q.4.1", "K.2.1", "Q.4.2", "K.2.2"], "how": "1·2 + 0·1"}
    assert steps["A"]["decimal"][3] == ["0.0826", "0.6103", "0.0826", "0.2245"]
    assert "<mfrac>" in steps["A"]["math"][3][1]
    assert [round(x, 2) for x in steps["H"]["value"][3]] == [1.45, 1.39]


def test_decimals_explain_the_steps_that_are_asked_for(server: Server) -> None:
    exercise = server.ask("GET", "api/exercises/first-look")[1]
    whole = {step["symbol"]: step for step in server.post("api/paper", exercise=exercise, exact=False)["steps"]}
    part = server.post("api/paper", exercise=exercise, exact=False, explain=["S", "Nothing"])["steps"]
    assert {step["symbol"] for step in part if step["cells"]} == {"S"}
    assert next(step for step in part if step["symbol"] == "S") == whole["S"]
    asked = server.post("api/paper/cell", exercise=exercise, address="A.4.2", exact=False)
    assert asked == whole["A"]["cells"][3][1]


def test_export_parse_and_cell(server: Server) -> None:
    exercise = server.ask("GET", "api/exercises/causal")[1]
    yaml = server.post("api/paper/export", exercise=exercise, format="yaml")["text"]
    assert server.post("api/paper/parse", text=yaml) == exercise
    assert r"\begin{document}" in server.post("api/paper/export", exercise=exercise, format="latex")["text"]
    cell = server.post("api/paper/cell", exercise=exercise, address="H.2.1")
    assert cell["operands"][:2] == ["A.2.1", "V.1.1"]
    assert server.ask("POST", "api/paper/cell", {"exercise": exercise, "address": "H.9.9"})[0] == 422


def test_working_is_graded_with_its_mistake(server: Server) -> None:
    exercise = server.ask("GET", "api/exercises/four-tokens")[1]
    sheet = server.post("api/check/sheet", exercise=exercise)
    assert [step["symbol"] for step in sheet["steps"]] == ["Q", "K", "V", "S", "A", "H"]
    grade = server.post("api/check/grade", exercise=exercise, text="Q = [[1, 2], [2, 0], [0, 1], [1, 2]]")
    verdicts = {cell["address"]: cell["verdict"] for cell in grade["cells"]}
    assert verdicts["Q.4.2"] == "wrong"
    assert verdicts["Q.4.1"] == "right"
    typed = server.post("api/check/grade", exercise=exercise, answers={"Q": [["1", "2"], ["", "0"]]})
    assert {cell["address"]: cell["verdict"] for cell in typed["cells"]}["Q.2.2"] == "right"


def test_cells_that_cannot_be_read_are_said_to_be_so(server: Server) -> None:
    exercise = server.ask("GET", "api/exercises/one-query")[1]
    grade = server.post("api/check/grade", exercise=exercise, answers={"S": [["1", "1..2"]], "H": [["0.2689", "x"]]})
    verdicts = {cell["address"]: cell["verdict"] for cell in grade["cells"] if cell["given"] is not None}
    assert verdicts == {"S.1.1": "right", "S.1.2": "unread", "H.1.1": "right", "H.1.2": "unread"}
    assert grade["mistakes"][0]["cells"] == ["S.1.2", "H.1.2"]
    assert "“1..2”" in grade["mistakes"][0]["text"]
    assert "-inf." in grade["mistakes"][0]["text"]
    alone = server.post("api/check/grade", exercise=exercise, answers={"S": [["foo", ""]]})
    assert [cell["verdict"] for cell in alone["cells"]] == ["unread"]


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("attention", ["Tokens are rows.", "scores", "Round to four decimals."]),
        ("beta", ["Scale the scores by β"]),
        ("mask", ["later key is −∞", "scores"]),
        ("cross", ["keys and values from the memory Y"]),
        ("layernorm", ["square root of its variance", "multiplies by γ and adds β"]),
        ("patches", ["flattened row by row"]),
        ("transport", ["positions 1, 2, 3", "running sums of p and q", "how much mass moves"]),
    ],
)
def test_page_and_sheet_state_all_that_is_needed(server: Server, topic: str, said: list[str]) -> None:
    exercise = server.post("api/practice", topic=topic, seed=3)
    asked = server.post("api/check/sheet", exercise=exercise)["text"]
    assert [words for words in said if words not in asked] == []
    assert server.post("api/paper", exercise=exercise)["text"] == asked
    assert asked in sheet(from_data(exercise), "markdown")
    assert asked in render(solve(from_data(exercise)), "markdown")


def test_a_document_is_graded(server: Server) -> None:
    exercise = server.ask("GET", "api/exercises/four-tokens")[1]
    page = base64.b64encode(b"<p>Q = [[1, 2], [2, 0], [0, 1], [1, 2]]</p>").decode()
    grade = server.post("api/check/grade", exercise=exercise, file=page, name="homework.html")
    assert {cell["address"]: cell["verdict"] for cell in grade["cells"]}["Q.4.2"] == "wrong"
    status, said = server.ask("POST", "api/check/grade", {"exercise": exercise, "file": "no base64!", "name": "a.pdf"})
    assert status == 422
    assert "base64" in said["fact"]
    status, said = server.ask(
        "POST", "api/check/grade", {"exercise": exercise, "file": "A" * 3_000_000, "name": "a.pdf"}
    )
    assert status == 422
    assert "3,000,000 bytes" in said["remedy"]


def test_hints_come_in_three_steps(server: Server) -> None:
    exercise = server.ask("GET", "api/exercises/first-look")[1]
    first, second, third = (
        server.post("api/check/hint", exercise=exercise, symbol="S", level=level, row=4, column=2)
        for level in (1, 2, 3)
    )
    assert "formula" in first
    assert "how" not in first
    assert second["how"] == "1·2 + 0·1"
    assert "decimal" not in second
    assert third["decimal"] == "2"


PRODUCTS = {"Q": [[17, 5]], "K": [[13, 2], [3, 29], [7, 7], [2, 31], [-9, 40]], "V": [[1]] * 5, "scale": 1}
RIGHT = ("231", "196", "154", "189", "47")  # 17·13 + 5·2, …


@pytest.mark.parametrize(
    "working",
    [
        [["230", "196.5", "1/7", "190", "46"]],  # no mistake explains them
        [["230", "", "", "", ""]],
        [["-231", "", "", "", ""]],  # its sign
        [["221", "", "", "", ""]],  # a product left out
        [["13.59", "11.53", "9.06", "11.12", "2.76"]],  # scaled, as it should not be
    ],
)
@pytest.mark.parametrize("kind", ["grids", "text", "file"])
def test_no_verdict_tells_a_right_number_before_the_third_hint(server: Server, kind: str, working: Any) -> None:
    lines = [f"S[1,{j}] = {cell}" for j, cell in enumerate(working[0], 1) if cell]
    text = "\n".join([*lines, "17*14 - 7 = 230", "V^T = [1, 1, 1, 1, 1]"])
    given: dict[str, dict[str, Any]] = {
        "grids": {"answers": {"S": working}},
        "text": {"text": text},
        "file": {"file": base64.b64encode(text.encode()).decode(), "name": "homework.md"},
    }
    grade = server.post("api/check/grade", exercise=PRODUCTS, **given[kind])
    assert grade["mistakes"]
    hints = [server.post("api/check/hint", exercise=PRODUCTS, symbol="S", level=level) for level in (1, 2, 3)]
    for value in (grade, *hints[:2]):
        told = json.dumps(value).replace("-231", "")  # written so, with the wrong sign
        assert not [number for number in RIGHT if re.search(rf"(?<![\d.]){number}(?![\d.]*\d)", told)], told
    assert hints[2]["decimal"] == RIGHT[0]


def test_practice_sheets_come_from_a_seed(server: Server) -> None:
    assert "mask" in server.ask("GET", "api/practice")[1]["topics"]
    one, other = (server.post("api/practice", topic="mask", seed=seed) for seed in (1, 2))
    assert one != other
    assert one == server.post("api/practice", topic="mask", seed=1)


@pytest.mark.parametrize(
    "name", ["layernorm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("two-heads", "block"))]
)
def test_one_cell_of_any_step_is_graded_alone(name: str) -> None:
    from glassformer.report.paper import embedded, grade, sheet

    data = embedded(name)
    steps = sheet(data)["steps"]
    for step in steps:
        answers = {each["symbol"]: [[""] * each["columns"] for _ in range(each["rows"])] for each in steps}
        answers[step["symbol"]][-1][-1] = "3"
        found = [cell["address"] for cell in grade(data, answers=answers)["cells"] if cell["given"] is not None]
        assert found == [f"{step['symbol']}.{step['rows']}.{step['columns']}"]
