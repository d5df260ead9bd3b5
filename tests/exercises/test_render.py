"""A solution shown as text, Markdown, LaTeX, HTML and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.solution import FORMATS, render, solve


@pytest.mark.golden
@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
@pytest.mark.parametrize("name", ["four-tokens", "columns", "two-heads", "transport"])
def test_pages_are_as_they_were(name: str, form: str, golden: Callable[[str, str], None]) -> None:
    ending = {"text": "txt", "markdown": "md", "latex": "tex", "html": "html"}[form]
    golden(f"solve/{name}.{ending}", render(solve(name), form))


def test_one_step_alone() -> None:
    assert render(solve("four-tokens"), only="A").startswith("Weights")
    both = render(solve("two-heads"), only="A")
    assert "A1 =" in both
    assert "A2 =" in both
    assert "A2 =" not in render(solve("two-heads"), only="A1")


def test_digits() -> None:
    assert "0.196612" in render(solve("four-tokens"), only="A", digits=6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"form": "word"}, "there is no format 'word': choose one of text, markdown, latex, html, json"),
        ({"only": "B"}, "this exercise has no step 'B': choose one of Q, K, V, S, E, Z, A, H, O"),
        ({"digits": 0}, "digits must be between 1 and 50, got 0: choose 1 to 50"),
    ],
)
def test_mistakes(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as error:
        render(solve("four-tokens"), **options)  # type: ignore[arg-type]
    assert str(error.value) == says


def test_a_page_needs_nothing_from_outside() -> None:
    page = render(solve("block"), "html")
    assert "<script" not in page
    assert "http" not in page


def test_json_is_what_to_json_gives() -> None:
    solution = solve("four-tokens")
    assert json.loads(render(solution, "json")) == json.loads(json.dumps(solution.to_json()))
    assert [step["symbol"] for step in json.loads(render(solution, "json", only="A"))["steps"]] == ["A"]


def test_a_name_a_path_and_an_exercise_are_solved_alike(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(library.text("four-tokens"), encoding="utf-8")
    one, two, three = gf.solve("four-tokens"), solve(str(path)), solve(library.get("four-tokens"))
    assert one.values == two.values == three.values
    with pytest.raises(InputError, match="no-such"):
        solve("no-such")


def test_a_solution_shows_itself(tmp_path: Path) -> None:
    solution = solve("four-tokens")
    assert str(solution) == render(solution)
    shown = solution._repr_html_()
    assert "<math" in shown
    assert "<html" not in shown
    for suffix, form in zip((".txt", ".md", ".tex", ".html", ".json"), FORMATS, strict=True):
        assert solution.save(tmp_path / f"solution{suffix}").read_text(encoding="utf-8") == render(solution, form)
    with pytest.raises(InputError, match=r"end its name in one of \.txt"):
        solution.save(tmp_path / "solution.docx")
