"""S before it is scaled, and S after."""

from __future__ import annotations

from glassformer.worked import library
from glassformer.worked.check import Report, check
from glassformer.worked.read import read

S = r"$$S = \begin{bmatrix} 78 & 71 \\ 73 & 68 \end{bmatrix}$$"
RIGHT = r"$$A = \begin{bmatrix} 0.983 & 0.017 \\ 0.947 & 0.053 \end{bmatrix}$$"
WRONG = r"$$A = \begin{bmatrix} 0.9991 & 0.0009 \\ 0.9933 & 0.0067 \end{bmatrix}$$"


def marked(*parts: str) -> Report:
    return check(library.get("root-three"), read("\n\n".join(parts)))


def test_the_weights_show_that_it_was_scaled() -> None:
    report = marked(S, RIGHT)
    assert {c.symbol: c.verdict for c in report.cells if c.given} == {"QKt": "right", "A": "right"}
    assert any("was scaled or masked later" in note.assumption for note in report.notes)
    assert report.slips == ()


def test_the_weights_show_that_it_was_not() -> None:
    report = marked(S, WRONG)
    assert {c.symbol: c.verdict for c in report.cells if c.given} == {"S": "wrong", "A": "follows"}
    assert [slip.name for slip in report.slips] == ["no √d_k"]


def test_the_formula_says_which_it_is() -> None:
    report = marked(S.replace("S =", "S = QK^T ="), WRONG)
    assert {c.symbol: c.verdict for c in report.cells if c.given} == {"QKt": "right", "A": "wrong"}
    assert [(slip.name, slip.where) for slip in report.slips] == [("no √d_k", "A")]
