from __future__ import annotations

from collections.abc import Callable

import pytest

from glassformer.errors import InputError
from glassformer.worked import library
from glassformer.worked.render import render
from glassformer.worked.solve import solve


@pytest.mark.golden
@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
@pytest.mark.parametrize("name", ["four-tokens", "columns", "two-heads", "transport"])
def test_pages_are_as_they_were(name: str, form: str, golden: Callable[[str, str], None]) -> None:
    ending = {"text": "txt", "markdown": "md", "latex": "tex", "html": "html"}[form]
    golden(f"solve/{name}.{ending}", render(solve(library.get(name)), form))


def test_one_step_alone() -> None:
    assert render(solve(library.get("four-tokens")), only="A").startswith("Weights")
    both = render(solve(library.get("two-heads")), only="A")
    assert "A1 =" in both
    assert "A2 =" in both
    assert "A2 =" not in render(solve(library.get("two-heads")), only="A1")


def test_digits() -> None:
    assert "0.196612" in render(solve(library.get("four-tokens")), only="A", digits=6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"form": "word"}, "there is no format 'word': choose one of text, markdown, latex, html, json"),
        ({"only": "B"}, "this exercise has no step 'B': choose one of Q, K, V, S, E, Z, A, H, O"),
        ({"digits": 0}, "0 digits after the point: choose 1 to 50"),
    ],
)
def test_mistakes(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as error:
        render(solve(library.get("four-tokens")), **options)  # type: ignore[arg-type]
    assert str(error.value) == says


def test_a_page_needs_nothing_from_outside() -> None:
    page = render(solve(library.get("block")), "html")
    assert "<script" not in page
    assert "http" not in page
