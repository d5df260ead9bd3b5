"""Targets and links say what they are about."""

from __future__ import annotations

from glassformer.worked.read.statement import Link, Statement
from glassformer.worked.read.targets import target_of
from glassformer.worked.read.term import Call, Name, Product, Struck, Transpose, written


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
    plain, struck = Link(1, "=", written("3")), Link(1, "=", Struck(written("4")))
    assert not Statement(1, "", None, (plain,)).struck
    assert Statement(1, "", None, (plain, struck)).struck
    assert Statement(1, "", None, (plain,), crossed=True).struck
    assert Statement(1, "", target_of(Struck(Name("Q"))), (plain,)).struck


def test_numeric_terms_are_those_without_names() -> None:
    links = (Link(1, "=", Name("X")), Link(1, "=", written("3")))
    assert Statement(1, "", None, links).numeric == links[1:]
