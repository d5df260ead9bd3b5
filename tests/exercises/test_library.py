from __future__ import annotations

import pytest

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import load
from glassformer.exercises.solution import solve


def test_at_least_twelve_of_every_kind() -> None:
    exercises = [library.get(name) for name in library.names()]
    assert len(exercises) >= 12
    assert len({exercise.title for exercise in exercises}) == len(exercises)
    assert {exercise.kind for exercise in exercises} == {"attention", "tokens", "patches", "transport", "cost"}
    assert all(exercise.text for exercise in exercises)


@pytest.mark.parametrize("name", library.names())
def test_every_one_is_solved(name: str) -> None:
    assert solve(library.get(name)).steps
    assert load(library.text(name)) == library.get(name)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(InputError, match="four-tokens"):
        library.get("fourtokens")
