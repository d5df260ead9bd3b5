"""Targets and links say what they are about."""

from __future__ import annotations

import pytest

from glassformer.exercises.expression import Call, Name, Product, Struck, Transpose, number
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader.statements import Link, Statement, formula, settle, target_of


def test_targets() -> None:
    w = target_of(Name("w", (1, 2)))
    assert (w.name, w.indices, w.label, w.is_name) == ("w", (1, 2), "w_{1,2}", True)
    product = target_of(Product((Name("Q"), Transpose(Name("K")))))
    assert (product.name, product.indices, product.is_name) == ("QK^T", (), False)
    cell = target_of(Call("entry", (Product((Name("Q"), Transpose(Name("K")))),), "1,2"))
    assert (cell.name, cell.indices) == ("QK^T", (1, 2))


def test_two_digits_may_be_two_indices() -> None:
    assert target_of(Name("w", (12,))).digits == (1, 2)
    assert target_of(Name("w", (3, "j"))).digits == (3, "j")


def test_struck_is_seen_wherever_it_is() -> None:
    plain, struck = Link(1, "=", number("3")), Link(1, "=", Struck(number("4")))
    assert not Statement(1, "", None, (plain,)).struck
    assert Statement(1, "", None, (plain, struck)).struck
    assert Statement(1, "", None, (plain,), crossed=True).struck
    assert Statement(1, "", target_of(Struck(Name("Q"))), (plain,)).struck


def test_numeric_terms_are_those_without_names() -> None:
    links = (Link(1, "=", Name("X")), Link(1, "=", number("3")))
    assert Statement(1, "", None, links).numeric == links[1:]


def settled(source: str) -> list[tuple[str | None, list[str]]]:
    (draft,) = formula(source).drafts
    pairs = settle(draft.terms)
    return [(target.label if target else None, [label(link.term) for link in links]) for target, links in pairs]


def test_the_first_term_if_it_names_something() -> None:
    assert settled("w_1 = 1/2 = 0.5") == [("w_1", ["1/2", "0.5"])]
    assert settled("QK^T = 3") == [("QK^T", ["3"])]
    assert settled("1/2 = 0.5") == [(None, ["1/2", "0.5"])]


def test_a_single_name_later_on() -> None:
    assert settled("e/13.8256 = 0.1967 = w_{1,1}") == [("w_{1,1}", ["e/13.8256", "0.1967"])]
    assert settled("= w_1") == [(None, ["w_1"])]


def test_several_one_by_one() -> None:
    assert settled("(a, b) = (1, 2) = (3 - 2, 4/2)") == [("a", ["1", "3 - 2"]), ("b", ["2", "4/2"])]
    assert settled("(a, b) = (1, 2, 3)") == [("a, b", ["[1, 2, 3]"])]


def test_cells_as_programs_and_functions_write_them() -> None:
    for source in ("A[1,2] = 0.5", "A[1][2] = 0.5", "A_{1,2} = 0.5", "A(1,2) = 0.5"):
        (draft,) = formula(source).drafts
        ((target, _),) = settle(draft.terms)
        assert target is not None
        assert (target.name, target.indices) == ("A", (1, 2)), source


def test_one_term_alone_has_no_target() -> None:
    assert settled("Q_1") == [(None, ["Q_1"])]


Read = list[tuple[str | None, list[str]]]


