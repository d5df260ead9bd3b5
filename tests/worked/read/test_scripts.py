"""Indices, powers, transposes, primes, sizes."""

from __future__ import annotations

import pytest

from glassformer.worked.read.chain import formula
from glassformer.worked.read.term import Call, Matrix, Name, Power, Struck, Term, Transpose


def read(source: str) -> Term:
    found = formula(source)
    assert not found.problems, found.problems
    return found.drafts[0].terms[0].term


@pytest.mark.parametrize(
    ("source", "indices", "upper"),
    [
        ("w_{1,2}", (1, 2), ()),
        ("w_{12}", (12,), ()),
        ("w_{1j}", (1, "j"), ()),
        ("w_{ij}", ("i", "j"), ()),
        ("w_{3,j}", (3, "j"), ()),
        ("W_{Q_1}", ("Q", 1), ()),
        ("W_{Q,1}", ("Q", 1), ()),
        ("W_Q^{(1)}", ("Q",), (1,)),
        ("W^Q_1", (1,), ("Q",)),
        ("Q^{(2)}", (), (2,)),
        (r"d_{\text{model}}", ("model",), ()),
        ("x_{i+1}", ("i+1",), ()),
        ("Q1", (1,), ()),
        ("q₁", (1,), ()),
    ],
)
def test_indices(source: str, indices: tuple[object, ...], upper: tuple[object, ...]) -> None:
    term = read(source)
    assert isinstance(term, Name)
    assert (term.indices, term.upper) == (indices, upper)


SCRIPTS = ("^T", r"^\top", r"^{\top}", "^{T}", r"^\intercal", "ᵀ", r"^{\mathsf{T}}", r"^\text{T}")


@pytest.mark.parametrize("script", SCRIPTS)
def test_transposes(script: str) -> None:
    assert read("K" + script) == Transpose(Name("K"))
    assert isinstance(read(r"\begin{bmatrix}1 & 2\end{bmatrix}" + script), Transpose)


def test_primes() -> None:
    assert read("X'") == Name("X", primes=1)
    assert isinstance(read("[1, 2]'"), Transpose)


def test_powers_of_names_are_powers() -> None:
    assert isinstance(read("D^2"), Power)
    assert read("d_k^2") == Power(Name("d", ("k",)), read("2"))
    assert read("d^2_k") == read("d_k^2")


@pytest.mark.parametrize("size", [r"_{(2 \times 3)}", r"_{2 \times 3}", "_{2×3}", " (2 × 3)", "_{(2,3)}"])
def test_sizes_noted_at_a_matrix(size: str) -> None:
    term = read(r"\begin{bmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \end{bmatrix}" + size)
    assert isinstance(term, Matrix)
    assert term.size == (2, 3)


def test_a_struck_matrix_keeps_its_size() -> None:
    term = read(r"\cancel{\begin{bmatrix} 4 & 4 & 3 \end{bmatrix}}_{(1 \times 3)}")
    assert isinstance(term, Struck)
    assert term.term.size == (1, 3)  # type: ignore[union-attr]


def test_a_cell_of_an_expression() -> None:
    assert read("(QK^T)_{1,2}") == Call("entry", (read("QK^T"),), "1,2")


def test_what_underbrace_says_is_left_out() -> None:
    assert read(r"\underbrace{1 + 2}_{\text{the sum}}") == read("1 + 2")
