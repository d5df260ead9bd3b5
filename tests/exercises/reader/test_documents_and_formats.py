"""Documents of every format become statements."""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import docx
import nbformat
import openpyxl
import pytest
from docx.oxml import parse_xml
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from glassformer.errors import GlassError, InputError
from glassformer.exercises import library
from glassformer.exercises.expression import Array, Name
from glassformer.exercises.grade import grade
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import Reading, arithmetic, read, read_file
from glassformer.exercises.reader.document import TableContents, latex_table, markdown_table, pieces, scan
from glassformer.exercises.reader.formats import IMAGES, convert
from glassformer.exercises.reader.printouts import printouts
from glassformer.exercises.solution import render, solve

ONE = r"\begin{bmatrix}1\end{bmatrix}"


def cut(text: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text.strip()) for piece in pieces(text) if piece.text.strip()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so $x = 1$.", [("prose", "so"), ("inline", "x = 1"), ("prose", ".")]),
        (r"so \(x = 1\)", [("prose", "so"), ("inline", "x = 1")]),
        ("$$x = 1$$", [("display", "x = 1")]),
        (r"\[x = 1\]", [("display", "x = 1")]),
        (r"\begin{align*}a&=1\end{align*}", [("display", r"\begin{align*}a&=1\end{align*}")]),
        ("it costs $5 and then $10", [("prose", "it costs $5 and then $10")]),
        (r"a \$5 note", [("prose", r"a \$5 note")]),
        ("```\nQ = 1\n```\nend", [("code", "Q = 1"), ("prose", "end")]),
        ("a `x = 1` b", [("prose", "a"), ("code", "x = 1"), ("prose", "b")]),
        ("a <!-- $x = 1$ --> b", [("prose", "a"), ("prose", "b")]),
        ("![a scan](scan.png)", [("picture", "![a scan](scan.png)")]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nend", [("table", "| a | b |\n|---|---|\n| 1 | 2 |"), ("prose", "end")]),
        ("a\tb\n1\t2\nend", [("table", "a\tb\n1\t2"), ("prose", "end")]),
        (r"\begin{tabular}{cc}1&2\end{tabular}", [("tabular", "{cc}1&2")]),
        (r"\begin{verbatim}Q = 1\end{verbatim}", [("code", "Q = 1")]),
        ("open $$x = 1\n\nnext", [("prose", "open"), ("open", "x = 1"), ("prose", "next")]),
        (
            "$$a = 1\n\nhere we have some more words, then\n\n$$b = 2$$",
            [("open", "a = 1"), ("prose", "here we have some more words, then"), ("display", "b = 2")],
        ),
        (f"so Q = {ONE} {ONE} = {ONE}", [("prose", "so"), ("display", f"Q = {ONE} {ONE} = {ONE}")]),
    ],
)
def test_pieces(text: str, expected: list[tuple[str, str]]) -> None:
    assert cut(text) == expected


def test_lines() -> None:
    text = "one\n\n$$a\n= 1$$\ntwo $b$\n\n```\nc = 2\n```\n"
    assert [(piece.kind, piece.line) for piece in pieces(text) if piece.text.strip()] == [
        ("prose", 1), ("display", 3), ("prose", 4), ("inline", 5), ("code", 8),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["~~$x = 1$~~ $y = 2$", "<del>$x = 1$</del> $y = 2$", "<s>a $x = 1$</s> $y = 2$"])
def test_crossed_out(text: str) -> None:
    assert [piece.crossed for piece in pieces(text) if piece.kind == "inline"] == [True, False]


def test_a_strike_that_never_closes_is_none() -> None:
    assert not any(piece.crossed for piece in pieces("about ~~5 $x = 1$\n\n$y = 2$ ~~"))


def test_nothing_is_lost() -> None:
    text = "a $x$ b $$y$$ c `d` e\n"
    assert "".join(piece.text for piece in pieces(text)) == "a x b y c d e\n"


