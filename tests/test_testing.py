"""assert_working, as a function, as a pytest fixture, and in the cells of nbgrader and Otter."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.solution import solve
from glassformer.testing import assert_working

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parent.parent

X = torch.tensor([[1.0, 2], [2, 0], [0, 1], [1, 1]])
K = X @ torch.tensor([[1.0, 0], [0, 0]])
V = X @ torch.tensor([[0.0, 0], [0, 1]])
S = X @ K.T
A = S.softmax(-1)


def message(answers: Any, exercise: str = "four-tokens", **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_working(exercise, answers, **options)
    return str(caught.value)


def test_tensors_arrays_lists_and_documents() -> None:
    assert_working("four-tokens", {"Q": X, "K": K, "V": V, "S": S, "A": A, "O": A @ V}, require=["A", "O"])
    assert_working("four-tokens", {"A": A.double().numpy()})
    assert_working("four-tokens", {"A": A[None]})
    assert_working("four-tokens", {"A": [list(row) for row in A.numpy().round(3)]}, decimals=3)
    assert_working("four-tokens", {"S": [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]]})
    assert_working("four-tokens", "Q = [[1, 2], [2, 0], [0, 1], [1, 1]]")
    assert_working("four-tokens", ROOT / "examples" / "submissions" / "01.md")


@pytest.mark.parametrize("name", library.names())
def test_every_step_of_every_exercise_in_floats(name: str) -> None:
    """numpy's floats of the exact values are right, masked scores and large exponentials included."""
    solution = solve(name)
    values = solution.to_json()["values"]
    for kind in (np.float64, np.float32):
        assert_working(name, {step.symbol: np.array(values[step.symbol], kind) for step in solution.steps})


def test_heads_in_one_tensor() -> None:
    values = solve("two-heads").to_json()["values"]
    heads = torch.tensor([values["A1"], values["A2"]])
    assert_working("two-heads", {"A": heads}, require="A")
    assert "heads concatenated in the wrong order" not in message({"A": heads.flip(0)}, "two-heads")
    assert "A has 3 axes" in message({"A": torch.stack([A, A, A])})


def test_the_mistake_is_named() -> None:
    said = message({"A": S.softmax(0)})
    assert said.startswith("A: softargmax over the wrong axis.")
    assert "A[1,2] is 0.1050, 0.5344 is right." in said
    assert message({"S": [[78, 71], [73, 68]]}, "root-three").startswith("S: no √d_k.")
    assert "10 numbers are wrong in all." in said


def test_numbers_that_follow_are_right() -> None:
    """Only the step with the mistake is complained about."""
    wrong = S.softmax(0)
    assert "O" not in message({"A": wrong, "O": wrong @ V}).replace("Of", "")


def test_an_error_of_one_unit_in_the_last_decimal_is_accepted_and_a_larger_one_is_not() -> None:
    off = A.double().clone()
    off[0, 0] = 0.19661193 + 0.00009
    assert_working("four-tokens", {"A": off})
    off[0, 0] = 0.19661193 + 0.00019
    assert "A[1,1] is 0.1968, 0.1966 is right." in message({"A": off})
    assert_working("four-tokens", {"A": off}, decimals=3)
    assert "is right" in message({"A": [["0.1967", *["0"] * 3], *[[None] * 4] * 3]})


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "there are no answers"),
        ({"A": A * float("nan")}, "A contains NaN"),
        ({"A": A[:2]}, "A is 4×4 in this exercise, but 2×4 is written"),
        ({"banana": [[1, 2, 3]]}, "banana"),
        ("I was ill.", "contains no mathematics"),
        (Path("none.md"), "none.md"),
    ],
)
def test_invalid_answers_fail(answers: Any, said: str) -> None:
    assert said in message(answers)


def test_required_steps() -> None:
    said = message({"A": A}, require=("O", "A", "Q"))
    assert said == "O is required and was not found.\nQ is required and was not found."


def test_invalid_arguments_are_input_errors() -> None:
    for options in ({"require": "B"}, {"decimals": -1}):
        with pytest.raises(InputError):
            assert_working("four-tokens", {"A": A}, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        assert_working("no-such-exercise", {"A": A})


def test_the_plugin_fails_with_the_mistake_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from glassformer.testing import assert_working as imported

        S = [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]]

        def test_right(assert_working):
            assert_working("four-tokens", {"S": S})

        def test_wrong(assert_working):
            assert_working("root-three", {"S": [[78, 71], [73, 68]]})

        def test_imported():
            imported("root-three", {"S": [[78, 71], [73, 68]]})
    """)
    installed = any(point.name == "glassformer" for point in entry_points(group="pytest11"))
    done = pytester.runpytest_inprocess(*([] if installed else ["-p", "glassformer.pytest_plugin"]))
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(["E *AssertionError: S: no √d_k.*"] * 2)
    done.stdout.no_fnmatch_line("*glassformer/testing.py:*")  # the traceback ends in the test


def test_the_plugin_is_an_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"glassformer": "glassformer.pytest_plugin"}
