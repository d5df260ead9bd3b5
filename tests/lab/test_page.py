from __future__ import annotations

from html.parser import HTMLParser

from glassformer.lab.experiment import run
from glassformer.lab.page import flat, report


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_stands_alone() -> None:
    outcomes = [run(7, keep=False, queries=20), run(8, keep=False)]
    text = report(outcomes)
    tags = Tags()
    tags.feed(text)
    names = [tag for tag, _ in tags.found]
    assert names.count("math") >= 2  # a formula of several parts breaks between them
    assert "script" not in names
    images = [attributes["src"] for tag, attributes in tags.found if tag == "img"]
    assert len(images) == 2
    assert all(src is not None and src.startswith("data:image/png;base64,") for src in images)
    for outcome in outcomes:
        assert outcome.verdict.rule.replace(">", "&gt;") in text
        assert outcome.command in text
    assert "A doubled key that loses weight" in text


def test_long_lists_are_cut_and_exercises_left_out() -> None:
    rows = dict(flat({"a": [1.0] * 20, "b": {"c": 2}, "counterexample": {}}, most=2))
    assert rows == {"a": "[1, 1, …]", "b: c": "2"}
