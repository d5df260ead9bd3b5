from __future__ import annotations

from xml.etree import ElementTree

import pytest

from glassformer.worked import library
from glassformer.worked.arithmetic import EXACT
from glassformer.worked.display import tree
from glassformer.worked.expression import evaluate, parse
from glassformer.worked.render.formula import chain as steps_of
from glassformer.worked.render.mathml import chain, number
from glassformer.worked.solve import solve

# What MathML Core allows here, and how many children each has: browsers draw nothing sensible otherwise.
CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "mroot": 2, "mover": 2}
KNOWN = {"math", "mrow", "mi", "mn", "mo", "mtable", "mtr", "mtd", "msqrt", *CHILDREN}


@pytest.mark.parametrize("name", library.names())
def test_every_formula_is_well_formed(name: str) -> None:
    for step in solve(library.get(name)).steps:
        root = ElementTree.fromstring(f"<div>{chain(steps_of(step, 4))}</div>")
        for element in root.iter():
            if element is root:
                continue
            assert element.tag in KNOWN
            assert len(element) == CHILDREN.get(element.tag, len(element)), ElementTree.tostring(element)


def test_numbers() -> None:
    assert number(tree(evaluate(parse("-1/2"), EXACT))) == "<mrow><mo>−</mo><mfrac><mn>1</mn><mn>2</mn></mfrac></mrow>"
    assert number(tree(evaluate(parse("sqrt(2)*e"), EXACT))).count("<msqrt>") == 1
