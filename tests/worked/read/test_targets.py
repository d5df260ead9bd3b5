"""The target of a chain, wherever it stands."""

from __future__ import annotations

from glassformer.worked.read.chain import formula
from glassformer.worked.read.label import label
from glassformer.worked.read.targets import settle


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