def found(text: str, *, code: bool = False) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in scan(text, 1, code=code) if event.kind != "words"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So Q = [[1, 2], [3, 4]] and K = [5].", [("formula", "Q = [[1, 2], [3, 4]]"), ("formula", "K = [5]")]),
        ("The total is 14 x 14 = 196. We go on.", [("formula", "14 x 14 = 196")]),
        ("If we sum them we get circa 13.8256.", [("number", "13.8256")]),
        ("The weights are 0.1966, 0.5344, 0.0723.", [("number", "[0.1966, 0.5344, 0.0723]")]),
        ("Q: [[1, 2], [3, 4]]", [("formula", "Q: [[1, 2], [3, 4]]")]),
        ("For row 1: [0.5, 0.5]", [("formula", "[0.5, 0.5]")]),
        ("**Q** = [1, 2] and *K* = [3, 4]", [("formula", "Q = [1, 2]"), ("formula", "K = [3, 4]")]),
        ("The sum is 14.", [("number", "14")]),
        ("- w_12 = e^2/13.8256 = 0.5343", [("formula", "w_12 = e^2/13.8256 = 0.5343")]),
        ("1. S11 = 1*2 + 2*1 = 4", [("formula", "S11 = 1*2 + 2*1 = 4")]),
        ("Sum = 13.8256", [("formula", "Sum = 13.8256")]),
        ("the exponentials are [e, e^2, 1, e] here", [("formula", "[e, e^2, 1, e]")]),
        ("softmax([1, 2]) = [0.27, 0.73]", [("formula", "softmax([1, 2]) = [0.27, 0.73]")]),
        ("Q =\n1 2\n3 4", [("formula", "Q = [1 2; 3 4]")]),
        ("1 2\n3 4\nend", [("formula", "[1 2; 3 4]")]),
        ("Q = [[1, 2],\n     [3, 4]]", [("formula", "Q = [[1, 2],\n     [3, 4]]")]),
        (r"so 0.5 \cdot 2 = 1", [("formula", r"0.5 \cdot 2 = 1")]),
        ("an image of 224x224 and a patch size of 16x16", []),
        ("We have 3 tokens and 2 heads.", []),
        ("See section 3.2 and Table 1.5.", []),
        ("On 2024-05-12 at 10:30 it was the 2nd time.", []),
        ("and/or self-attention, e.g. (see above) - fine", []),
        ("https://example.org/a=1?b=2.5", []),
    ],
)
def test_scan(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


def test_code_is_read_line_by_line() -> None:
    code = "import numpy as np\nQ = np.array([[1, 2]])\nA = softmax(Q @ K.T / np.sqrt(2))  # weights\nprint(Q)"
    assert found(code, code=True) == [("formula", "Q = ([[1, 2]])"), ("formula", "A = softmax(Q @ K^T / sqrt(2))")]


def test_lines_are_counted() -> None:
    events = [event for event in scan("one\n\na = 1\nb = 2", 5) if event.kind == "formula"]
    assert [event.line for event in events] == [7, 8]


def test_endless_lines_are_reported() -> None:
    assert found("1 " * 20_000)[0][0] == "long"


def test_words_come_before_their_formula() -> None:
    events = [(event.kind, event.text.strip()) for event in scan("For row 2 we get x = 3", 1)]
    assert events == [("words", "For row 2"), ("words", "we get"), ("formula", "x = 3")]


def shown(table: TableContents) -> list[tuple[int, str | None, str]]:
    return [(line, label(target) if target else None, label(term)) for line, _, target, term in table.chains]


def test_a_matrix_with_names_around_it() -> None:
    table = markdown_table("| A | k1 | k2 |\n|---|---|---|\n| q1 | 0.25 | 0.75 |\n| q2 | 0.50 | 1/2 |", 3)
    assert shown(table) == [(3, "A", "[0.25, 0.75; 0.50, 1/2]")]
    assert not table.problems


def test_a_matrix_with_numbered_rows_and_columns() -> None:
    table = markdown_table("| A | 1 | 2 |\n|---|---|---|\n| 1 | 0.25 | 0.75 |\n| 2 | 0.5 | 0.5 |", 1)
    assert shown(table) == [(1, "A", "[0.25, 0.75; 0.5, 0.5]")]


def test_names_and_numbers() -> None:
    table = markdown_table("| weight | value |\n|---|---|\n| $w_{1,1}$ | 0.1967 |\n| w_12 | $e^2/2$ |", 1)
    assert shown(table) == [(3, "w_{1,1}", "0.1967"), (4, "w_{12}", "e^2/2")]


def test_words_are_read_for_their_formulas() -> None:
    table = markdown_table("Net\tCost\nCNN\t$O(k^2)$ for one\nRNN\t$O(n)$", 1)
    assert not table.chains
    assert table.formulas == [(2, "O(k^2)"), (3, "O(n)")]


def test_ambiguous_tables_are_reported() -> None:
    assert "3 to 4 cells" in markdown_table("1\t2\t3\n1\t2\t3\t4", 1).problems[0][2]
    assert "as a number" in markdown_table("| a | b |\n|---|---|\n| 1 | 4 5 6 |\n| 2 | 3 |", 1).problems[0][2]
    assert "unclear" in markdown_table("from\tto\tx\tamount\nx\ty\tz\t4 6", 1).problems[0][2]


def test_tabular() -> None:
    table = latex_table("{c|cc}\n\\hline\n & $k_1$ & $k_2$ \\\\ \\hline\n$q_1$ & 4 & 6 \\\\\n$q_2$ & 1 & 2 \\\\\n", 1)
    assert shown(table) == [(1, None, "[4, 6; 1, 2]")]


def test_vectors_under_their_names() -> None:
    table = markdown_table("| token | q | $k_i$ |\n|---|---|---|\n| 1 | (1, 2) | (1, 0) |\n| token 2 | [3, 4] | |", 1)
    assert shown(table) == [(3, "q_1", "[1, 2]"), (3, "k_1", "[1, 0]"), (4, "q_2", "[3, 4]")]
    assert not table.problems


def test_vectors_without_a_token_are_reported() -> None:
    table = markdown_table("| who | q | k |\n|---|---|---|\n| cat | (1, 2) | (1, 0) |\n| dog | (3, 4) | (2, 1) |", 1)
    assert not table.chains
    assert "which vectors these are" in table.problems[0][2]


SAMPLES = Path(__file__).parent.parent / "samples"


def statements_of(reading: Reading) -> list[tuple[int, str | None, list[str]]]:
    return [
        (s.line, s.target.label if s.target else None, [f"{link.relation}{label(link.term)}" for link in s.terms])
        for s in reading.statements
    ]


def test_four_tokens_is_read_completely() -> None:
    reading = read_file(SAMPLES / "four-tokens.md")
    assert not reading.unread
    assert not reading.notes
    named = {s.target.label: label(s.terms[-1].term) for s in reading.statements if s.target and s.target.label != "j"}
    assert named["p_0"] == "[1; 2]"
    assert named["W_v"] == "[0, 0; 0, 1]"
    assert named["v_1"] == "[0; 2]"
    assert named["k_4"] == "[1; 0]"
    weights = [named[f"w_{{{i},{j}}}"] for i in (1, 2) for j in (1, 2, 3, 4)]
    assert weights == ["0.1967", "0.5343", "0.0723", "0.1967", "0.1050", "0.7757", "0.0142", "0.1050"]
    assert named["w_{3,j}"] == "0.25"
    assert [named[f"out_{i}"] for i in (1, 2, 3, 4)] == ["[0; 0.6624]", "[0; 0.3292]", "[0; 1]", "[0; 0.6624]"]


def test_four_tokens_rows_of_scores() -> None:
    reading = read_file(SAMPLES / "four-tokens.md")
    rows = [s for s in reading.statements if s.words.endswith("scores to")]
    assert [(s.line, s.given[0][0], label(s.given[0][1]), label(s.terms[0].term)) for s in rows] == [
        (27, "i", "0", "[1·1, 1·2, 1·0, 1·1]"),
        (29, "i", "1", "[2·1, 2·2, 2·0, 2·1]"),
        (31, "i", "2", "[0·1, 0·2, 0·0, 0·1]"),
        (33, "i", "3", "[1·1, 1·2, 1·0, 1·1]"),
    ]
    (scores,) = (s for s in reading.statements if s.words.endswith("the confusion matrix is:"))
    assert label(scores.terms[0].term).startswith("[1, 2, 0, 1; 2, 4, 0, 2")
    (sums,) = (s for s in reading.statements if s.line == 53 and s.place == "prose")
    assert (label(sums.terms[0].term), sums.words) == ("70.3763", ". If we sum them we get circa")


def test_two_heads_is_read_as_far_as_it_can_be() -> None:
    reading = read_file(SAMPLES / "two-heads.md")
    assert [(entry.line, entry.reason.split(":")[0]) for entry in reading.unread] == [
        (7, "this may be the number 101211 or 6 digits side by side"),
        (7, "this may be the number 120111 or 6 digits side by side"),
        (71, "row 2 of the matrix has 1 entry, row 1 has 3"),
        (71, "there is a number here without an operator before it"),
        (90, "this cell of the table cannot be read as a number"),
        (105, "it is unclear which cells of this table are numbers"),
    ]
    assert [s.line for s in reading.statements if s.struck] == [27, 27]
    targets = [s.target.label for s in reading.statements if s.target]
    assert targets[:4] == ["Q_i", "K_i", "V_i", "Ω, K^T"]
    assert {"Ω_2", "K_2", "V_2", "α_2k_2^T"} <= set(targets)
    (chain,) = (s for s in reading.statements if s.line == 33)
    assert [(link.line, link.relation) for link in chain.terms] == [(33, ""), (35, "="), (35, "≈")]


def test_a_latex_file() -> None:
    text = r"""\documentclass{article}
\newcommand{\mat}[1]{\begin{bmatrix} #1 \end{bmatrix}}
\begin{document}
\section{Queries} % $K = 3$
\[ Q = X W_Q = \mat{1 & 2} \]
\begin{align*}
s_{11} &= q_1 \cdot k_1 = 4, & s_{12} &= 6 \\
Z &= e^{4} + e^{6} = 458.03
\end{align*}
\end{document}"""
    assert statements_of(read(text, "mine.tex")) == [
        (5, "Q", ["=XW_Q", "=[1, 2]"]),
        (7, "s_{11}", ["=q_1k_1", "=4"]),
        (7, "s_{12}", ["=6"]),
        (8, "Z", ["=e^4 + e^6", "=458.03"]),
    ]


def test_what_begins_with_a_relation_goes_on() -> None:
    text = "$$Q = [1, 2][3, 4]$$\n\n$$= 11$$\n\nSo\n\n$$= 12$$"
    assert statements_of(read(text)) == [(1, "Q", ["=[1, 2][3, 4]", "=11"]), (7, None, ["=12"])]
    assert statements_of(read("Q =\n\n$$[1, 2]$$")) == [(1, "Q", ["=[1, 2]"])]


def test_places_words_and_context() -> None:
    table = "| w_1 | 3 |\n|---|---|\n| w_2 | 4 |"
    reading = read(f"For row 2:\n\n$$a = 1$$\n$$b = 2$$\n\n{table}\n\nWe get x = 5, circa 6.5")
    assert [(s.place, s.words, s.context) for s in reading.statements] == [
        ("display", "For row 2:", "For row 2:"), ("display", "", "For row 2:"), ("table", "", "For row 2:"),
        ("plain", "w_1 3 We get", "w_1 3 We get"), ("prose", "circa", "circa"),
    ]  # fmt: skip


@pytest.mark.parametrize("infinity", ["-inf", "-infinity", "- infinity", "minus infinity", "−∞", "-oo", r"-\infty"])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("S = [[1, {}], [2, 3]]\n", "a.md"),
        ("S =\n 1.0  {}\n 2.0  3.0\n", "a.txt"),
        ("S\n1,{}\n2,3\n", "a.csv"),
        ("S: [[1, '{}'], [2, 3]]\n", "a.yaml"),
        ("| S | k1 | k2 |\n|---|---|---|\n| q1 | 1 | {} |\n| q2 | 2 | 3 |\n", "a.md"),
    ],
)
def test_minus_infinity(infinity: str, text: str, name: str) -> None:
    (statement,) = read(text.replace("{}", infinity), name).statements
    assert label(statement.terms[-1].term).replace(".0", "") == "[1, -∞; 2, 3]"


