from __future__ import annotations

from xml.etree import ElementTree

import pytest

from glassformer.errors import InputError
from glassformer.lab.claims import claim, numbers
from glassformer.lab.formula import mathml, plain


def test_scripts_fractions_and_roots() -> None:
    made = mathml("A_{ij} = frac{q^T k}{sqrt{d}}")
    assert "<msub><mi>A</mi><mrow><mrow><mi>i</mi><mi>j</mi></mrow></mrow></msub>" in made
    assert "<mfrac><mrow><msup><mi>q</mi><mo>⊤</mo></msup><mi>k</mi></mrow><mrow><msqrt><mrow><mi>d</mi>" in made


def test_both_scripts() -> None:
    assert "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>" in mathml("x_1^2")
    assert "</mo><mi>h</mi><mn>9</mn></munderover>" in mathml("Σ_h^9 x")


def test_a_line_can_break_before_a_relation_and_after_a_comma_outside_brackets() -> None:
    texts = [
        "".join(part.itertext()) for part in ElementTree.fromstring(f"<p>{mathml('A = f(a, b), [i = j] ⇒ c')}</p>")
    ]
    assert texts == ["A", "=f(a,b),", "[i=j]", "⇒c"]


def test_words_keep_their_spaces() -> None:
    assert "<mtext>\N{NO-BREAK SPACE}rises for every\N{NO-BREAK SPACE}</mtext><mi>j</mi>" in mathml(
        "A rises for every j"
    )


@pytest.mark.parametrize("number", numbers())
def test_every_claims_formula_is_well_formed(number: int) -> None:
    ElementTree.fromstring(f"<p>{mathml(claim(number).formula)}</p>")


def test_plain() -> None:
    assert plain("A_{ij} = frac{q^T k}{sqrt{d}}") == "A_ij = (qᵀ k)/√d"
    assert all("frac" not in plain(claim(number).formula) for number in numbers())


@pytest.mark.parametrize("text", ["frac{1", "x_", "a^{b"])
def test_broken(text: str) -> None:
    with pytest.raises(InputError):
        mathml(text)
