"""What is expected, and the score."""

from __future__ import annotations

import inspect
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.grade import diagnose, grade
from glassformer.exercises.grade.mistakes import CATALOGUE
from glassformer.exercises.grade.rubric import OTHER_MISTAKES, Points, essential, load_rubric, rubric_schema
from glassformer.exercises.plan import plan
from glassformer.exercises.reader import read
from glassformer.exercises.solution import solve

EMPTY = "[null, null, null, null]"
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


# -- rubric files ------------------------------------------------------------------------------------------------------

Q = "Q: [[1, 2], [2, 0], [0, 1], [1, 1]]"
K = "K: [[1, 0], [2, 0], [0, 0], [1, 0]]"
V = "V: [[0, 2], [0, 0], [0, 1], [0, 1]]"
S = "S: [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]]"


def points(rubric: str, *lines: str, exercise: str = "four-tokens") -> Points:
    graded = grade(library.get(exercise), read("\n".join(lines), "a.yaml"), load_rubric(rubric + "\n"))
    assert graded.points is not None
    assert graded.score == graded.points.share
    return graded.points


def by_step(found: Points) -> dict[str, float]:
    return {step.step: round(step.points, 6) for step in found.steps}


def test_points_of_a_step_are_shared_by_its_numbers() -> None:
    found = points("steps: {Q: 4, S: 8}", Q.replace("[2, 0]", "[2, 7]"), S)
    assert by_step(found) == {"Q": 3.5, "S": 8}
    assert found.total == 11.5
    assert found.maximum == 12


def test_a_skipped_step_earns_the_share_of_the_next_one() -> None:
    rubric = "steps: {Q: 2, K: 2, S: 4}"
    found = points(rubric, S.replace("[2, 4, 0, 2]", "[2, 4, 9, 9]"))
    assert by_step(found) == {"Q": 1.75, "K": 1.75, "S": 3.5}
    assert [step.source for step in found.steps] == ["S", "S", ""]
    graded = grade(library.get("four-tokens"), read(S, "a.yaml"), load_rubric(rubric + "\n"))
    assert "Q 2 of 2 (not written, credited from S)" in str(graded)
    assert by_step(points("steps: {Q: {points: 2, required: true}, S: 4}", S)) == {"Q": 0, "S": 4}


def test_a_skipped_step_loses_nothing_by_a_mistake_in_another_step() -> None:
    scaled = "S: [[0.71, 1.41, 0, 0.71], [1.41, 2.83, 0, 1.41], [0, 0, 0, 0], [0.71, 1.41, 0, 0.71]]"
    assert by_step(points("steps: {Q: 2, K: 2, S: 16}", scaled)) == {"Q": 2, "K": 2, "S": 7}
    assert by_step(points("steps: {Q: 2, K: 2, S: 4}", S.replace("[2, 4, 0, 2]", "[-2, 4, 0, 2]"))) == {
        "Q": 2, "K": 2, "S": 3.75,
    }  # fmt: skip
    # K takes part in the scores that follow from a wrong Q, and is right
    wrong = Q.replace("[1, 2]", "[0, 2]")
    follows = S.replace("[[1, 2, 0, 1]", "[[0, 0, 0, 0]")
    assert by_step(points("steps: {Q: 8, K: 8, S: 16}\ncredit: {follows: 0.5}", wrong, follows)) == {
        "Q": 7, "K": 8, "S": 14.5,
    }  # fmt: skip


def test_a_skipped_number_is_judged_by_its_own_token() -> None:
    found = points("steps: {Q: 4}", "S: [[1, 2, 0, 1], [null, null, null, null], [0, 0, 0, 0], [1, 2, 0, 9]]")
    assert by_step(found) == {"Q": 1 + 0 + 1 + 0.75}


def test_the_output_has_its_points_under_either_name() -> None:
    assert by_step(points("steps: {O: 3}", H)) == {"O": 3}
    assert by_step(points("steps: {H: 3}", H.replace("H:", "O:"))) == {"H": 3}


def test_heads_together_or_one_by_one() -> None:
    two = solve("two-heads")
    wrong = [[0] * two["Q2"].shape[1]] * two["Q2"].shape[0]
    answers = json.dumps({"Q1": [[str(x) for x in row] for row in two["Q1"]], "Q2": wrong})
    every = by_step(points("steps: {Q: 6}", answers, exercise="two-heads"))
    each = by_step(points("steps: {Q1: 3, Q2: 3}", answers, exercise="two-heads"))
    assert each["Q1"] == 3
    assert every["Q"] == pytest.approx(each["Q1"] + each["Q2"])


