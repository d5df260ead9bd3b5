"""Text, Markdown and HTML of a report."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from glassformer.errors import InputError
from glassformer.worked import library
from glassformer.worked.check import check, show
from glassformer.worked.read import read, read_file

SAMPLES = Path(__file__).parent.parent / "samples"


@pytest.mark.golden
@pytest.mark.parametrize("name", ["four-tokens", "two-heads"])
@pytest.mark.parametrize(("form", "suffix"), [("text", "txt"), ("markdown", "md")])
def test_real_homework(golden, name: str, form: str, suffix: str) -> None:  # type: ignore[no-untyped-def]
    golden(f"check/{name}.{suffix}", show(check(library.get(name), read_file(SAMPLES / f"{name}.md")), form))


def test_marks_stand_in_the_matrices() -> None:
    text = show(
        check(library.get("four-tokens"), read("$$w_{1,1} = 0.1967$$ $$q_1 = (1, 3)$$ $$out_1 = (0, 0.6622)$$"))
    )
    assert "0.1967~" in text
    assert "⎡1  3✗⎤" in text
    assert max(map(len, text.splitlines())) <= 110


def test_html_is_well_formed_escaped_and_fetches_nothing() -> None:
    page = show(check(library.get("four-tokens"), read("$$q_1 = (1, 3)$$ and $$<script>x = 2$$")), "html")
    body = page[page.index("<body>") : page.index("</body>") + 7].replace("<table class=legend>", "<table>")
    for unquoted in ("class=line", "class=step"):
        body = body.replace(unquoted, f'class="{unquoted[6:]}"')
    ElementTree.fromstring(body)
    assert "<script" not in page
    assert "http" not in page
    assert '<td class="wrong">3✗' in page


def test_json_and_unknown_formats() -> None:
    report = check(library.get("four-tokens"), read("$$q_1 = (1, 3)$$"))
    assert json.loads(show(report, "json"))["cells"]
    with pytest.raises(InputError, match="there is no format 'pdf'"):
        show(report, "pdf")


def test_a_learners_own_markup_stays_text_in_markdown() -> None:
    text = show(check(library.get("four-tokens"), read("$$foo_{1} = 3$$ $$q_1 = (1, 2)$$")), "markdown")
    assert "foo\\_\\{1\\}" in text
