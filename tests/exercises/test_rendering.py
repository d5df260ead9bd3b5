"""Solutions and questions as text, Markdown, LaTeX, MathML, HTML and words."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from math import log2
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy as scipy_entropy

import glassformer as gf
from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.arithmetic import EXACT
from glassformer.exercises.description import describe, describe_row, entropy
from glassformer.exercises.evaluation import evaluate_expression
from glassformer.exercises.exercise import from_data
from glassformer.exercises.expression import (
    Array,
    Constant,
    Expression,
    Name,
    Negative,
    Power,
    Product,
    Quotient,
    Root,
    Sum,
    number,
    parse,
    whole,
)
from glassformer.exercises.numbers import MASKED, Exact
from glassformer.exercises.printers import latex, mathml
from glassformer.exercises.printers.text import ascii_code, block, equation, label, side_by_side, text
from glassformer.exercises.question import question
from glassformer.exercises.reader.statements import parse_formula
from glassformer.exercises.solution import FORMATS, render, solve

ROOT3 = Exact(3).sqrt()
E = Exact(1).exp()


def exact(source: str) -> Expression:
    """The expression of an exact number."""
    value: Exact = evaluate_expression(parse(source), EXACT)
    return value.expression


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (Exact(0), whole(0)),
        (Exact(-2), Negative(whole(2))),
        (1 / ROOT3, Quotient(Root(whole(3)), whole(3))),
        (26 * ROOT3, Product((whole(26), Root(whole(3))))),
        (E, Constant("e")),
        (E * E, Power(Constant("e"), whole(2))),
        (ROOT3 - 1, Sum((Root(whole(3)), Negative(whole(1))))),
        (1 / (E + 1), Quotient(whole(1), Sum((Constant("e"), whole(1))))),
        (MASKED, Negative(Constant("∞"))),
    ],
)
def test_exact_numbers_are_expressions(x: Exact, shown: Expression) -> None:
    assert x.expression == shown


def test_masked_scores() -> None:
    shown = MASKED.expression
    assert (ascii_code(shown), text(shown), latex.latex(shown)) == ("-inf", "−∞", r"-\infty")


@pytest.mark.parametrize(
    "x",
    [
        (1 + Exact(5).sqrt()) / 2,
        -E / (E + 1),
        -(E + 1),
        (E + ROOT3) / (2 * E * E + 1) - ROOT3 / 2,
        (1 + 1 / (E + 1)).sqrt() * 3,
        1 / (1 + 1 / (E + 1)).sqrt(),
        (E + 1) ** 6,
        Exact(1).sin() / 2 - Exact(2).cos() ** 2,
        (Exact(1).sin() + 1).exp(),
        Exact(2).root(3) / (ROOT3 * E),
        -(E - 2) / (E + 5) ** 2,
        Exact(-3).exp(),
    ],
    ids=str,
)
def test_code_reads_back_as_the_same_number(x: Exact) -> None:
    assert evaluate_expression(parse(str(x)), EXACT) == x


coefficients = st.integers(-4, 4).map(Exact)
terms = st.tuples(coefficients, st.sampled_from([1, 2, 3]), st.integers(-2, 2)).map(
    lambda t: t[0] * Exact(t[1]).sqrt() * Exact(t[2]).exp() / 3
)
sums = st.lists(terms, min_size=1, max_size=3).map(lambda many: sum(many, Exact(0)))


@given(sums, sums.filter(bool), sums)
def test_any_quotient_reads_back(a: Exact, b: Exact, c: Exact) -> None:
    x = a / b + c
    assert evaluate_expression(parse(str(x)), EXACT) == x


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("-3/4", "−3/4"),
        ("26*sqrt(3)", "26√3"),
        ("exp(2)/(exp(2)+2*e+1)", "e²/(e² + 2e + 1)"),
        ("exp(-2)", "e⁻²"),
        ("exp(sqrt(2))", "e^(√2)"),
        ("10^(1/3)", "³√(10)"),
        ("1-sqrt(2)", "1 − √2"),
    ],
)
def test_numbers_as_text(expression: str, shown: str) -> None:
    assert text(exact(expression)) == shown


def test_matrices_stand_side_by_side() -> None:
    grid = Array(((number("1"), Negative(number("2.5"))), (number("30"), number("4"))))
    assert block(grid).lines == ("⎡ 1  −2.5⎤", "⎣30     4⎦")
    assert block(Product((grid, Name("X")))).lines == ("⎡ 1  −2.5⎤·X", "⎣30     4⎦  ")


def test_a_chain_is_broken_where_the_page_ends() -> None:
    grid = Array(((number("1"),) * 12,) * 2)
    wide = equation([("", Name("A")), ("=", grid), ("=", grid)], width=60)
    assert max(map(len, wide.splitlines())) <= 60
    assert len(wide.splitlines()) == 4


@pytest.mark.parametrize("name", library.names())
def test_nothing_is_wider_than_the_page(name: str) -> None:
    for step in solve(name).steps:
        assert max(map(len, equation(step.equation(4), 120).splitlines())) <= 120


def test_blocks_of_unequal_height_meet_in_the_middle() -> None:
    tall = block(Array(tuple((number(str(i)),) for i in range(5))))
    assert side_by_side(block(Name("x")), tall, " = ").lines[tall.middle].startswith("x = ")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("-3/4", r"-\frac{3}{4}"),
        ("2*sqrt(3)", r"2 \sqrt{3}"),
        ("exp(2)/(1+exp(1))", r"\frac{e^{2}}{e + 1}"),
        ("(1+sqrt(5))/2", r"\frac{1 + \sqrt{5}}{2}"),
        ("exp(-1/2)", r"e^{-\frac{1}{2}}"),
        ("sin(1)", r"\sin\left(1\right)"),
    ],
)
def test_numbers_as_latex(expression: str, expected: str) -> None:
    assert latex.latex(exact(expression)) == expected


def test_words_are_escaped() -> None:
    assert latex.escape("50 % of a_b & {x}") == r"50 \% of a\_b \& \{x\}"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
@pytest.mark.parametrize(
    "name",
    [name if n % 6 == 0 else pytest.param(name, marks=pytest.mark.slow) for n, name in enumerate(library.names())],
)
def test_latex_compiles(name: str, tmp_path: Path) -> None:
    source = tmp_path / "solution.tex"
    source.write_text(render(solve(name), "latex"), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "solution.pdf").stat().st_size > 1000
    assert "Overfull \\hbox" not in done.stdout  # nothing runs off the page


# What MathML Core allows here, and how many children each has: browsers draw nothing sensible otherwise.
CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "mroot": 2, "mover": 2}
KNOWN = {"math", "mrow", "mi", "mn", "mo", "mtable", "mtr", "mtd", "msqrt", *CHILDREN}


@pytest.mark.parametrize("name", library.names())
def test_every_mathml_formula_is_well_formed(name: str) -> None:
    for step in solve(name).steps:
        root = ElementTree.fromstring(f"<div>{mathml.equation(step.equation(4))}</div>")
        for element in root.iter():
            if element is root:
                continue
            assert element.tag in KNOWN
            assert len(element) == CHILDREN.get(element.tag, len(element)), ElementTree.tostring(element)


def test_numbers_as_mathml() -> None:
    assert mathml.mathml(exact("-1/2")) == "<mrow><mo>−</mo><mfrac><mn>1</mn><mn>2</mn></mfrac></mrow>"
    assert mathml.mathml(exact("sqrt(2)*e")).count("<msqrt>") == 1


def label_of(source: str) -> str:
    return label(parse_formula(source).drafts[0].terms[0].term)


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


@pytest.mark.golden
@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
@pytest.mark.parametrize("name", ["four-tokens", "columns", "two-heads", "transport"])
def test_pages_are_as_they_were(name: str, form: str, golden: Callable[[str, str], None]) -> None:
    ending = {"text": "txt", "markdown": "md", "latex": "tex", "html": "html"}[form]
    golden(f"solve/{name}.{ending}", render(solve(name), form))


def test_one_step_alone() -> None:
    assert render(solve("four-tokens"), only="A").startswith("Weights")
    both = render(solve("two-heads"), only="A")
    assert "A1 =" in both
    assert "A2 =" in both
    assert "A2 =" not in render(solve("two-heads"), only="A1")


def test_digits() -> None:
    assert "0.196612" in render(solve("four-tokens"), only="A", digits=6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"form": "word"}, "there is no format 'word': choose one of text, markdown, latex, html, json"),
        ({"only": "B"}, "this exercise has no step 'B': choose one of Q, K, V, S, E, Z, A, H, O"),
        ({"digits": 0}, "digits must be between 1 and 50, got 0: choose 1 to 50"),
    ],
)
def test_mistakes(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as error:
        render(solve("four-tokens"), **options)  # type: ignore[arg-type]
    assert str(error.value) == says


def test_a_page_needs_nothing_from_outside() -> None:
    page = render(solve("block"), "html")
    assert "<script" not in page
    assert "http" not in page


def test_json_is_what_to_json_gives() -> None:
    solution = solve("four-tokens")
    assert json.loads(render(solution, "json")) == json.loads(json.dumps(solution.to_json()))
    assert [step["symbol"] for step in json.loads(render(solution, "json", only="A"))["steps"]] == ["A"]


def test_a_name_a_path_and_an_exercise_are_solved_alike(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(library.text("four-tokens"), encoding="utf-8")
    one, two, three = gf.solve("four-tokens"), solve(str(path)), solve(library.get("four-tokens"))
    assert one.values == two.values == three.values
    with pytest.raises(InputError, match="no-such"):
        solve("no-such")


def test_a_solution_shows_itself(tmp_path: Path) -> None:
    solution = solve("four-tokens")
    assert str(solution) == render(solution)
    shown = solution._repr_html_()
    assert "<math" in shown
    assert "<html" not in shown
    for suffix, form in zip((".txt", ".md", ".tex", ".html", ".json"), FORMATS, strict=True):
        assert solution.save(tmp_path / f"solution{suffix}").read_text(encoding="utf-8") == render(solution, form)
    with pytest.raises(InputError, match=r"end its name in one of \.txt"):
        solution.save(tmp_path / "solution.docx")


def test_entropy_is_scipys() -> None:
    weights = [0.5, 0.25, 0.2, 0.05, 0.0]
    assert entropy(weights) == pytest.approx(scipy_entropy(weights, base=2))
    assert entropy([1.0]) == 0.0
    assert entropy([0.25] * 4) == pytest.approx(log2(4))


def test_what_four_tokens_say() -> None:
    said = describe(solve("four-tokens").step("A"))
    assert said[0].startswith("Token 1 attends most to token 2, 53.4 %")
    assert said[2].startswith("Token 3 attends evenly to all 4 tokens it sees (25.0 % each")


def test_ties_and_what_is_masked() -> None:
    half = Exact(1) / 2
    quarter = Exact(1) / 4
    assert describe_row([quarter, half, quarter]).startswith("attends most to token 2, 50.0 %")
    third = Exact(2) / 5
    assert "tokens 1 and 3, which tie at 40.0 % each" in describe_row([third, Exact(1) / 5, third])
    assert describe_row([Exact(1), Exact(0)]) == "attends to token 1 alone: it sees no other."


def test_columns_are_read_by_column() -> None:
    assert len(describe(solve("columns").step("A"))) == solve(library.get("columns"))["A"].shape[1]


def test_what_is_tiny_is_still_seen() -> None:
    tiny = Exact(-1000).exp()
    assert describe_row([Exact(1) - tiny, tiny]).startswith("attends most to token 1, 100.0 %")


QKV = {"Q": [[1, 0]], "K": [[1, 0], [0, 1]], "V": [[1], [2]]}
X = [[1, 0, 0, 1], [0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (QKV, "Scale the scores by β: divide them by √d_k with d_k = 2."),
        (QKV | {"scale": "none"}, "Do not scale the scores."),
        (QKV | {"scale": 1}, "Do not scale the scores."),
        (QKV | {"scale": "2/3"}, "Scale the scores by β = 2/3."),
        (QKV | {"scale": "1/sqrt(d)"}, "Scale the scores by β: divide them by √d with d = 2."),
        (QKV | {"scale": "1/d_k"}, "β = 1/d_k with d_k = 2."),
        (QKV | {"mask": [[1, 0]]}, "the scores for key 2 are −∞"),
        (QKV | {"Q": [[1, 0], [1, 1]], "mask": [[1, 0], [1, 1]]}, "that it may attend to: 1·; 11."),
        ({"layout": "columns", "X": [[1, 0], [0, 1]], "layernorm": True}, "Tokens are columns."),
        ({"X": X, "layernorm": {"eps": "1/100"}}, "plus ε = 1/100. There is no γ"),
        ({"X": X, "layernorm": True}, "deviations. There is no γ and no β"),
        ({"X": X, "positions": "sinusoidal", "layernorm": True}, "sin(t/10000^(2i/d))"),
        ({"X": [[1], [2]], "ffn": {"W1": [[1]], "W2": [[1]], "b2": [1]}}, "applies W1, ReLU, then W2 and b2."),
        ({"transport": {"p": [1, 0], "q": [0, 1], "positions": [0, "5/2"]}}, "The bins are at the positions 0, 5/2."),
    ],
)
def test_what_is_needed_is_said(data: dict[str, Any], said: str) -> None:
    asked = question(from_data({"text": "Why?", **data}))
    assert asked.startswith("Why? ")
    assert said in asked


def test_the_limit_has_no_finite_scale() -> None:
    asked = question(from_data(QKV), limit=True)
    assert "β is infinite" in asked
    assert "√" not in asked
