from __future__ import annotations

import pytest

from glassformer.worked.build import build
from glassformer.worked.problem import from_data

EYE = [[1, 0], [0, 1]]
HEAD = {"WQ": EYE, "WK": EYE, "WV": EYE}
BASE = {"X": [[1, 2], [3, 4]], "heads": [HEAD]}
AFTER_S = ("E", "Z", "A", "H", "O")


@pytest.mark.parametrize(
    ("extra", "symbols"),
    [
        ({"scale": "none"}, ("Q", "K", "V", "S", *AFTER_S)),
        ({}, ("Q", "K", "V", "QKt", "S", *AFTER_S)),
        ({"scale": "none", "mask": "causal"}, ("Q", "K", "V", "QKt", "S", *AFTER_S)),
        ({"mask": "causal"}, ("Q", "K", "V", "QKt", "Su", "S", *AFTER_S)),
        ({"layout": "columns"}, ("Q", "K", "V", "KtQ", "S", *AFTER_S)),
        ({"positions": "sinusoidal", "scale": 1}, ("PE", "X", "Q", "K", "V", "S", *AFTER_S)),
        ({"scale": 1, "residual": True, "layernorm": True}, ("Q", "K", "V", "S", *AFTER_S, "R", "mu", "var", "N")),
        (
            {"scale": 1, "ffn": {"W1": EYE, "W2": EYE}, "residual": True, "layernorm": {"gamma": [1, 2]}},
            ("Q", "K", "V", "S", *AFTER_S, "R", "mu", "var", "N", "L", "F1", "G", "F", "RF", "muF", "varF", "NF", "LF"),
        ),
    ],
)
def test_symbols(extra: dict[str, object], symbols: tuple[str, ...]) -> None:
    assert build(from_data({**BASE, **extra})).symbols == symbols


def test_several_heads_are_numbered() -> None:
    made = build(from_data({**BASE, "heads": [HEAD, HEAD], "WO": [[1]] * 4, "scale": "none"}))
    heads = [f"{s}{i}" for i in (1, 2) for s in ("Q", "K", "V", "S", "E", "Z", "A", "H")]
    assert made.symbols == (*heads, "C", "O")
    assert made["C"].operands == ("H1", "H2")
    assert set(made.given) == {"X", "WO", *(f"W{s}{i}" for s in "QKV" for i in (1, 2))}


def test_memory_feeds_keys_and_values() -> None:
    made = build(from_data({**BASE, "memory": [[1, 1]]}))
    assert (made["Q"].inputs[0], made["K"].inputs[0], made["V"].inputs[0]) == ("X", "Y", "Y")


def test_columns_multiply_from_the_left() -> None:
    made = build(from_data({**BASE, "layout": "columns", "WO": EYE}))
    assert made["Q"].operands == ("WQ", "X")
    assert made["KtQ"].operands == ("K^T", "Q")
    assert made["H"].operands == ("V", "A")
    assert made["O"].operands == ("WO", "H")
    assert made["Z"].params == {"axis": "columns"}


def test_head_widths_scale_each_head() -> None:
    wide = {"WQ": [[1, 0, 1]] * 2, "WK": [[1, 0, 1]] * 2, "WV": EYE}
    made = build(from_data({**BASE, "heads": [HEAD, wide]}))
    assert made["S1"].params["factor"] ** -2 == 2
    assert made["S2"].params["factor"] ** -2 == 3