def test_thousands() -> None:
    (statement,) = read("x = 1,234.5 + 1,234,567\n").statements
    assert label(statement.terms[-1].term) == "1234.5 + 1234567"


def test_pictures_and_open_formulas_are_listed() -> None:
    reading = read("![my scan](a.png)\n\n$$Q = [1, 2]\n\nend")
    assert [(entry.line, entry.reason.split(":")[0]) for entry in reading.unread] == [
        (1, "pictures cannot be read"), (3, "the formula is never closed"),
    ]  # fmt: skip
    assert statements_of(reading) == [(3, "Q", ["=[1, 2]"])]


def test_windows_files() -> None:
    assert statements_of(read(b"\xef\xbb\xbfa\r\n\r\n$x = 1$\r\n")) == [(3, "x", ["=1"])]
    assert statements_of(read("$x = 1$".encode("utf-16"))) == [(1, "x", ["=1"])]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("There is no mathematics here, only words.", "no mathematics"),
        ("", "no mathematics"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is not text"),
        ("a\0b", "is not text"),
        (b"\xff\xfa\xfb", "is not text"),
        ("x" * 10_000_000, "10.0 MB"),
        (b"x" * 10_000_000, "10.0 MB"),
        ("$a = 1$ " * 100_000, "the document contains too much mathematics"),
    ],
)
@pytest.mark.timeout(60)
def test_what_is_refused_is_refused_in_one_line_at_once(text: str | bytes, fact: str) -> None:
    with pytest.raises(InputError, match=fact) as caught:
        read(text, "notes.md")
    assert "\n" not in str(caught.value)


