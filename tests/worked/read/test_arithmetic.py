"""A document's own equations, and both pieces of real homework."""

from __future__ import annotations

from pathlib import Path

from glassformer.worked.read import ArithmeticFinding, arithmetic, read, read_file

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
    assert (found.verdict, found.reason) == ("shape", "2×1 is noted at a matrix that is 1×2")


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
