from __future__ import annotations

import io
import json

from rich.console import Console

from glassformer.lens.head_null import Score
from glassformer.lens.headtable import HeadRow, HeadTable, choose, clear

GROUPS = [["self", "previous"], ["local 3"], ["diffuse"]]


def sure(excess: float) -> Score:
    return Score(excess, 0.0, excess / 10 + 1e-9, 100)


def test_clear_needs_size_and_certainty() -> None:
    assert clear(sure(0.9))
    assert not clear(sure(0.2))  # certain, but small
    assert not clear(Score(0.9, 0.0, 0.5, 2))  # large, but by luck
    assert not clear(None)


def test_the_plain_wins_where_it_says_nearly_all() -> None:
    assert choose({"previous": sure(0.8), "local 3": sure(0.95)}, GROUPS) == "previous"
    assert choose({"previous": sure(0.5), "local 3": sure(0.95)}, GROUPS) == "local 3"
    assert choose({"self": sure(0.7), "previous": sure(0.8)}, GROUPS) == "previous"
    assert choose({"diffuse": sure(0.8)}, GROUPS) == "diffuse"
    assert choose({"self": sure(0.1)}, GROUPS) == ""
    assert choose({}, GROUPS) == ""


def table() -> HeadTable:
    rows = [
        HeadRow(
            path="decoder.0.attention.A",
            layer=0,
            head=h,
            labels=(does,) if does else (),
            behind=does,
            scores=scores,
            kernel={-1: 0.5},
        )
        for h, (does, scores) in enumerate([("previous", {"previous": sure(0.9)}), ("", {"self": sure(0.1)})])
    ]
    return HeadTable(rows=rows, columns=["self", "previous"], points=["self", "previous"])


def test_a_table_is_data_and_prints_itself() -> None:
    made = table()
    assert [row.head for row in made.find("previous")] == [0]
    assert made.at("decoder.0.attention.A", 1).score is None
    assert made.at("decoder.0.attention.A", 0).score == sure(0.9)
    assert made.matrix("previous")[0][0] == 0.9
    assert made.matrix("previous")[0][1] != made.matrix("previous")[0][1]  # NaN: not measured
    assert json.loads(json.dumps(made.records()))[0]["scores"]["previous"]["excess"] == 0.9
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(made)
    text = console.export_text()
    assert "decoder.0.attention" in text
    assert "previous 0.90" in text
    assert "<td>previous</td>" in made._repr_html_()
    assert len(made) == len(list(made)) == 2
