"""Outcomes as pages, formulas and figures."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from glassformer.errors import InputError
from glassformer.figures import to_bytes
from glassformer.lab import plots
from glassformer.lab.claims import claim, numbers
from glassformer.lab.formula import formula_mathml, formula_text
from glassformer.lab.page import claims_page, flatten_result
from glassformer.lab.run import run_claim


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_stands_alone() -> None:
    outcomes = [run_claim(7, keep=False, queries=20), run_claim(8, keep=False)]
    text = claims_page(outcomes)
    tags = Tags()
    tags.feed(text)
    names = [tag for tag, _ in tags.found]
    assert names.count("math") >= 2  # a formula of several parts breaks between them
    assert "script" not in names
    images = [attributes["src"] for tag, attributes in tags.found if tag == "img"]
    assert len(images) == 2
    assert all(src is not None and src.startswith("data:image/png;base64,") for src in images)
    for outcome in outcomes:
        assert outcome.verdict.rule.replace(">", "&gt;") in text
        assert outcome.command in text
    assert "A doubled key that loses weight" in text


def test_long_lists_are_cut_and_exercises_left_out() -> None:
    rows = dict(flatten_result({"a": [1.0] * 20, "b": {"c": 2}, "counterexample": {}}, most=2))
    assert rows == {"a": "[1, 1, …]", "b: c": "2"}


def test_scripts_fractions_and_roots() -> None:
    made = formula_mathml("A_{ij} = frac{q^T k}{sqrt{d}}")
    assert "<msub><mi>A</mi><mrow><mrow><mi>i</mi><mi>j</mi></mrow></mrow></msub>" in made
    assert "<mfrac><mrow><msup><mi>q</mi><mo>⊤</mo></msup><mi>k</mi></mrow><mrow><msqrt><mrow><mi>d</mi>" in made


def test_both_scripts() -> None:
    assert "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>" in formula_mathml("x_1^2")
    assert "</mo><mi>h</mi><mn>9</mn></munderover>" in formula_mathml("Σ_h^9 x")


def test_a_line_can_break_before_a_relation_and_after_a_comma_outside_brackets() -> None:
    texts = [
        "".join(part.itertext())
        for part in ElementTree.fromstring(f"<p>{formula_mathml('A = f(a, b), [i = j] ⇒ c')}</p>")
    ]
    assert texts == ["A", "=f(a,b),", "[i=j]", "⇒c"]


def test_words_keep_their_spaces() -> None:
    assert "<mtext>\N{NO-BREAK SPACE}rises for every\N{NO-BREAK SPACE}</mtext><mi>j</mi>" in formula_mathml(
        "A rises for every j"
    )


@pytest.mark.parametrize("number", numbers())
def test_every_claims_formula_is_well_formed(number: int) -> None:
    ElementTree.fromstring(f"<p>{formula_mathml(claim(number).formula)}</p>")


def test_plain() -> None:
    assert formula_text("A_{ij} = frac{q^T k}{sqrt{d}}") == "A_ij = (qᵀ k)/√d"
    assert all("frac" not in formula_text(claim(number).formula) for number in numbers())


@pytest.mark.parametrize("text", ["frac{1", "x_", "a^{b"])
def test_broken(text: str) -> None:
    with pytest.raises(InputError):
        formula_mathml(text)


def test_curves() -> None:
    fig = plots.curves(
        [1, 10],
        {"a": [1, 2], "b": [3, 4]},
        across="x",
        up="y",
        title="t",
        log="xy",
        marks={"here": 2},
        levels={"at": 1},
    )
    ax = fig.axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_legend_handles_labels()[1] == ["a", "b", "here", "at"]
    assert to_bytes(fig)


def test_axes_are_in_plain_numbers() -> None:
    """4, 8, 16, 32 on a logarithmic axis: 2 × 10¹ and 3 × 10¹ would run into each other."""
    fig = plots.curves([4, 8, 16, 32], {"a": [1, 2, 3, 4]}, across="n", up="y", title="t", log="x")
    to_bytes(fig)
    shown = [label.get_text() for which in (False, True) for label in fig.axes[0].get_xticklabels(minor=which)]
    assert "10" in shown
    assert "20" in shown
    assert not any("times" in text or "30" in text for text in shown)


def test_small_numbers_fit_their_cells() -> None:
    fig = plots.maps({"a": [[-0.00088, 0.012, 0.0]]}, title="t")
    assert [text.get_text() for text in fig.axes[0].texts] == ["-9e-4", "0.012", "0"]


def test_bars() -> None:
    fig = plots.bars({"a": 1, "b": 2}, up="y", title="t", level=1.0)
    assert [patch.get_height() for patch in fig.axes[0].patches] == [1, 2]
    assert to_bytes(fig)


def test_points() -> None:
    fig = plots.points({"a": ([1, 2], [3, 4])}, across="x", up="y", title="t", marks={"0": 0.0})
    assert to_bytes(fig)


def test_maps_write_their_numbers() -> None:
    fig = plots.maps({"a": [[0.5, 0.25]], "b": [[0.0, 0.0]]}, title="t")
    assert [text.get_text() for text in fig.axes[0].texts] == ["0.5", "0.25"]
    assert to_bytes(fig)
