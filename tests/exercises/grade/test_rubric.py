"""What is expected, and the score."""

from __future__ import annotations

from glassformer.exercises import library
from glassformer.exercises.grade import grade
from glassformer.exercises.grade.rubric import essential
from glassformer.exercises.plan import plan
from glassformer.exercises.reader import read

H = "H: [[0, 0.6622], [0, 0.3292], [0, 1], [0, 0.6622]]"


def absent(exercise: str, text: str) -> set[tuple[str, int]]:
    graded = grade(library.get(exercise), read(text, "a.yaml"))
    return {(c.symbol, c.row) for c in graded.cells if c.verdict == "missing"}


def test_essential_steps() -> None:
    assert essential(plan(library.get("four-tokens"))) == ("Q", "K", "V", "S", "A", "H", "O")
    assert essential(plan(library.get("transport"))) == ("W",)
    assert essential(plan(library.get("cost"))) == ("total",)
    assert essential(plan(library.get("patch-count"))) == ("n",)


def test_a_step_that_the_working_goes_on_from_is_not_missing() -> None:
    assert absent("four-tokens", H) == set()


def test_an_output_under_two_names_is_expected_once() -> None:
    assert {s for s, _ in absent("four-tokens", "S: [[1,2,0,1],[2,4,0,2],[0,0,0,0],[1,2,0,1]]")} == {"A", "V", "O"}


def test_missing_is_said_of_the_tokens_that_lack_it() -> None:
    assert absent("four-tokens", "H: [[0, 0.6622], [0, 0.3292], [0, 1], [null, null]]") == {
        (s, 4) for s in ("Q", "S", "A", "H")
    }


def test_without_w_o_nothing_more_is_expected_with_it_the_output_is() -> None:
    assert {s for s, _ in absent("two-heads", "H1: [[11.98, 8.02, 10.05], [11.95, 8.05, 10.16]]")} >= {"O", "H2"}


def test_points() -> None:
    text = "A: [[0.1967, 0.5344, 0.0723, 0.1], [0.1050, 0.7758, 0.0142, 0.1050]]".replace("0.1]", "0.9]")
    graded = grade(
        library.get("four-tokens"), read(text.replace("]]", "], [.25,.25,.25,.25], [0,0,0,0]]") + "\n" + H, "a.yaml")
    )
    counts = graded.count()
    assert graded.score == (counts["right"] + counts["follows"] + counts["rounded"] / 2) / len(graded.cells)
    assert counts["rounded"] == 1
    assert counts["wrong"] == 5
