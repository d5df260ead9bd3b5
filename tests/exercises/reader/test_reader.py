"""Whole documents: both samples, what learners write, and what is hostile."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import Reading, arithmetic, read, read_file

SAMPLES = Path(__file__).parent.parent / "samples"


def shown(reading: Reading) -> list[tuple[int, str | None, list[str]]]:
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
    assert shown(read(text, "mine.tex")) == [
        (5, "Q", ["=XW_Q", "=[1, 2]"]),
        (7, "s_{11}", ["=q_1k_1", "=4"]),
        (7, "s_{12}", ["=6"]),
        (8, "Z", ["=e^4 + e^6", "=458.03"]),
    ]


def test_what_begins_with_a_relation_goes_on() -> None:
    text = "$$Q = [1, 2][3, 4]$$\n\n$$= 11$$\n\nSo\n\n$$= 12$$"
    assert shown(read(text)) == [(1, "Q", ["=[1, 2][3, 4]", "=11"]), (7, None, ["=12"])]
    assert shown(read("Q =\n\n$$[1, 2]$$")) == [(1, "Q", ["=[1, 2]"])]


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
    assert shown(reading) == [(3, "Q", ["=[1, 2]"])]


def test_windows_files() -> None:
    assert shown(read(b"\xef\xbb\xbfa\r\n\r\n$x = 1$\r\n")) == [(3, "x", ["=1"])]
    assert shown(read("$x = 1$".encode("utf-16"))) == [(1, "x", ["=1"])]


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
