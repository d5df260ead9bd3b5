"""One label for every way of writing a thing."""

from __future__ import annotations

import pytest

from glassformer.worked.read.chain import formula
from glassformer.worked.read.label import label


def label_of(source: str) -> str:
    return label(formula(source).drafts[0].terms[0].term)


@pytest.mark.parametrize(
    ("expected", "ways"),
    [
        ("QK^T", [r"Q K^{\top}", r"Q \cdot K^\top", "QKᵀ", r"\mathbf{Q}\mathbf{K}^{\mathsf T}", "QK'", "Q·K^T"]),
        ("w_{1,2}", [r"w_{1,2}", r"w_{1, 2}", "w_{1,2}", r"\mathbf{w}_{1,2}"]),
        ("W_Q", ["W_Q", r"\mathbf{W}_{Q}", "WQ", r"W_{\text{Q}}"]),
        ("W_1^Q", ["W_1^Q", "W^Q_1", "W_{1}^{Q}"]),
        ("Ω_2", [r"\Omega_2", "Ω₂", r"\Omega_{2}"]),
        ("out_1", ["out_1", r"\text{out}_1", r"\mathrm{out}_{1}"]),
        ("QK^T/√(d_k)", [r"\frac{QK^T}{\sqrt{d_k}}", r"QK^T/\sqrt{d_k}", "QKᵀ/√dₖ", "QK^T / sqrt(dk)"]),
        ("softmax(S)", [r"\text{softmax}(S)", r"\operatorname{softmax}\left(S\right)", r"\mathrm{softargmax}(S)"]),
        ("[1, 2; 3, 4]", [r"\begin{bmatrix}1&2\\3&4\end{bmatrix}", "[[1, 2], [3, 4]]", "[1 2; 3 4]", "[1, 2; 3, 4]"]),
    ],
)
def test_one_label(expected: str, ways: list[str]) -> None:
    assert {way: label_of(way) for way in ways} == dict.fromkeys(ways, expected)


def test_labels_keep_structure() -> None:
    assert label_of("(1 + 2) / (3 * 4)") == "(1 + 2)/(3·4)"
    assert label_of("-(1 + 2)^2") == "-(1 + 2)^2"
    assert label_of("1 - (2 - 3)") == "1 - (2 - 3)"
    assert label_of("X'") == "X'"  # alone it may be another X; in a product it is a transpose
    assert label_of("(QK^T)_{1,2}") == "(QK^T)_{1,2}"
