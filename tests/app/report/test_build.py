from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import torch

from glassformer import lens
from glassformer.app.report import build, report

EVERYWHERE = ["Attention", "Heads", "Entropy", "Map of heads", "Margins", "One query", "Trace"]
OF_KIND = {
    "decoder": ["Answer", "Who attends to whom", "Flow"],
    "encoder": ["Who attends to whom", "Flow"],
    "seq2seq": ["Answer", "Alignment", "Who attends to whom", "Flow"],
    "vit": ["Answer", "Where it looks"],
    "hybrid": ["Answer", "Where it looks"],
    "speech": ["Answer", "Sound", "Flow"],
    "whisper": ["Answer", "Alignment", "Sound", "Who attends to whom", "Flow"],
}
# of what each tower has, and of what a recurrent model has
TOWERS = [f"Image: {name}" for name in [*EVERYWHERE, "Where it looks"]]
TOWERS += [f"Text: {name}" for name in [*EVERYWHERE, "Who attends to whom", "Flow"]]
ALONE = {"clip": ["Model", "Answer", *TOWERS], "recurrent": ["Model", "Answer", "Alignment", "Trace"]}


class Page(HTMLParser):
    """Headings, links and what would be fetched; every tag that opens must close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.sources: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        self.ids |= {found["id"] or ""} if "id" in found else set()
        self.links |= {found["href"] or ""} if "href" in found else set()
        self.sources += [found["src"] or ""] if "src" in found else []
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", [*OF_KIND, *ALONE])
def test_the_page_stands_alone(shown, kind: str) -> None:
    model, seen, _, _ = shown(kind)
    steps: list[str] = []
    text = report(model, seen, note="random", step=steps.append)
    page = Page()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert page.links == {f"#{name}" for name in page.ids}
    headings = re.findall(r"<h2[^>]*>([^<]*)<", text)
    expected = ALONE[kind] if kind in ALONE else ["Model", *EVERYWHERE, *OF_KIND[kind]]
    assert sorted(headings) == sorted(expected)
    assert "trace" in steps
    assert len(text) < 1_000_000


def test_of_a_long_text_only_what_is_drawn_is_kept(shown, monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen, run, _ = shown("decoder")
    assert build.watched(seen) == []
    monkeypatch.setattr(build, "WHOLE", 4)
    with torch.no_grad(), lens.trace(model, *build.watched(seen)) as less:
        model(*seen.inputs)
    assert len(less) == 6 < len(run)
    assert build.closer.closer(less, seen) == build.closer.closer(run, seen)  # and it is enough