def test_files(tmp_path: Path) -> None:
    large = tmp_path / "large.md"
    large.write_bytes(b"$" * 10_000_000)
    with pytest.raises(InputError, match=r"large.md is 10.0 MB"):
        read_file(large)
    with pytest.raises(InputError, match="cannot be read"):
        read_file(tmp_path / "none.md")
    with pytest.raises(InputError, match="kind 'word' is not known"):
        read("x", kind="word")


SCRAPS = r"""
$ $$ \[ \] { } [ ] ( ) \begin{bmatrix} \end{bmatrix} & \\ = ^ _ ' | \frac \sqrt \cancel{ \text{ e Q 1 0.5 , ; ~~
` - + / * \sum \left \right … ½ ² ᵢ √ ∞ \hat % ! <del> # |---| \begin{align} \end{align} \item 1e-999 ² ١ \def\a
"""
BITS = [*SCRAPS.split(), "\n", "\n\n", "\t"]


def survives(text: str, kind: str = "auto") -> None:
    said: InputError | None = None
    try:
        reading = read(text, kind=kind)
        findings = arithmetic(reading)
    except InputError as error:
        said = error
    if said is not None:
        assert "\n" not in str(said)
        return
    last = text.count("\n") + 1
    assert all(1 <= entry.line <= last for entry in (*reading.statements, *reading.unread, *findings))
    assert all(entry.reason for entry in reading.unread)


@given(st.lists(st.sampled_from(BITS) | st.characters(codec="utf-8"), max_size=60), st.booleans())
@settings(max_examples=150)
def test_random_scraps_never_crash(bits: list[str], spaced: bool) -> None:
    survives((" " if spaced else "").join(bits))


