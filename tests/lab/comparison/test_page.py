from __future__ import annotations

from glassformer.lab.comparison.page import circumstances, report
from glassformer.lab.comparison.results import Results


def test_the_page_stands_alone(results: Results) -> None:
    text = report(results)
    assert text.count("data:image/png;base64,") == 6
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "Longer than trained" in text


def test_circumstances(results: Results) -> None:
    told = dict(circumstances(results))
    assert told["command"] == "glassformer compare"
    assert told["seeds"] == "0, 1"
    assert "of them on a core" in told["took"]
