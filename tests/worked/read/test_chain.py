"""Chains: where a statement begins and ends, what it is about."""

from __future__ import annotations

import pytest

from glassformer.worked.read.chain import formula
from glassformer.worked.read.label import label
from glassformer.worked.read.targets import settle

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