@given(st.text(max_size=80), st.sampled_from(["auto", "latex", "yaml", "json", "csv"]))
def test_random_text_never_crashes(text: str, kind: str) -> None:
    survives(text, kind)


@pytest.mark.variants(8)
@pytest.mark.parametrize("sample", ["four-tokens.md", "two-heads.md"])
@pytest.mark.parametrize("seed", range(12))
def test_spoilt_samples_never_crash(sample: str, seed: int) -> None:
    scraps, rng = list((SAMPLES / sample).read_text(encoding="utf-8")), random.Random(seed)
    for _ in range(rng.randint(1, 60)):
        place = rng.randrange(len(scraps))
        scraps[place : place + rng.randint(0, 6)] = [rng.choice(BITS)]
    survives("".join(scraps))


HOSTILE = (
    "$", "\\[", "{", "[", "`", "~~", "![", "a|b\n", "a\tb\n", "\\begin{bmatrix}", "x^", "[1,", "$\\text{", "a=",
    "a = 1, ", "0.5 ", "word ", "\n", "1 2\n", "Q =\n", "1/", "½", "$[", "```\n", "|1|",
    "\\newcommand{\\a}{\\a\\a}\\a ", "1\t", "$|1|",
)  # fmt: skip


@pytest.mark.variants(8)
@pytest.mark.parametrize("scrap", HOSTILE)
@pytest.mark.timeout(60)
def test_the_time_is_linear(scrap: str) -> None:
    """What took the square of the length would take minutes here."""
    text = scrap * (10_000 // len(scrap))
    survives(text)
    survives("$" + text + "$")


def said(reading: Reading) -> dict[str, str]:
    """The last side of every statement that has a target."""
    return {s.target.label: label(s.terms[-1].term) for s in reading.statements if s.target and s.terms}


def test_notebooks() -> None:
    v4 = nbformat.v4
    cells = [
        v4.new_markdown_cell(r"The queries are $Q = \begin{bmatrix} 1 & 2 \end{bmatrix}$."),
        v4.new_code_cell("K = np.array([[3, 4]])"),
        v4.new_code_cell("V", outputs=[v4.new_output("execute_result", {"text/plain": "tensor([[5.0],\n  [7.0]])"})]),
        v4.new_code_cell("print(S)\nprint(A)", outputs=[v4.new_output("stream", text="[[1.5 2.5]]\n[[0.3 0.7]]\n")]),
        v4.new_raw_cell("X = 9"),
    ]
    found = said(read(nbformat.writes(v4.new_notebook(cells=cells)), "work.ipynb"))
    assert found == {"Q": "[1, 2]", "K": "[3, 4]", "V": "[5.0; 7.0]", "S": "[1.5, 2.5]", "A": "[0.3, 0.7]"}


@pytest.mark.parametrize(
    ("code", "sides"),
    [
        ("scores = Q @ K.T\nscores", ["QK^T", "[3, 4]"]),
        ("scores = Q @ K.T / 2\nscores", ["[3, 4]"]),
        ("scores = Q @ W\nscores", ["[3, 4]"]),
    ],
)
def test_the_output_of_a_product_in_a_notebook_is_read_with_its_definition(code: str, sides: list[str]) -> None:
    v4 = nbformat.v4
    output = v4.new_output("execute_result", {"text/plain": "tensor([[3., 4.]])"})
    cells = [v4.new_code_cell(code, outputs=[output])]
    *_, printed = read(nbformat.writes(v4.new_notebook(cells=cells)), "work.ipynb").statements
    assert printed.target is not None
    assert printed.target.label == "scores"
    assert [label(side.term) for side in printed.terms] == sides


def test_pdf_with_a_text_layer(tmp_path: Path) -> None:
    figure = Figure()
    figure.text(0.1, 0.8, "Q = [[1, 2], [3, 4]]")
    figure.text(0.1, 0.6, "w12 = 0.5344")
    figure.savefig(tmp_path / "work.pdf")
    found = said(read_file(tmp_path / "work.pdf"))
    assert found["Q"] == "[1, 2; 3, 4]"
    assert "0.5344" in found.values()


def test_matrices_without_brackets_on_one_line_of_a_pdf(tmp_path: Path) -> None:
    """The names stand between the rows, and no bracket has a character of its own."""
    figure = Figure()
    for name, left, rows in (("Q", 0.1, ((1, 0), (4, 2))), ("K", 0.4, ((0, 3), (1, 5)))):
        figure.text(left, 0.8, f"{name} =")
        for i, row in enumerate(rows):
            for j, number in enumerate(row):
                figure.text(left + 0.08 + 0.05 * j, 0.815 - 0.03 * i, str(number))
    figure.savefig(tmp_path / "work.pdf")
    assert said(read_file(tmp_path / "work.pdf")) == {"Q": "[1, 0; 4, 2]", "K": "[0, 3; 1, 5]"}


def test_thousands_and_masked_scores_in_a_pdf(tmp_path: Path) -> None:
    figure = Figure()
    for row, text in enumerate(("S =  1,234.5    -infinity", "         12.25      3,000.75")):
        figure.text(0.1, 0.9 - 0.05 * row, text, family="monospace")
    figure.savefig(tmp_path / "work.pdf")
    assert said(read_file(tmp_path / "work.pdf")) == {"S": "[1234.5, -∞; 12.25, 3000.75]"}


def test_matrices_of_a_pdf_made_with_latex() -> None:
    """samples/matrices.pdf is samples/matrices.tex: tall brackets, matrices side by side, column vectors, fractions."""
    found = said(read_file(Path(__file__).parent.parent / "samples" / "matrices.pdf"))
    assert found["Q"] == "[3, 0; 1, 1; 2, 1]"
    assert found["K"] == "[2, 3; 2, 1; 1, 2]"
    assert [found[f"v_{i}"] for i in (1, 2, 3)] == ["[3; 2]", "[1; 1]", "[2; 5]"]
    assert found["S"] == "[4.243, 4.243, 2.121; 3.536, 2.121, 2.121; 4.950, 3.536, 2.828]"
    assert found["a_{13}"] == "0.057"


def test_a_pdf_without_text_is_a_scan(tmp_path: Path) -> None:
    Figure().savefig(tmp_path / "scan.pdf")
    with pytest.raises(InputError, match=r"no text layer.*text recognition"):
        read_file(tmp_path / "scan.pdf")


OMML = (
    '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">'
    "<m:sSub><m:e><m:r><m:t>A</m:t></m:r></m:e><m:sub><m:r><m:t>1</m:t></m:r></m:sub></m:sSub><m:r><m:t>=</m:t></m:r>"
    "<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath>"
)


def test_word_documents(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("First Q = [[1, 2], [3, 4]].")
    document.add_paragraph("Then ")._p.append(parse_xml(OMML))
    table = document.add_table(rows=3, cols=2)
    for row, texts in zip(table.rows, (("name", "value"), ("w_{1,2}", "0.5344"), ("w_{1,3}", "0.2")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    document.save(str(tmp_path / "work.docx"))
    found = said(read_file(tmp_path / "work.docx"))
    assert found == {"Q": "[1, 2; 3, 4]", "A_1": "1/2", "w_{1,2}": "0.5344", "w_{1,3}": "0.2"}


def test_workbooks_with_blocks_side_by_side(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Q", None, None, "K"], [1, 2, None, 5.5, 6], [3, 4, None, 7, 8], [], ["S"], [0.25, 0.75]):
        book.active.append(row)
    book.save(tmp_path / "work.xlsx")
    assert said(read_file(tmp_path / "work.xlsx")) == {"Q": "[1, 2; 3, 4]", "K": "[5.5, 6; 7, 8]", "S": "[0.25, 0.75]"}
    text = "Q,,,K\n1,2,,5.5,6\n3,4,,7,8\n"
    assert said(read(text, "work.csv")) == {"Q": "[1, 2; 3, 4]", "K": "[5.5, 6; 7, 8]"}


def test_html() -> None:
    page = (
        "<html><head><title>x = 9</title><style>a {b: 7}</style></head><body><h1>Work</h1><p>Q = [[1, 2]]</p>"
        "<p>K<sub>1</sub> = [3, 4]</p><table><tr><th>name</th><th>value</th></tr><tr><td>w_{1,2}</td><td>0.5</td></tr>"
        "<tr><td>w_{1,3}</td><td>0.2</td></tr></table>"
        "<math><mi>A</mi><mo>=</mo><mrow><mo>[</mo><mtable><mtr><mtd><mfrac><mn>1</mn><mn>4</mn></mfrac></mtd>"
        "<mtd><msup><mi>e</mi><mn>2</mn></msup></mtd></mtr></mtable><mo>]</mo></mrow></math>"
        '<math><annotation encoding="application/x-tex">H = \\sqrt{2}</annotation></math></body></html>'
    )
    assert said(read(page, "work.html")) == {
        "Q": "[1, 2]", "K_1": "[3, 4]", "w_{1,2}": "0.5", "w_{1,3}": "0.2", "A": "[1/4, e^2]", "H": "√(2)",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["four-tokens", "two-heads", "positions", "transport"])
def test_the_page_of_a_solution_is_graded_as_right(name: str) -> None:
    graded = grade(library.get(name), read(render(solve(name), "html"), "solution.html"))
    assert graded.score == 1
    assert not graded.unread


def test_typst() -> None:
    text = (
        "#set page(margin: 2cm)\n= Work\n$ Q = mat(1, 2; 3, 4) $\n"
        "$ k_(1) = vec(3, 4) $ and $alpha_(1,2) approx 0.5344$\n"
        '$ S = frac(1, sqrt(2)) dot mat(delim: "[", 2, 4) $\n'
    )
    found = said(read(text, "work.typ"))
    assert found["Q"] == "[1, 2; 3, 4]"
    assert found["k_1"] == "[3; 4]"
    assert found["α_{1,2}"] == "0.5344"
    assert found["S"] == "1/√(2)[2, 4]"


def test_printed_arrays() -> None:
    torch = ">>> Q\ntensor([[3.5, 0.0],\n        [1.0, 1.0]], dtype=torch.float64, grad_fn=<MmBackward0>)\n"
    torch += ">>> A\ntensor([[0.25, 0.75]])\n"
    assert said(read(torch)) == {"Q": "[3.5, 0.0; 1.0, 1.0]", "A": "[0.25, 0.75]"}
    ipython = "In [3]: S\nOut[3]: \narray([[1.5, 2.5]])\n"
    assert "[[1.5, 2.5]]" in printouts(ipython)
    matlab = "Q =\n\n     3     0\n     1     1\n\nA =\n\n    0.2500    0.7500\n"
    assert said(read(matlab)) == {"Q": "[3, 0; 1, 1]", "A": "[0.2500, 0.7500]"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"$A = \begin{bmatrix} 0,47 & -0,53 \\ 0,1 & 2,5 \end{bmatrix}$", "[0.47, -0.53; 0.1, 2.5]"),
        ("A = [0,472; 0,057]", "[0.472, 0.057]"),
        ("A = [0,47; 0,53]", "[0.47, 0.53]"),
        ("A = [1,2; 3,4]", "[1, 2; 3, 4]"),
        ("A = [10,20; 30,40]", "[10, 20; 30, 40]"),
        ("A = 0.47 ± 0.01", "0.47"),
    ],
)
def test_decimal_commas_where_they_cannot_be_separators(text: str, shown: str) -> None:
    reading = read(text)
    assert said(reading) == {"A": shown}
    assert reading.notes  # what was assumed is said


def test_decimal_commas_on_request() -> None:
    reading = read("o_1 = (0,5; 1,25) and w_{1,2} = 0,33", decimal_comma=True)
    assert said(reading) == {"o_1": "[0.5; 1.25]", "w_{1,2}": "0.33"}


@pytest.mark.parametrize("environment", ["cases", "array}{l", "aligned"])
def test_systems_of_equations(environment: str) -> None:
    name = environment.partition("}")[0]
    text = rf"$$\left\{{ \begin{{{environment}}} q_1 = (1, 2) \\ q_2 = (3, 4) \end{{{name}}} \right.$$"
    assert said(read(text)) == {"q_1": "[1, 2]", "q_2": "[3, 4]"}


@pytest.mark.parametrize("suffix", sorted(IMAGES))
def test_images_are_refused_with_what_to_do(suffix: str) -> None:
    with pytest.raises(InputError, match="text recognition"):
        read(b"\x89PNG", f"photo{suffix}")


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.xlsx", "a.ipynb", "a.doc", "a.zip"])
def test_broken_and_other_files_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(InputError) as caught:
        read(b"not what it says", name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_archives_that_unpack_to_too_much_are_refused() -> None:
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"0" * 60_000_000)
    with pytest.raises(InputError, match="unpacks to 60 MB"):
        read(packed.getvalue(), "bomb.docx")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pdfminer", None)
    with pytest.raises(InputError, match=r"pdfminer.six is needed.*glassformer\[documents\]"):
        read(b"%PDF-1.4", "a.pdf")


@given(st.binary(max_size=200), st.sampled_from([".html", ".typ", ".ipynb", ".pdf", ".docx", ".xlsx", ".md"]))
def test_any_bytes_are_converted_or_refused(data: bytes, suffix: str) -> None:
    try:
        converted = convert(data, f"a{suffix}")
    except GlassError:
        return
    assert converted is None or isinstance(converted[0], str)


def test_julia_prints_the_last_expression_of_a_line() -> None:
    shown = "2×1 Matrix{Float64}:\n 0.5\n 0.7"
    for code, name in (
        ("N = (R .- mu) ./ 2; round.(N, digits=4)", "N = "), ("Q = X*WQ", "Q = "), ("mu", "mu = "), ("f(A, B)", ""),
        ("v = mean(R, dims=2); round.(v, digits=4)", ""),
    ):  # fmt: skip
        assert printouts(f"julia> {code}\n{shown}").split("\n")[1] == f"{name}[[0.5], [0.7]]"


def test_a_table_of_text_with_a_quantity_in_each_column() -> None:
    text = "bin   F    |F-G|\n1   0.4   0.3\n2   0.7   0.4\n3   1   0"
    assert printouts(text).split("\n")[0] == "F = (0.4, 0.7, 1); |F-G| = (0.3, 0.4, 0)"
    for other in ("token   A   B\n1   0.4   0.6\n2   0.7   0.3\n3   1   0", text.replace("3   1   0", "3   1")):
        assert "=" not in printouts(other)


def test_a_table_with_a_row_for_each_query_and_key() -> None:
    rows = "| 1 | 1 | 0 | 0.25 |\n| 1 | 2 | 1 | 0.75 |\n| 2 | 1 | 2 | 1 |"
    table = markdown_table(f"| query | key | q·k | weight |\n|---|---|---|---|\n{rows}", 1)
    assert [(label(target), label(term)) for _, _, target, term in table.chains if target is not None] == [
        ("dotproduct", "[0, 1; 2, ]"), ("weight", "[0.25, 0.75; 1, ]"),
    ]  # fmt: skip
    scaled = markdown_table(f"| query | key | q·k / √d | weight |\n|---|---|---|---|\n{rows}", 1)
    assert [label(target) for _, _, target, _ in scaled.chains if target is not None] == ["score", "weight"]
    twice = markdown_table(f"| query | key | q·k | weight |\n|---|---|---|---|\n{rows}\n| 2 | 1 | 3 | 0 |", 1)
    assert not any(isinstance(target, Name) and target.name == "weight" and len(term.rows) > 1
                   for _, _, target, term in twice.chains if isinstance(term, Array))  # fmt: skip


def test_columns_of_means_and_variances_with_their_symbols() -> None:
    table = markdown_table("| | mean μ | variance (σ²) |\n|---|---|---|\n| token 1 | 2 | 3 |\n| token 2 | 4 | 5 |", 1)
    assert [(label(target), label(term)) for _, _, target, term in table.chains if target is not None] == [
        ("mean_1", "2"), ("variance_1", "3"), ("mean_2", "4"), ("variance_2", "5"),
    ]  # fmt: skip


def test_a_name_with_a_remark_over_its_rows() -> None:
    assert [event.text for event in scan("O (all heads side by side)\n1 2\n3 4", 1)] == ["O = [1 2; 3 4]"]
    assert [event.kind for event in scan("O (all heads side by side)\nis next.", 1)] == ["words", "words"]


def test_a_number_before_a_plus_is_no_value() -> None:
    assert [event.text for event in scan("The denominator is 1 + e, about 3.718", 1) if event.kind == "number"] == [
        "3.718"
    ]


def test_pairs_of_declared_tokens() -> None:
    text = 'The tokens are called "the" and "cat".\n\nDot products of queries and keys:\n\nthe - cat: 2\nthe - dog: 3\n'
    found = [s.target.label for s in read(text, "a.txt").statements if s.target is not None]
    assert found == ["dotproduct_{the,cat}"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Le deuxième partage son attention à égalité : 50 % pour le jeton 1 et 49 % pour le jeton 2.",
         {"weight_{2,1}": "50%", "weight_{2,2}": "49%"}),
        ("Le troisième : 11 % sur le jeton 1, 4.2 % sur le jeton 2 et 84.8 % sur lui-même.",
         {"weight_{3,1}": "11%", "weight_{3,2}": "4.2%", "weight_{3,3}": "84.8%"}),
    ],
)  # fmt: skip
def test_weights_in_french_sentences(line: str, found: dict[str, str]) -> None:
    statements = read(f"Poids d'attention :\n\n{line}\n", "a.txt").statements
    assert {s.target.label: label(s.terms[0].term) for s in statements if s.target is not None} == found


def test_a_heading_with_an_equation_names_its_left_side() -> None:
    text = "- output = weights × values\n  - token 1 → (1.155, 1.267)\n"
    assert [s.target.label for s in read(text, "a.md").statements if s.target and s.terms] == ["output_1"]


def test_a_header_that_counts_is_no_name() -> None:
    table = markdown_table("| t | sin | cos |\n|---|---|---|\n| 1 | 0.8 | 0.5 |\n| 2 | 0.9 | 0.4 |", 1)
    assert [(target, label(term)) for _, _, target, term in table.chains] == [(None, "[0.8, 0.5; 0.9, 0.4]")]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("The dot products of the first query with the keys are 2, 1 and 2; those of the second query are 2, 2 and 3.",
         ["dotproduct_1", "dotproduct_2"]),
        ("For the first query the sum of the exponentials is about 10.255, so the weights are 0.4, 0.2 and 0.4.",
         ["sum_1", "weight_1"]),
        ("The first output token becomes (1.2, 1.3) and the second output token becomes (1.5, 1).",
         ["output_1", "output_2"]),
    ],
)  # fmt: skip
def test_operands_in_a_sentence_are_not_its_subject(line: str, found: list[str]) -> None:
    reading = read(f"{line}\n", "a.txt")
    assert [s.target.label for s in reading.statements if s.target is not None] == found
    assert [finding.verdict for finding in arithmetic(reading)] == []


@pytest.mark.parametrize("code", ["> (K <- X %*% WK)", "> K <- X %*% WK; round(K, 4)", "> round(K, 4)"])
def test_what_r_prints_is_named_by_its_code(code: str) -> None:
    found = said(read(f"{code}\n     [,1] [,2]\n[1,]    2    3\n[2,]    0    1\n", "a.txt"))
    assert found == {"K": "[2, 3; 0, 1]"}
