"""Statements of a formula, and whether their equations hold."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from flint import ctx
from hypothesis import given
from hypothesis import strategies as st

from glassformer.exercises.arithmetic import interval
from glassformer.exercises.expression import Call, Name, Negative, Product, Struck, Transpose, number
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import ArithmeticFinding, arithmetic, read, read_file
from glassformer.exercises.reader.equations import Comparison, compare_sides, verdict_of
from glassformer.exercises.reader.statements import Link, Statement, parse_formula, split_target, target_of


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
    (draft,) = parse_formula(source).drafts
    pairs = split_target(draft.terms)
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
        (draft,) = parse_formula(source).drafts
        ((target, _),) = split_target(draft.terms)
        assert target is not None
        assert (target.name, target.indices) == ("A", (1, 2)), source


def test_one_term_alone_has_no_target() -> None:
    assert settled("Q_1") == [(None, ["Q_1"])]


Read = list[tuple[str | None, list[str]]]


def chains(source: str) -> Read:
    return [
        (target.label if target else None, [f"{link.relation}{label(link.term)}" for link in terms])
        for draft in parse_formula(source).drafts
        for target, terms in split_target(draft.terms)
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
    (draft,) = parse_formula(r"i = 0 \text{ scores to } j \rightarrow [1 \cdot 1, 1 \cdot 2]").drafts
    assert draft.words == "scores to"
    assert [(name, label(value)) for name, value in draft.given] == [("i", "0")]
    assert draft.terms[1].relation == "→"


def test_crossed_out_chains() -> None:
    (draft,) = parse_formula(r"\cancel{1 + 1 = 3}").drafts
    assert draft.crossed
    left, right = parse_formula(r"\cancel{\begin{bmatrix} 78 \end{bmatrix}} = 78").drafts[0].terms
    assert (left.struck, right.struck) == (True, False)


def test_leading_and_dangling_relations() -> None:
    assert parse_formula("= 3").drafts[0].leading
    assert parse_formula("Q =").drafts[0].dangling == "="


def test_a_segment_that_is_not_read_leaves_the_chain() -> None:
    found = parse_formula(r"Q = \foo \bar{} = [1, 2]")
    assert found.problems
    assert label(found.drafts[0].terms[-1].term) == "[1, 2]"


@pytest.mark.parametrize("source", [r"\cdot", r"^\top", "-", r"\times", r"\surd", ""])
def test_a_sign_alone_says_nothing(source: str) -> None:
    found = parse_formula(source)
    assert not found.drafts
    assert not found.problems


def test_lines_within_a_formula() -> None:
    (draft,) = parse_formula("a\n= 1\n= 2", line=7).drafts
    assert [link.line for link in draft.terms] == [7, 8, 9]


def test_endless_chains_and_problems_are_cut_short() -> None:
    assert "more than 200 terms" in parse_formula("1=" * 300 + "1").problems[0][2]
    assert len(parse_formula(r"\foo" * 500).problems) == 21


def compared(source: str) -> Comparison:
    left, right = parse_formula(source).drafts[0].terms
    return compare_sides(left.term, right.relation, right.term)


@given(st.fractions(-50, 50), st.integers(1, 6), st.integers(-3, 3))
def test_the_rule_on_exact_values(value: Fraction, places: int, off: int) -> None:
    """Correctly rounded is right, one unit off is rounded, two or more are wrong, whatever the value."""
    unit = Fraction(1, 10**places)
    scaled = round(value / unit) + off
    text = f"{abs(scaled) // 10**places}.{abs(scaled) % 10**places:0{places}d}"
    given_term = Negative(number(text)) if scaled < 0 else number(text)
    distance = abs(scaled * unit - value)
    expected = "right" if distance <= unit / 2 else "rounded" if distance <= 3 * unit / 2 else "wrong"
    with ctx.workprec(128):
        assert verdict_of(interval(value), given_term) == expected


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        (r"\frac{224}{16} = 14", "right"),
        ("e^2/13.8256 = 0.5343", "rounded"),
        ("e^2/13.8256 = 0.5344", "right"),
        ("e^2/13.8256 = 0.5342", "wrong"),
        ("e^2/70.3763 = 0.1050", "right"),
        (r"0.1967 \cdot 2 + 0.5343 \cdot 0 + 0.0723 \cdot 1 + 0.1967 \cdot 1 = 0.6624", "right"),
        (r"2 \cdot 3 = 7", "wrong"),
        ("7/2 = 4", "wrong"),
        (r"7/2 \approx 4", "right"),
        (r"7/2 \approx 5", "wrong"),
        ("e^2 = 7", "rounded"),
        (r"e^2 \approx 7", "right"),
        ("e^2 = 8", "wrong"),
        ("1/3 = 0.33", "right"),
        ("2/3 = 0.66", "rounded"),
        (r"\frac{1}{3} = \frac{2}{6}", "right"),
        (r"\frac{1}{3} = \frac{2}{5}", "wrong"),
        ("e^2/7 = 7.389/7", "right"),
        ("9^{9^9} = 3", "unread"),
        (r"\begin{bmatrix} 1 & 2 \end{bmatrix} \begin{bmatrix} 3 \\ 4 \end{bmatrix} = 11", "right"),
        (r"\text{softmax}([[0, 0], [0, 1]]) = [[0.5, 0.5], [0.2689, 0.7311]]", "right"),
        (r"\text{softmax}([[0, 0], [0, 1]]) = [[0.5, 0.2689], [0.5, 0.7311]]", "right"),
        (r"\begin{bmatrix} 1 \\ 2 \end{bmatrix} = \begin{bmatrix} 1 & 2 \end{bmatrix}", "right"),
        (r"\begin{bmatrix} 0 & -\infty \end{bmatrix} = \begin{bmatrix} 0 & -\infty \end{bmatrix}", "right"),
    ],
)
def test_verdicts(source: str, verdict: str) -> None:
    assert compared(source).verdict == verdict


def test_cells_carry_what_was_expected() -> None:
    found = compared(r"[[1, 2], [3, 4]] [[1, 0], [0, 1]] = [[1, 2], [3, 5]]")
    wrong = [cell for cell in found.cells if cell.verdict != "right"]
    assert [(cell.row, cell.column, cell.given, cell.expected) for cell in wrong] == [(2, 2, "5", "4")]


def test_strict_tells_what_only_the_rounding_of_the_operands_allows() -> None:
    (loose,) = compared(r"0.5 \cdot 3 = 1.6").cells
    (strict,) = compared(r"0.5 \cdot 3 = 1.5").cells
    assert (loose.verdict, loose.strict) == ("right", False)
    assert (strict.verdict, strict.strict) == ("right", True)


def test_a_number_beside_a_vector() -> None:
    found = compared(r"0.25 \cdot 2 + 0.1 = \begin{bmatrix} 0 \\ 0.6 \end{bmatrix}")
    assert (found.verdict, found.cells[0].row, found.cells[0].column) == ("right", 2, 1)
    assert "row 2" in found.reason
    assert compared(r"1 + 1 = \begin{bmatrix} 0 \\ 5 \end{bmatrix}").verdict == "shape"


def test_sizes() -> None:
    found = compared("[[1, 2], [3, 4]] [[1, 0, 0], [0, 1, 0]] = [[1, 2], [3, 4]]")
    assert (found.verdict, found.reason) == ("shape", "2×2 times 2×3 gives 2×3, but 2×2 is written")
    assert {cell.verdict for cell in found.cells} == {"right"}
    assert compared("[[1, 2]] [[1, 2]] = 3").verdict == "shape"


SAMPLES = Path(__file__).parent.parent / "samples"


def findings(text: str) -> list[ArithmeticFinding]:
    return arithmetic(read(text))


def verdicts(text: str) -> list[str]:
    return [found.verdict for found in findings(text)]


def test_every_neighbour_in_a_chain_is_compared() -> None:
    assert verdicts("$Q = X W = 2 + 2 = 4 = 5$") == ["right", "wrong"]
    assert verdicts("$w = 0.25$") == []
    assert verdicts("$1 + 1 < 3 = 4 - 1$") == ["right"]


def test_arrows_join_a_computation_and_its_result() -> None:
    assert verdicts(r"$2 \cdot 3 \Rightarrow 7$") == ["wrong"]
    assert verdicts(r"$2 \rightarrow 3$") == []


def test_crossed_out_parts_are_never_judged() -> None:
    assert verdicts(r"$1 + 1 = \cancel{3} = 2$") == ["right"]
    assert verdicts("~~$1 + 1 = 3$~~ and $1 = 1$") == ["right"]
    assert verdicts(r"$\cancel{1 + 1 = 3}$ and $1 = 1$") == ["right"]


def test_a_size_that_is_not_the_size() -> None:
    (found,) = findings(r"$$Q = \begin{bmatrix} 1 & 2 \end{bmatrix}_{(2 \times 1)}$$")
    assert (found.verdict, found.reason) == ("shape", "a matrix of size 1×2 is labelled 2×1")


def test_sums_announced_in_words() -> None:
    assert verdicts("Exponential: $[e, e^2, 1, e]$. If we sum them we get circa 13.8256.") == ["right"]
    assert verdicts("Exponential: $[e, e^2, 1, e]$. If we sum them we get circa 13.8266.") == ["wrong"]


def test_a_strike_lost_by_the_scan_is_suspected() -> None:
    a, b, v = "[[1, 2], [0, 1]]", "[[5, 5], [7, 7]]", "[[1, 1], [0, 2]]"
    (found,) = findings(f"$${a} {b} {v} = [[1, 5], [0, 2]]$$")
    assert found.verdict == "wrong"
    assert found.reason == "it agrees if the second of the 3 matrices is left out"


def test_four_tokens() -> None:
    found = {f.line: f for f in arithmetic(read_file(SAMPLES / "four-tokens.md"))}
    assert {line: f.verdict for line, f in found.items()} == {
        9: "right", 41: "right", 43: "rounded", 45: "rounded", 47: "right", 49: "rounded", 53: "right", 55: "right",
        57: "rounded", 59: "right", 61: "right", 69: "right",
    }  # fmt: skip
    assert [(c.given, c.expected) for c in found[45].cells] == [("0.5343", "0.5344")]
    assert [(c.row, c.column) for c in found[69].cells] == [(2, 1)]


def test_two_heads() -> None:
    found = arithmetic(read_file(SAMPLES / "two-heads.md"))
    assert [(f.line, f.verdict) for f in found] == [
        (19, "wrong"), (21, "wrong"), (23, "shape"), (29, "shape"), (35, "wrong"), (35, "wrong"), (39, "right"),
        (41, "right"), (55, "right"), (59, "right"), (63, "wrong"), (95, "wrong"),
    ]  # fmt: skip
    wrong = [(c.row, c.column, c.given, c.expected) for c in found[0].cells if c.verdict == "wrong"]
    assert wrong == [(2, 2, "0", "5")]
    assert found[2].reason == "2×6 times 6×4 gives 2×4, but 2×3 is written"
    assert found[3].reason == "2×3 times 3×2 gives 2×2, but 3×2 is written"
    assert found[4].reason == "it agrees if the second of the 3 matrices is left out"
    assert found[10].reason == "3 of 6 cells agree if the first of the 3 matrices is left out"
