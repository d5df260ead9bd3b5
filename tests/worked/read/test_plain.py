"""Mathematics in prose: what is a formula, what a number, what only words."""

from __future__ import annotations

import pytest

from glassformer.worked.read.plain import scan


def found(text: str, *, code: bool = False) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in scan(text, 1, code=code) if event.kind != "words"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So Q = [[1, 2], [3, 4]] and K = [5].", [("formula", "Q = [[1, 2], [3, 4]]"), ("formula", "K = [5]")]),
        ("The total is 14 x 14 = 196. We go on.", [("formula", "14 x 14 = 196")]),
        ("If we sum them we get circa 13.8256.", [("number", "13.8256")]),
        ("The weights are 0.1966, 0.5344, 0.0723.", [("number", "[0.1966, 0.5344, 0.0723]")]),
        ("Q: [[1, 2], [3, 4]]", [("formula", "Q: [[1, 2], [3, 4]]")]),
        ("For row 1: [0.5, 0.5]", [("formula", "[0.5, 0.5]")]),
        ("**Q** = [1, 2] and *K* = [3, 4]", [("formula", "Q = [1, 2]"), ("formula", "K = [3, 4]")]),
        ("The sum is 14.", [("number", "14")]),
        ("- w_12 = e^2/13.8256 = 0.5343", [("formula", "w_12 = e^2/13.8256 = 0.5343")]),
        ("1. S11 = 1*2 + 2*1 = 4", [("formula", "S11 = 1*2 + 2*1 = 4")]),
        ("Sum = 13.8256", [("formula", "Sum = 13.8256")]),
        ("the exponentials are [e, e^2, 1, e] here", [("formula", "[e, e^2, 1, e]")]),
        ("softmax([1, 2]) = [0.27, 0.73]", [("formula", "softmax([1, 2]) = [0.27, 0.73]")]),
        ("Q =\n1 2\n3 4", [("formula", "Q = [1 2; 3 4]")]),
        ("1 2\n3 4\nend", [("formula", "[1 2; 3 4]")]),
        ("Q = [[1, 2],\n     [3, 4]]", [("formula", "Q = [[1, 2],\n     [3, 4]]")]),
        (r"so 0.5 \cdot 2 = 1", [("formula", r"0.5 \cdot 2 = 1")]),
        ("an image of 224x224 and a patch size of 16x16", []),
        ("We have 3 tokens and 2 heads.", []),
        ("See section 3.2 and Table 1.5.", []),
        ("On 2024-05-12 at 10:30 it was the 2nd time.", []),
        ("and/or self-attention, e.g. (see above) - fine", []),
        ("https://example.org/a=1?b=2.5", []),
    ],
)
def test_scan(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


def test_code_is_read_line_by_line() -> None:
    code = "import numpy as np\nQ = np.array([[1, 2]])\nA = softmax(Q @ K.T / np.sqrt(2))  # weights\nprint(Q)"
    assert found(code, code=True) == [("formula", "Q = ([[1, 2]])"), ("formula", "A = softmax(Q @ K^T / sqrt(2))")]


def test_lines_are_counted() -> None:
    events = [event for event in scan("one\n\na = 1\nb = 2", 5) if event.kind == "formula"]
    assert [event.line for event in events] == [7, 8]


def test_endless_lines_are_told() -> None:
    assert found("1 " * 20_000)[0][0] == "long"


def test_words_come_before_their_formula() -> None:
    events = [(event.kind, event.text.strip()) for event in scan("For row 2 we get x = 3", 1)]
    assert events == [("words", "For row 2"), ("words", "we get"), ("formula", "x = 3")]
