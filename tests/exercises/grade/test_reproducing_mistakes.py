"""Each mistake as an edit of the plan, against the same mistake computed by hand."""

from __future__ import annotations

from itertools import combinations, groupby

import pytest

from glassformer.exercises import library
from glassformer.exercises.arithmetic import EXACT
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.grade.mistakes import CATALOGUE, changed, hypotheses
from glassformer.exercises.matrix import Matrix, hstack
from glassformer.exercises.numbers import Exact
from glassformer.exercises.plan import evaluate_plan, plan


def made_with(exercise: Exercise, name: str) -> list[dict[str, Matrix[Exact]]]:
    found = [h for h in hypotheses(plan(exercise), exercise) if h.kind.name == name]
    return [evaluate_plan(h.plan, EXACT) for h in found]


def test_no_root() -> None:
    right = evaluate_plan(plan(library.get("two-heads")), EXACT)
    both, first, second = made_with(library.get("two-heads"), "no √d_k")
    assert both["S1"] == right["QKt1"]
    assert both["S2"] == right["QKt2"]
    assert first["S1"] == right["QKt1"]
    assert first["S2"] == right["S2"]
    assert second["S2"] == right["QKt2"]


def test_model_width() -> None:
    (both, *_) = made_with(library.get("two-heads"), "d instead of d_k")
    assert both["S1"][0, 0] == Exact(78) / Exact(6).sqrt()


def test_other_axis() -> None:
    (wrong,) = made_with(library.get("four-tokens"), "softargmax over the wrong axis")
    for column in wrong["A"].T:
        assert sum(column, Exact(0)) == 1


def test_k_not_transposed() -> None:
    exercise = from_data({"Q": [[1, 2], [3, 4]], "K": [[1, 1], [0, 2]], "V": [[1, 0], [0, 1]], "scale": "none"})
    (wrong,) = made_with(exercise, "K not transposed")
    assert wrong["S"] == Matrix.of([[Exact(1), Exact(5)], [Exact(3), Exact(11)]])


def test_masks() -> None:
    exercise = library.get("causal")
    right = evaluate_plan(plan(exercise), EXACT)
    (late,) = made_with(exercise, "mask after the softargmax")
    assert late["A"][0, 1] == 0
    assert sum(late["A"].rows[0], Exact(0)) != 1
    (swapped,) = made_with(exercise, "future and past swapped")
    assert swapped["A"][2, 0] == 0
    assert swapped["A"][2, 2] == 1
    (without,) = made_with(exercise, "mask forgotten")
    assert without["S"] == right["QKt"]


def test_weights() -> None:
    exercise = library.get("four-tokens")
    (raw,) = made_with(exercise, "exponentials not normalised")
    assert raw["A"] == raw["E"]


def test_heads_and_output() -> None:
    exercise = library.get("two-heads")
    right = evaluate_plan(plan(exercise), EXACT)
    assert made_with(exercise, "W_O forgotten")[0]["O"] == right["C"]
    (order,) = made_with(exercise, "heads concatenated in the wrong order")
    assert order["C"] == hstack([right["H2"], right["H1"]])


def test_order_of_products() -> None:
    exercise = from_data(
        {"X": [[1, 2], [3, 4]], "heads": [{"WQ": [[0, 1], [2, 0]], "WK": [[1, 0], [0, 1]], "WV": [[1, 0], [0, 1]]}]}
    )
    values = made_with(exercise, "weights and inputs multiplied in the wrong order")
    assert any(v["Q"] == v["WQ"] @ v["X"] for v in values)
    assert any(v["Q"] == v["X"] @ v["WQ"].T for v in values)


def test_layer_norm() -> None:
    exercise = library.get("layernorm")
    right = evaluate_plan(plan(exercise), EXACT)
    for wrong in made_with(exercise, "variance divided by d − 1"):
        assert [row[0] for row in wrong["var"]] == [Exact(1), Exact(3)]
    for wrong in made_with(exercise, "β forgotten"):
        assert wrong["L"][0, 2] == right["N"][0, 2]
    for wrong in made_with(exercise, "γ forgotten"):
        assert wrong["L"][1, 1] == right["N"][1, 1]


def test_biases() -> None:
    exercise = library.get("block")
    values = made_with(exercise, "a bias forgotten")
    assert any(v["Q1"] == v["X"] @ v["WQ1"] for v in values)
    assert any(v["F1"] == v["N"] @ v["W1"] and v["F"] == v["G"] @ v["W2"] for v in values)


def test_residuals() -> None:
    values = made_with(library.get("block"), "residual forgotten")
    assert [v["R"] == v["O"] for v in values] == [True, False]
    assert [v["RF"] == v["F"] for v in values] == [False, True]


def test_exponentials() -> None:
    exercise = library.get("patches")
    right = evaluate_plan(plan(exercise), EXACT)
    (zero,) = made_with(exercise, "e^0 taken as 0")
    assert zero["E"][0, 2] == 0
    assert zero["E"][0, 1] == right["E"][0, 1]
    sums = [wrong["Z"][2, 0] for wrong in made_with(exercise, "an exponential left out of the sum")]
    assert right["Z"][2, 0] - right["E"][2, 3] in sums


@pytest.mark.parametrize("name", library.names())
def test_hypotheses_change_something_and_say_where(name: str) -> None:
    exercise = library.get(name)
    made = plan(exercise)
    for hypothesis in hypotheses(made, exercise):
        assert changed(made, hypothesis.plan)
        assert hypothesis.plan.symbols[-1] == made.symbols[-1]


@pytest.mark.parametrize("name", library.names())
def test_any_two_mistakes_can_be_made_together_or_are_not_tried(name: str) -> None:
    exercise = library.get(name)
    made = plan(exercise)
    for first, second in combinations(hypotheses(made, exercise), 2):
        both = second.kind.edit(first.plan, exercise, second.heads)
        assert both is None or changed(made, both)


def test_every_kind_says_what_it_is() -> None:
    for name, kinds in groupby(CATALOGUE, key=lambda kind: kind.name):
        for kind in kinds:
            assert name
            assert kind.description[0].isupper()
            assert not kind.description.endswith(".")
