"""Formulas in learners' notation: tokens, brackets, macros, symbols and their terms."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from glassformer.exercises.evaluation import enclose
from glassformer.exercises.expression import Array, Call, Expression, Name, Power, Struck, Transpose, Unknown, walk
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import brackets, read
from glassformer.exercises.reader.lexer import Misread, closing_brace, lex
from glassformer.exercises.reader.macros import body, is_latex
from glassformer.exercises.reader.parser import Parser
from glassformer.exercises.reader.statements import parse_formula
from glassformer.exercises.reader.symbols import GREEK, OPERATORS, RELATIONS, split_letters


def tokens_kinds(source: str) -> list[str]:
    return [f"{token.kind}:{token.text}" for token in lex(source).items]


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("0.5", ["number:0.5"]),
        (".5", ["number:.5"]),
        ("0{,}5", ["number:0.5"]),
        (r"12\,000", ["number:12000"]),
        ("2e^2", ["number:2", "name:e", "op:^", "number:2"]),
        ("2e-05", ["number:2e-05"]),
        (r"\frac12", ["cmd:frac", "number:1", "number:2"]),
        ("14 x 14", ["number:14", "op:*", "number:14"]),
        ("a ≈ b", ["name:a", "rel:≈", "name:b"]),
        (r"\Rightarrow", ["rel:→"]),
        ("x²", ["name:x", "op:^", "open:{", "number:2", "close:{"]),
        ("9**2", ["number:9", "op:^", "number:2"]),
        ("½", ["open:(", "number:1", "op:/", "number:2", "close:("]),
        ("1 ... 4", ["number:1", "name:…", "number:4"]),
        ("w_1,2 = 3", ["name:w", "op:_", "name:1,2", "rel:=", "number:3"]),
    ],
)
def test_kinds(source: str, tokens: list[str]) -> None:
    assert tokens_kinds(source) == tokens


def test_lines_are_the_documents() -> None:
    tokens = lex("a\n= \\text{so\n\n} b", line=10).items
    assert [token.line for token in tokens] == [10, 11, 11, 13]


def test_closing_brace_skips_escapes() -> None:
    assert closing_brace(r"{a\}b{c}}d", 0) == 8
    assert closing_brace("{a", 0) == -1


def stream_kinds(source: str) -> list[str]:
    return [f"{token.kind}:{token.text}" for token in lex(source).items]


def test_ampersand_separates_in_matrices_aligns_at_relations_and_says_and_elsewhere() -> None:
    assert "op:&" in stream_kinds(r"\begin{bmatrix}1 & 2\end{bmatrix}")
    assert stream_kinds("a &= b") == ["name:a", "rel:=", "name:b"]
    assert "words:&" in stream_kinds("a = 1 & b = 2")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("(1 + 2", r"\( is never closed"),
        ("1 + 2)", r"\) closes nothing"),
        (r"\begin{bmatrix}1", "is never closed"),
        (r"\begin{bmatrix}1\end{pmatrix}", "is closed by"),
        ("{1]", "is closed by"),
        (r"\text{1", "brace"),
        ("(" * 60 + ")" * 60, "nested"),
    ],
)
def test_what_does_not_match(source: str, reason: str) -> None:
    with pytest.raises(Misread, match=reason):
        lex(source)


def test_half_open_intervals_match() -> None:
    assert lex("[0, 1)").match == {0: 4}


def test_a_relation_in_braces_is_a_relation() -> None:
    assert stream_kinds("a {=} b") == ["name:a", "rel:=", "name:b"]


def commands_kinds(source: str) -> list[str]:
    return [f"{token.kind}:{token.text}" for token in lex(source).items]


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        (r"\text{ where } x", ["words:where", "name:x"]),
        (r"\text{out}_1", ["name:out", "op:_", "number:1"]),
        (r"\text{softmax} \left( x \right)", ["name:softmax", "open:(", "name:x", "close:("]),
        (r"\mathrm{head}_2", ["name:head", "op:_", "number:2"]),
        (r"\left. x \right|", ["name:x", "op:|"]),
        (r"\textcolor{red}{3}", ["open:{", "number:3", "close:{"]),
        (r"1 \label{eq:1} + 2 \tag{3} \nonumber", ["number:1", "op:+", "number:2"]),
        (r"1 \\[2pt] 2", ["number:1", "row:\\\\", "number:2"]),
        (r"\begin{array}{c|c} 1 \end{array}", ["begin:array", "number:1", "end:array"]),
        (r"\dfrac{1}{2}", ["cmd:frac", "open:{", "number:1", "close:{", "open:{", "number:2", "close:{"]),
        (r"a \quad b", ["name:a", "gap:quad", "name:b"]),
        (r"50\%", ["number:50", "op:%"]),
        (r"\overset{!}{=}", ["rel:="]),
        (r"a \xrightarrow{\text{softmax}} b", ["name:a", "rel:→", "name:b"]),
        ("x = 0.53 rounded", ["name:x", "rel:=", "number:0.53", "words:rounded"]),
        ("x = 0.53 (rounded)", ["name:x", "rel:=", "number:0.53", "words:(rounded)"]),
        ("for i", ["words:for", "name:i"]),
        ("out_1", ["name:out", "op:_", "number:1"]),
    ],
)
def test_commands(source: str, tokens: list[str]) -> None:
    assert commands_kinds(source) == tokens


def test_matrices_are_put_on_the_line_of_their_equation() -> None:
    text = "\n".join(["Title", "           ⎡1  0⎤", "S = √2/2 · ⎢0  1⎥ = [5]", "           ⎣1  2⎦", "", "end"])
    inlined = brackets.inline(text).split("\n")
    assert inlined == ["Title", "", "S = √2/2 · [[1, 0], [0, 1], [1, 2]] = [5]", "", "", "end"]


def test_equations_under_each_other_stay_apart() -> None:
    text = "Q = ⎡1⎤\n    ⎣2⎦\n  = ⎡3⎤\n    ⎣4⎦"
    assert brackets.inline(text).split("\n") == ["Q = [[1], [2]]", "", "  = [[3], [4]]", ""]


def test_what_is_not_closed_is_left_alone() -> None:
    text = "⎡1  2⎤\n⎢3  4\n⎣"
    assert brackets.inline(text) == text


@given(st.lists(st.lists(st.integers(-99, 99), min_size=2, max_size=2), min_size=2, max_size=5))
def test_matrices_that_sympy_prints(rows: list[list[int]]) -> None:
    drawn = sympy.pretty(sympy.Matrix(rows), use_unicode=True)
    shown = [line for line in brackets.inline(drawn).split("\n") if line]
    assert shown == [str(rows)]


@given(st.text("⎡⎢⎣⎤⎥⎦⎛⎜⎝⎞⎟⎠ 1\n", max_size=60))
def test_any_text_keeps_its_lines(text: str) -> None:
    assert brackets.inline(text).count("\n") == text.count("\n")


FILE = r"""\documentclass{article}
\newcommand{\R}{\mathbb{R}}
\newcommand{\mat}[1]{\begin{bmatrix} #1 \end{bmatrix}}
\def\two{2}
\DeclareMathOperator{\soft}{softmax}
\begin{document}
$x$ % not $y$
$\mat{1 & \two}$ and $\soft(S)$, 50\% of $\R$
\end{document}
$z$
"""


def test_body() -> None:
    lines = body(FILE).split("\n")
    assert lines[6] == "$x$ "
    assert lines[7] == r"$\begin{bmatrix} 1 & 2 \end{bmatrix}$ and $\operatorname{softmax}(S)$, 50\% of $\mathbb{R}$"
    assert "z" not in "".join(lines[5:])
    assert is_latex(FILE)


def test_markdown_keeps_its_percent_signs() -> None:
    assert body("50% of $x$") == "50% of $x$"
    assert not is_latex("50% of $x$")


def test_commands_that_use_themselves_end() -> None:
    text = r"\newcommand{\a}{\b\b\b\b}\newcommand{\b}{\a\a\a\a}" + r"$\a$ " * 2000
    assert len(body(text)) < 5_000_000


def test_a_use_without_its_argument_stays() -> None:
    assert body(r"\newcommand{\f}[1]{(#1)} $\f$") == r" $\f$"


@pytest.mark.parametrize(
    ("run", "pieces"),
    [
        ("Q", ["Q"]),
        ("QK", ["Q", "K"]),
        ("XWQ", ["X", "WQ"]),
        ("AV", ["A", "V"]),
        ("qk", ["q", "k"]),
        ("out", ["out"]),
        ("scores", ["scores"]),
        ("softmax", ["softmax"]),
        ("Attention", ["Attention"]),
        ("FFN", ["FFN"]),
        ("ND", ["N", "D"]),
        ("dk", ["dk"]),
    ],
)
def test_split(run: str, pieces: list[str]) -> None:
    assert split_letters(run) == pieces
    assert "".join(split_letters(run)) == run


def test_greek_has_both_cases() -> None:
    assert GREEK["Omega"] == "Ω"
    assert GREEK["beta"] == "β"


def test_no_sign_is_both_relation_and_operator() -> None:
    assert not set(RELATIONS) & set(OPERATORS)


@dataclass(frozen=True)
class Shown:
    """An expression as LaTeX, as plain text and with unicode, and its value."""

    latex: str
    plain: str
    signs: str
    value: float
    loose: bool = False  # needs brackets inside a product

    def bracketed(self) -> Shown:
        if not self.loose:
            return self
        return Shown(rf"\left( {self.latex} \right)", f"({self.plain})", f"({self.signs})", self.value)


def number(value: float) -> Shown:
    text = f"{value}"
    return Shown(text, text, text, value)


numbers = st.one_of(st.integers(0, 20), st.decimals(0, 9, places=4).map(float)).map(number)


def added(parts: list[tuple[bool, Shown]]) -> Shown:
    latex, plain, signs, value = parts[0][1].latex, parts[0][1].plain, parts[0][1].signs, parts[0][1].value
    for minus, part in parts[1:]:
        part = part.bracketed() if minus else part
        latex += f" {'-' if minus else '+'} {part.latex}"
        plain += f" {'-' if minus else '+'} {part.plain}"
        signs += f" {'−' if minus else '+'} {part.signs}"
        value += -part.value if minus else part.value
    return Shown(latex, plain, signs, value, True)


def multiplied(parts: list[Shown]) -> Shown:
    parts = [part.bracketed() for part in parts]
    return Shown(
        r" \cdot ".join(p.latex for p in parts), "*".join(p.plain for p in parts), "·".join(p.signs for p in parts),
        math.prod(p.value for p in parts),
    )  # fmt: skip


def divided(top: Shown, bottom: Shown) -> Shown:
    t, b = top.bracketed(), bottom.bracketed()
    return Shown(
        rf"\frac{{{top.latex}}}{{{bottom.latex}}}", f"({t.plain})/({b.plain})", f"({t.signs})÷({b.signs})",
        top.value / bottom.value if bottom.value else math.nan,
    )  # fmt: skip


def rooted(x: Shown) -> Shown:
    value = math.sqrt(x.value) if x.value >= 0 else math.nan
    return Shown(rf"\sqrt{{{x.latex}}}", f"sqrt({x.plain})", f"√({x.signs})", value)


def exponential(x: Shown) -> Shown:
    value = math.exp(x.value) if abs(x.value) < 50 else math.nan
    return Shown(f"e^{{{x.latex}}}", f"exp({x.plain})", rf"\exp({x.signs})", value)


def squared(x: Shown) -> Shown:
    return Shown(f"{{\\left( {x.latex} \\right)}}^{{2}}", f"({x.plain})**2", f"({x.signs})²", x.value**2)


expressions = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.lists(st.tuples(st.booleans(), inner), min_size=2, max_size=4).map(added),
        st.lists(inner, min_size=2, max_size=3).map(multiplied),
        st.builds(divided, inner, inner),
        inner.map(rooted),
        inner.map(exponential),
        inner.map(squared),
    ),
    max_leaves=8,
)


def value_of(source: str) -> float:
    parse_read = parse_formula(source)
    assert not parse_read.problems, parse_read.problems
    value = enclose(parse_read.drafts[0].terms[0].term, slack=Fraction(0))
    assert not isinstance(value, Matrix)
    return float(value.mid())


@given(expressions)
def test_any_expression_in_three_styles(shown: Shown) -> None:
    if not math.isfinite(shown.value) or abs(shown.value) > 1e12:
        return
    for source in (shown.latex, shown.plain, shown.signs):
        assert value_of(source) == pytest.approx(shown.value, rel=1e-6, abs=1e-6)


matrices = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.integers(-9, 9), min_size=width, max_size=width), min_size=1, max_size=3)
)


STYLES = ("bmatrix", "pmatrix", "matrix", "vmatrix", "smallmatrix", "array", "commas", "list", "numpy")


@given(matrices, st.sampled_from(STYLES))
def test_any_matrix_in_nine_styles(rows: list[list[int]], style: str) -> None:
    body = r" \\ ".join(" & ".join(map(str, row)) for row in rows)
    if style == "array":
        source = rf"\left[\begin{{array}}{{{'c' * len(rows[0])}}} {body} \\ \end{{array}}\right]"
    elif style == "commas":
        source = r"\begin{bmatrix}" + r" \\ ".join(", ".join(map(str, row)) for row in rows) + r"\end{bmatrix}"
    elif style == "list":
        source = str(rows)
    elif style == "numpy":
        source = "[" + "\n ".join("[" + " ".join(map(str, row)) + "]" for row in rows) + "]"
    else:
        source = rf"\begin{{{style}}} {body} \end{{{style}}}"
    parse_read = parse_formula(source)
    assert not parse_read.problems
    value = enclose(parse_read.drafts[0].terms[0].term)
    grid = value if isinstance(value, Matrix) else Matrix(((value,),))
    assert [[int(cell.unique_fmpz()) for cell in row] for row in grid.rows] == rows


@pytest.mark.parametrize(
    "rows",
    [("0.78600291 0.         0.        ", "0.02290663 0.5        1.        "), ("0.5  0.   0.  ", "0.   0.25 1.  ")],
)
def test_numpy_aligns_decimals_and_writes_zero_as_a_zero_with_a_point(rows: tuple[str, str]) -> None:
    found = read(f"A =\n[[{rows[0]}]\n [{rows[1]}]]\n")
    assert not found.unread
    value = enclose(found.statements[0].terms[0].term)
    assert [[float(cell.mid()) for cell in row] for row in value.rows] == [
        pytest.approx([float(number) for number in row.split()]) for row in rows
    ]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("-2^2", -4),
        ("2^-1", 0.5),
        ("2**3**2", 512),
        (r"1/2/2", 0.25),
        (r"2\sqrt{4}", 4),
        (r"2 \cdot -3", -6),
        (r"\sqrt[3]{8}", 2),
        (r"\log_2 8", 3),
        (r"\ln e", 1),
        (r"|1 - 3|", 2),
        (r"[1, 2] \cdot [3, 4]", 11),
        (r"\max(1, 3, 2)", 3),
        ("3!", 6),
        (r"\tfrac12 \cdot 4", 2),
        ("50%", 0.5),
        (r"\cancel{3} + 1", 4),
    ],
)
def test_precedence_and_functions(source: str, value: float) -> None:
    assert value_of(source) == pytest.approx(value)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("2 3", "without an operator before it"),
        (r"1\frac{1}{2}", "mixed number"),
        (r"\foo{3}", r"\\foo is not known"),
        ("1 +", "missing"),
        ("[101211]", "6 digits side by side"),
        ("9" * 130, "is too long"),
        ("1" + "/2" * 60, "quotients in a row"),
        ("-" * 60 + "1", "signs in a row"),
        ("x" + "^T" * 60, "scripts"),
        ("√" * 2000 + "3", "nested"),
        (r"\sqrt" * 2000 + "3", "nested"),
        (r"\hat" * 2000 + "x", "nested"),
        (r"\exp " * 2000 + "3", "nested"),
        ("K^{}", "empty"),
    ],
)
def test_what_is_not_read_says_why(source: str, reason: str) -> None:
    parse_read = parse_formula(source)
    assert any(re.search(reason, problem[2]) for problem in parse_read.problems), parse_read.problems


def test_a_part_that_is_not_read_leaves_the_rest() -> None:
    tokens = lex(r"\begin{bmatrix} 1 & 2 \\ \foo & 4 \end{bmatrix} .1")
    parser = Parser(tokens)
    term = parser.within(0, len(tokens.items))
    assert sum(isinstance(part, Unknown) for part in walk(term)) == 2
    assert len(parser.problems) == 2


def test_within_wants_all_of_the_range() -> None:
    tokens = lex("1 = 2")
    with pytest.raises(Misread, match="not expected"):
        Parser(tokens).within(0, 3)


def scripts_read(source: str) -> Expression:
    found = parse_formula(source)
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
    term = scripts_read(source)
    assert isinstance(term, Name)
    assert (term.indices, term.upper) == (indices, upper)


SCRIPTS = ("^T", r"^\top", r"^{\top}", "^{T}", r"^\intercal", "ᵀ", r"^{\mathsf{T}}", r"^\text{T}")


@pytest.mark.parametrize("script", SCRIPTS)
def test_transposes(script: str) -> None:
    assert scripts_read("K" + script) == Transpose(Name("K"))
    assert isinstance(scripts_read(r"\begin{bmatrix}1 & 2\end{bmatrix}" + script), Transpose)


def test_primes() -> None:
    assert scripts_read("X'") == Name("X", primes=1)
    assert isinstance(scripts_read("[1, 2]'"), Transpose)


def test_powers_of_names_are_powers() -> None:
    assert isinstance(scripts_read("D^2"), Power)
    assert scripts_read("d_k^2") == Power(Name("d", ("k",)), scripts_read("2"))
    assert scripts_read("d^2_k") == scripts_read("d_k^2")


@pytest.mark.parametrize("size", [r"_{(2 \times 3)}", r"_{2 \times 3}", "_{2×3}", " (2 × 3)", "_{(2,3)}"])
def test_sizes_noted_at_a_matrix(size: str) -> None:
    term = scripts_read(r"\begin{bmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \end{bmatrix}" + size)
    assert isinstance(term, Array)
    assert term.size == (2, 3)


def test_a_struck_matrix_keeps_its_size() -> None:
    term = scripts_read(r"\cancel{\begin{bmatrix} 4 & 4 & 3 \end{bmatrix}}_{(1 \times 3)}")
    assert isinstance(term, Struck)
    assert term.term.size == (1, 3)  # type: ignore[union-attr]


def test_a_cell_of_an_expression() -> None:
    assert scripts_read("(QK^T)_{1,2}") == Call("entry", (scripts_read("QK^T"),), "1,2")


def test_what_underbrace_says_is_left_out() -> None:
    assert scripts_read(r"\underbrace{1 + 2}_{\text{the sum}}") == scripts_read("1 + 2")


def lists_read(source: str) -> tuple[Expression, list[str], list[str]]:
    found = parse_formula(source)
    return found.drafts[0].terms[0].term, [p[2] for p in found.problems], [n[2] for n in found.notes]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"\begin{bmatrix} 12, 8, 10 \\ 11, 9, 13 \end{bmatrix}", "[12, 8, 10; 11, 9, 13]"),
        (r"\begin{bmatrix} 1, & 2 \\ 3, & 4 \\ \end{bmatrix}", "[1, 2; 3, 4]"),
        (r"\begin{bmatrix} 4 4 3 \end{bmatrix}", "[4, 4, 3]"),
        ("[1 -2 3]", "[1, -2, 3]"),
        ("[1 - 2, 3]", "[1 - 2, 3]"),
        (r"[1 \cdot 1, 1 \cdot 2]", "[1·1, 1·2]"),
        ("[[1. 2.]\n [3. 4.]]", "[1, 2; 3, 4]"),
        ("2((1, 2), (3, 4))", "2[1, 2; 3, 4]"),
        ("[[1], [2]]", "[1; 2]"),
        (r"\{1, 2\}", "[1, 2]"),
        ("[A | B]", "[A, B]"),
        (r"\left(\begin{matrix} 1 \\ 2 \end{matrix}\right)", "[1; 2]"),
        (r"\begin{array}{c|c} 1 & 2 \\ \hline 3 & 4 \end{array}", "[1, 2; 3, 4]"),
    ],
)
def test_cells(source: str, expected: str) -> None:
    term, problems, _ = lists_read(source)
    assert label(term) == expected
    assert not problems


def test_a_list_is_flat_and_a_matrix_is_not() -> None:
    assert lists_read("[1, 2]")[0].flat  # type: ignore[union-attr]
    assert not lists_read("[[1, 2]]")[0].flat  # type: ignore[union-attr]
    assert not lists_read(r"\begin{bmatrix} 1 & 2 \end{bmatrix}")[0].flat  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "source",
    ["x = 0,1967", "[0,1967]", r"\begin{bmatrix} 0,053 \end{bmatrix}"],
)
def test_a_comma_that_may_be_decimal_is_not_guessed(source: str) -> None:
    assert any("decimal comma" in problem for problem in [p[2] for p in parse_formula(source).problems])


@pytest.mark.parametrize("source", ["[1,2]", "(1,2,3)", "x = 0{,}1967", "i = 1, 2", "x = 521,428,992"])
def test_commas_that_are_plain(source: str) -> None:
    assert not parse_formula(source).problems


def test_assumptions_are_noted() -> None:
    assert "subtraction" in lists_read("[1 -2]")[2][0]
    assert "row separators" in lists_read("(0,5; 0,25)")[2][0]
    assert [n[2] for n in parse_formula("x = 521,428,992").notes] == ["read as the number 521428992"]


def test_ragged_rows_are_kept_and_reported() -> None:
    term, problems, _ = lists_read(r"\begin{bmatrix} 1 & 2 & 3 \\ 4 \end{bmatrix}")
    assert isinstance(term, Array)
    assert term.ragged
    assert problems == ["row 2 of the matrix has 1 entry, row 1 has 3"]


@pytest.mark.parametrize("source", ["[]", r"\begin{bmatrix}\end{bmatrix}", "{}"])
def test_nothing_in_brackets(source: str) -> None:
    assert any("nothing" in p[2] or "empty" in p[2] for p in parse_formula(source).problems)
