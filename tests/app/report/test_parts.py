from __future__ import annotations

import base64
import os
import re

import pytest

from glassformer.app.report import parts
from glassformer.figures import attention_map


def test_nothing_of_a_text_becomes_markup() -> None:
    hostile = '<script>alert("x")</script>'
    for made in (parts.table([hostile], [[hostile]]), parts.says(hostile), parts.folded(hostile, "")):
        assert "<script" not in made
        assert "&lt;script&gt;" in made


def test_a_picture_is_inside_the_page_and_says_what_it_is() -> None:
    made = parts.picture(attention_map([[1.0, 0.0], [0.5, 0.5]]), 'A of "one" head')
    assert 'alt="A of &quot;one&quot; head"' in made
    data = re.search(r"base64,([^\"]+)", made)
    assert data is not None
    assert base64.b64decode(data[1]).startswith(b"\x89PNG")


def test_contents_lead_to_sections() -> None:
    made = parts.section("Map of heads", "x")
    (target,) = re.findall(r'id="([^"]+)"', made)
    assert f'href="#{target}"' in parts.contents(["Map of heads"])
    assert parts.section("Empty", "", "") == ""


def test_pictures_drawn_apart_are_those_drawn_here(monkeypatch: pytest.MonkeyPatch) -> None:
    made = lambda: [(attention_map([[1 - k / 9, k / 9], [0.5, 0.5]]), f"number {k}") for k in range(5)]
    alone = [parts.picture(fig, says) for fig, says in made()]
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert parts.pictures(made()) == alone
    here, own = os.getpid(), parts.picture
    monkeypatch.setattr(parts, "picture", lambda *given: own(*given) if os.getpid() == here else 1 / 0)
    assert parts.pictures(made()) == alone  # the other process has failed
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert parts.pictures(made()) == alone
