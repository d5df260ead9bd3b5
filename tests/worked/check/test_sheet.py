"""What is written twice, and which of it counts."""

from __future__ import annotations

from glassformer.worked import library
from glassformer.worked.check.place import place
from glassformer.worked.check.sheet import balls
from glassformer.worked.plan import plan
from glassformer.worked.read import read

LINES = "$$Q = \\begin{{bmatrix}} 1 & 2 \\\\ 2 & {} \\\\ 0 & 1 \\\\ 1 & 1 \\end{{bmatrix}}$$\n\n"


def test_the_last_one_counts_and_it_is_said() -> None:
    sheet = place(plan(library.get("four-tokens")), read((LINES + "again" + LINES).format(5, 0)))
    assert sheet.own()["Q"][1, 1].text == "0"
    assert any("Q is written again" in note.assumption and "[2,2] 5" in note.assumption for note in sheet.notes)


def test_the_same_to_fewer_digits_is_no_contradiction() -> None:
    sheet = place(plan(library.get("four-tokens")), read("$w_{1,1} = 0.1966$ so $w_{1,1} = 0.20$"))
    assert not [note for note in sheet.notes if "again" in note.assumption]
    assert sheet.own()["A"][0, 0].text == "0.1966"
    sheet = place(plan(library.get("four-tokens")), read("$w_{1,1} = 0.20$ so $w_{1,1} = 0.1966$"))
    assert sheet.own()["A"][0, 0].text == "0.1966"


def test_open_cells_stay_open() -> None:
    sheet = place(plan(library.get("four-tokens")), read("$w_{1,1} = 0.1966$"))
    values = balls(sheet.own()["A"], (4, 4))
    assert values[0, 0] is not None
    assert values[3, 3] is None
