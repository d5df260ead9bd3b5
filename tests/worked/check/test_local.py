"""Slips in a few cells, with what went wrong where a sum of products tells."""

from __future__ import annotations

import pytest

from glassformer.worked.check import Report, check
from glassformer.worked.problem import from_data
from glassformer.worked.read import read

EXERCISE = {
    "X": [[1, -2], [3, 4], [5, 7]],
    "heads": [{"WQ": [[2, 3], [-1, 4]], "WK": [[1, 0], [0, 1]], "WV": [[1, 1], [0, 1]]}],
    "scale": "none",
}
# Q = [[4, -5], [2, 25], [3, 43]]


def marked(Q: str) -> Report:
    return check(from_data(EXERCISE), read(f"Q: {Q}", "a.yaml"))


@pytest.mark.parametrize(
    ("Q", "name", "where", "why"),
    [
        ("[[2, 25], [4, -5], [3, 43]]", "two rows swapped", "rows 1 and 2 of Q", "Rows 1 and 2 of Q"),
        ("[[-5, 4], [25, 2], [43, 3]]", "two columns swapped", "columns 1 and 2 of Q", "have changed places"),
        ("[[4, 5], [2, 25], [3, 43]]", "a sign dropped", "Q[1,2]", "the number is right, its sign is not"),
        ("[[0, -5], [10, 25], [17, 43]]", "a sign dropped", "WQ[2,1] in Q", "if WQ[2,1] is 1 where it is -1"),
        ("[[4, -5], [2, 16], [3, 43]]", "one arithmetic slip in one cell", "Q[2,2]", "the product 3·3 is left out"),
        ("[[4, -5], [2, 34], [3, 43]]", "one arithmetic slip in one cell", "Q[2,2]", "3·3 is counted twice"),
        ("[[4, -5], [2, 22], [3, 43]]", "one arithmetic slip in one cell", "Q[2,2]", "3 and 3 are added"),
        ("[[4, -5], [10, 25], [3, 43]]", "a sign dropped", "Q[2,1]", "the product 4·-1 has the wrong sign"),
        ("[[4, -5], [2, 99], [3, 43]]", "one arithmetic slip in one cell", "Q[2,2]", "should be 25"),
    ],
)
def test_slips_in_cells(Q: str, name: str, where: str, why: str) -> None:
    (slip,) = marked(Q).slips
    assert slip.name == name
    assert slip.where == where
    assert why in slip.why


def test_two_slips_in_two_cells() -> None:
    slips = marked("[[4, -5], [2, 16], [9, 43]]").slips
    assert [slip.where for slip in slips] == ["Q[2,2]", "Q[3,1]"]


def test_too_many_are_not_given_a_name() -> None:
    report = marked("[[9, 8], [7, 6], [5, 4]]")
    assert report.count()["wrong"] == 6
    assert report.slips == ()
