"""Documents in which every matrix is transposed."""

from __future__ import annotations

from glassformer.worked import library
from glassformer.worked.check import check
from glassformer.worked.read import read

Q = r"$$Q = \begin{bmatrix} 1 & 1 \\ 0 & 1 \\ 2 & 3 \end{bmatrix}$$"
V = r"$$V = \begin{bmatrix} 1 & 1 \\ 1 & -1 \\ 3 & 1 \end{bmatrix}$$"
A = r"$$A = \begin{bmatrix} 0.164 & 0.164 & 0.673 \\ 0.284 & 0.140 & 0.576 \\ 0.028 & 0.014 & 0.958 \end{bmatrix}$$"


def test_rows_for_columns_are_accepted_and_it_is_said() -> None:
    report = check(library.get("columns"), read(f"{Q}\n\n{V}\n\n{A}\n"))
    assert {cell.verdict for cell in report.cells if cell.given is not None} == {"right"}
    assert sum(cell.given is not None for cell in report.cells) == 21
    assert any("transposed" in note.assumption for note in report.notes)


def test_one_matrix_alone_is_not_enough() -> None:
    report = check(library.get("columns"), read(f"{A}\n"))
    assert any(cell.verdict == "wrong" for cell in report.cells)
    assert not any("transposed" in note.assumption for note in report.notes)
