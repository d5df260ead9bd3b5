"""The JSON of a report, as an autograder meets it."""

from __future__ import annotations

import json

from glassformer.worked import library
from glassformer.worked.check import check
from glassformer.worked.read import read


def test_the_keys_and_verdicts() -> None:
    text = "$$q_1 = (1, 3)$$ $$w_{1,1} = 0.1967$$ $$out_1 = (0, 0.6624)$$ $$foo = 3$$"
    data = json.loads(json.dumps(check(library.get("four-tokens"), read(text)).to_json()))
    assert {"score", "cells", "slips", "unread"} <= set(data)
    first = data["cells"][0]
    assert {"symbol", "row", "column", "given", "expected", "verdict"} <= set(first)
    assert (first["symbol"], first["row"], first["column"], first["given"]) == ("Q", 1, 1, "1")
    by_place = {(c["symbol"], c["row"], c["column"]): c for c in data["cells"]}
    assert by_place["Q", 1, 2] == {
        "symbol": "Q", "row": 1, "column": 2, "given": "3", "expected": "2", "verdict": "wrong", "line": 1,
    }  # fmt: skip
    assert by_place["A", 1, 1]["verdict"] == "rounded"
    assert by_place["A", 1, 1]["expected"] == "0.1966"
    assert by_place["O", 4, 1] | {"line": None} == {
        "symbol": "O", "row": 4, "column": 1, "given": None, "expected": "0", "verdict": "missing", "line": None,
    }  # fmt: skip
    assert {"name", "where", "why"} <= set(data["slips"][0])
    assert data["unread"][0] == {"line": 1, "source": "foo = 3", "reason": "no step of this exercise is called foo"}
    assert 0 < data["score"] < 1


def test_counts() -> None:
    report = check(library.get("four-tokens"), read("$$out_3 = (0, 1)$$"))
    assert report.count()["right"] == 2
    assert report.symbols()[-1] == "O"
