"""What a chain is about: its target, split off; `(q, k) = (a, b)` matched one by one."""

from __future__ import annotations

from dataclasses import replace

from glassformer.worked.read.label import label
from glassformer.worked.read.statement import Link, Target
from glassformer.worked.read.term import Call, Matrix, Name, Several, Struck, Term, Unknown, Written, names_in


def target_of(term: Term) -> Target:
    """What a term names: w_{1,2}, QK^T, (QKᵀ)_{1,2}."""
    inner = term.term if isinstance(term, Struck) else term
    if isinstance(inner, Name):
        name = inner.name + "'" * inner.primes
        return Target(name, inner.indices, inner.upper, term)
    if isinstance(inner, Call) and inner.function == "entry":
        indices = tuple(int(part) if part.isdecimal() else part for part in inner.over.split(","))
        return Target(label(inner.arguments[0]), indices, (), term)
    if isinstance(inner, Call) and all(isinstance(a, Written) and a.places is None for a in inner.arguments):
        return Target(inner.function, tuple(int(a.value) for a in inner.arguments if isinstance(a, Written)), (), term)
    return Target(label(inner), (), (), term)


def settle(terms: list[Link]) -> list[tuple[Target | None, tuple[Link, ...]]]:
    """Splits off the target: the first term if it names something, else a later single name. One pair per statement."""
    first = terms[0]
    if first.relation == "" and len(terms) > 1 and isinstance(first.term, Several):
        matched = _one_by_one(first.term, terms[1:])
        if matched is not None:
            return matched
    terms = [replace(link, term=listed(link.term)) if position else link for position, link in enumerate(terms)]
    if first.relation == "" and len(terms) > 1 and (names_in(first.term) or _cell(first.term)):
        return [(target_of(first.term), tuple(terms[1:]))]
    terms[0] = replace(first, term=listed(first.term))
    if first.relation == "" and not isinstance(first.term, Unknown):
        for position, link in enumerate(terms):
            if position and link.relation == "=" and isinstance(link.term, Name):
                return [(target_of(link.term), tuple(terms[:position] + terms[position + 1 :]))]
    return [(None, tuple(terms))]


def _cell(term: Term) -> bool:
    """Score(1, 2): a function nobody knows, of whole numbers, is one cell of what it names."""
    return isinstance(term, Call) and term.function[:1].isupper() and not term.over


def _one_by_one(target: Several, links: list[Link]) -> list[tuple[Target | None, tuple[Link, ...]]] | None:
    count = len(target.items)
    rows: list[tuple[Link, tuple[Term, ...]]] = []
    for link in links:
        if not isinstance(link.term, Several) or len(link.term.items) != count:
            return None
        rows.append((link, link.term.items))
    return [
        (target_of(item), tuple(replace(link, term=values[position]) for link, values in rows))
        for position, item in enumerate(target.items)
    ]


def listed(term: Term) -> Term:
    """(1, 2) by itself is a list; ((1, 2), (3, 4)) a matrix."""
    if not isinstance(term, Several):
        return term
    if all(isinstance(item, Matrix) and item.flat for item in term.items):
        return Matrix(tuple(item.rows[0] for item in term.items if isinstance(item, Matrix)))
    return Matrix((term.items,), flat=True)