@pytest.mark.parametrize(
    ("tolerance", "verdict"), [("0", "wrong"), ("0.0009", "wrong"), ("0.0012", "right"), ("0.5", "right")]
)
def test_tolerance(tolerance: str, verdict: str) -> None:
    """The exact value is 0.19661…, 0.1978 is 0.00119 away."""
    text = f"A: [[0.1978, null, null, null], {EMPTY}, {EMPTY}, {EMPTY}]"
    graded = grade(library.get("four-tokens"), read(text, "a.yaml"), load_rubric(f"tolerance: {tolerance}\n"))
    assert next(c.verdict for c in graded.cells if c.given == "0.1978") == verdict
    assert any("tolerance" in note.assumption for note in graded.notes) == (verdict == "right")
    assert bool(graded.mistakes) == (verdict == "wrong")


def test_tolerance_of_a_step_and_of_what_follows() -> None:
    text = S.replace("[1, 2, 0, 1], [2", "[2, 2, 0, 1], [2")  # softargmax(2, 2, 0, 1) = (0.3995, 0.3995, …)
    text += f"\nA: [[0.4005, 0.3995, 0.0541, 0.1470], {EMPTY}, {EMPTY}, {EMPTY}]"
    strict = "tolerance: 0.002\nsteps: {A: {points: 1, tolerance: 0}}"
    for rubric, verdict in (("tolerance: 0.002", "follows"), (strict, "wrong")):
        graded = grade(library.get("four-tokens"), read(text, "a.yaml"), load_rubric(rubric + "\n"))
        assert next(c.verdict for c in graded.cells if c.given == "0.4005") == verdict


def test_partial_credit() -> None:
    sign = Q.replace("[2, 0]", "[-2, 0]")
    assert by_step(points("steps: {Q: 8}", sign)) == {"Q": 7}
    assert by_step(points("steps: {Q: 8}\nmistakes: {a sign dropped: 0.5}", sign)) == {"Q": 7.5}
    assert by_step(points("steps: {Q: 8}\ncredit: {wrong: 0.25}", sign)) == {"Q": 7.25}
    assert points("points: 10\nround_to: 0.5", Q, K, V, S, H).total == 10


def test_every_rubric_keeps_points_between_0_and_the_maximum() -> None:
    work = [Q, K, V, S, H, Q.replace("1", "7"), S.replace("2", "3")]

    @given(
        st.dictionaries(st.sampled_from("QKVSAHO"), st.integers(0, 9), min_size=1).filter(lambda d: any(d.values())),
        st.lists(st.sampled_from(work), min_size=1, unique_by=lambda line: line[0]),
        st.sampled_from(["", "\nround_to: 0.5", "\nround_to: 3", "\ncredit: {missing: 1, wrong: 1}"]),
    )
    def bounded(steps: dict[str, int], lines: list[str], more: str) -> None:
        found = points(f"steps: {json.dumps(steps)}{more}", *lines)
        assert 0 <= found.total <= found.maximum == sum(steps.values())
        assert all(-1e-9 <= step.points <= step.maximum + 1e-9 for step in found.steps)

    bounded()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps: {Z9: 3}", "steps: the exercise has no step 'Z9': did you mean Z?"),
        ("points: {Q: 3}", "points must be a number, the points of the exercise: write those of steps under steps"),
        ("pints: 3", "the key 'pints' is not known: did you mean points?"),
        ("steps: {Q: {pionts: 3}}", "the key 'steps.Q.pionts' is not known: did you mean points?"),
        ("steps: {Q: -1}", "steps.Q.points is '-1': input should be greater than or equal to 0"),
        ("steps: {Q: {tolerance: 1}}", "steps.Q.points is missing"),
        ("points: 3\nsteps: {Q: 2}", "points is 3, and the steps add up to 2: make them equal"),
        ("mistakes: {no root d_k: 1}", "mistakes: 'no root d_k' is not a known mistake: did you mean no √d_k?"),
        ("steps: {Q: 0}", "steps: no step has points"),
        ("- 1", "\"['1']\" is not a rubric"),
        ("points: nan", "points is 'nan': input should be a finite number"),
        ("credit: {rounded: 2}", "credit.rounded is '2': input should be less than or equal to 1"),
    ],
)
def test_a_faulty_rubric_is_one_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        points(text, Q)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_points_given_twice() -> None:
    with pytest.raises(InputError, match="Q1 has points twice"):
        points("steps: {Q: 1, Q1: 1}", '{"Q1": [[1]]}', exercise="two-heads")


def test_every_mistake_that_the_grader_names_is_known_to_rubrics() -> None:
    source = inspect.getsource(diagnose)
    named = set(re.findall(r'(?:Mistake\(|explains\(|generic = |return |yield )"([^"{]+)"', source)) - {""}
    assert named <= {*OTHER_MISTAKES, *(kind.name for kind in CATALOGUE)}
    assert "a sign dropped" in named


def test_the_published_schema_is_the_models() -> None:
    """docs/rubric.schema.json is what editors complete and check rubrics by."""
    published = Path(__file__).parents[3] / "docs" / "rubric.schema.json"
    if os.environ.get("GLASSFORMER_GOLDEN") == "rewrite":
        published.write_text(json.dumps(rubric_schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(published.read_text(encoding="utf-8")) == rubric_schema()