def chains(source: str) -> Read:
    return [
        (target.label if target else None, [f"{link.relation}{label(link.term)}" for link in terms])
        for draft in formula(source).drafts
        for target, terms in settle(draft.terms)
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"w_{1,2} = e^2/13.8256 = 0.5343", [("w_{1,2}", ["=e^2/13.8256", "=0.5343"])]),
        (r"\frac{224}{16} = 14", [(None, ["224/16", "=14"])]),
        ("0.1967 = w_{1,1}", [("w_{1,1}", ["0.1967"])]),
        (r"(q_1, k_1) = (\begin{bmatrix} 1 \\ 2 \end{bmatrix}, 3)", [("q_1", ["=[1; 2]"]), ("k_1", ["=3"])]),
        ("Q: [[1, 2], [3, 4]]", [("Q", ["=[1, 2; 3, 4]"])]),
        (r"[2, 4] \xrightarrow{\text{softmax}} [0.12, 0.88]", [(None, ["[2, 4]", "→[0.12, 0.88]"])]),
        ("M = ((1, 2), (3, 4))", [("M", ["=[1, 2; 3, 4]"])]),
        ("q_1 = (1, 2)", [("q_1", ["=[1, 2]"])]),
        ("a = 1, b = 2", [("a", ["=1"]), ("b", ["=2"])]),
        (r"a = 1 \quad b = 2", [("a", ["=1"]), ("b", ["=2"])]),
        (r"a = \quad 1", [("a", ["=1"])]),
        ("a = 1; b = 2", [("a", ["=1"]), ("b", ["=2"])]),
        (r"a = 1 \text{ and } b = 2", [("a", ["=1"]), ("b", ["=2"])]),
        ("x = 1, 2, 3", [("x", ["=[1, 2, 3]"])]),
        (r"w_{3,j} = 0.25, \forall j", [("w_{3,j}", ["=0.25"]), (None, ["∀j"])]),
        (r"\Omega, K^T = [1, 2] = 3", [("Ω, K^T", ["=[1, 2]", "=3"])]),
        (r"a = 1 \Rightarrow b = 2", [("a", ["=1"]), ("b", ["=2"])]),
        (r"8 \cdot 14 - 11 \Rightarrow 71", [(None, ["8·14 - 11", "→71"])]),
        (r"\begin{align} Q &= X \\ &= [1, 2] \\ K &= 3 \end{align}", [("Q", ["=X", "=[1, 2]"]), ("K", ["=3"])]),
        (r"\begin{equation}\begin{aligned} a &= 1 \end{aligned}\end{equation}", [("a", ["=1"])]),
        (r"\boxed{x = 5}", [("x", ["=5"])]),
        (r"X \in \mathbb{R}^{2 \times 3}", [("X", ["∈R^{2·3}"])]),
        ("(QK^T)_{1,2} = 5", [("(QK^T)_{1,2}", ["=5"])]),
    ],
)
def test_chains(source: str, expected: Read) -> None:
    assert chains(source) == expected


def test_words_and_what_is_given() -> None:
    (draft,) = formula(r"i = 0 \text{ scores to } j \rightarrow [1 \cdot 1, 1 \cdot 2]").drafts
    assert draft.words == "scores to"
    assert [(name, label(value)) for name, value in draft.given] == [("i", "0")]
    assert draft.terms[1].relation == "→"


def test_crossed_out_chains() -> None:
    (draft,) = formula(r"\cancel{1 + 1 = 3}").drafts
    assert draft.crossed
    left, right = formula(r"\cancel{\begin{bmatrix} 78 \end{bmatrix}} = 78").drafts[0].terms
    assert (left.struck, right.struck) == (True, False)


def test_leading_and_dangling_relations() -> None:
    assert formula("= 3").drafts[0].leading
    assert formula("Q =").drafts[0].dangling == "="


def test_a_segment_that_is_not_read_leaves_the_chain() -> None:
    found = formula(r"Q = \foo \bar{} = [1, 2]")
    assert found.problems
    assert label(found.drafts[0].terms[-1].term) == "[1, 2]"


@pytest.mark.parametrize("source", [r"\cdot", r"^\top", "-", r"\times", r"\surd", ""])
def test_a_sign_alone_says_nothing(source: str) -> None:
    found = formula(source)
    assert not found.drafts
    assert not found.problems


def test_lines_within_a_formula() -> None:
    (draft,) = formula("a\n= 1\n= 2", line=7).drafts
    assert [link.line for link in draft.terms] == [7, 8, 9]


def test_endless_chains_and_problems_are_cut_short() -> None:
    assert "more than 200 terms" in formula("1=" * 300 + "1").problems[0][2]
    assert len(formula(r"\foo" * 500).problems) == 21
