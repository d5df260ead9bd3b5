"""Generates exercises with small integers and readable scores from a seed: same seed, same exercise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import isqrt
from random import Random
from typing import Any, Literal, get_args

from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Exact, Masked
from glassformer.exercises.solution import Solution, solve

Topic = Literal["attention", "beta", "mask", "heads", "cross", "layernorm", "patches", "transport"]
Level = Literal["easy", "medium", "hard"]
TOPICS: tuple[str, ...] = get_args(Topic)
LEVELS: tuple[str, ...] = get_args(Level)

# Matrix entries, and the largest allowed score: e⁶ is about the largest exponential that is pleasant to divide by.
_ENTRIES = {"easy": (0, 1, 2), "medium": (-1, 0, 1, 2), "hard": (-2, -1, 0, 1, 2, 3)}
_LARGEST = {"easy": 4, "medium": 5, "hard": 7}
_TRIES = 4000


@dataclass(frozen=True, kw_only=True)
class ExerciseSpec:
    """Specification of an exercise: its topic, size and difficulty."""

    topic: Topic = "attention"
    level: Level = "medium"
    tokens: int = 3
    width: int = 2
    heads: int = 1

    def __post_init__(self) -> None:
        if self.topic not in TOPICS:
            raise InputError(f"there is no topic {self.topic!r}", f"choose one of {', '.join(TOPICS)}")
        if self.level not in LEVELS:
            raise InputError(f"there is no level {self.level!r}", f"choose one of {', '.join(LEVELS)}")
        for name, value, most in (("tokens", self.tokens, 8), ("width", self.width, 8), ("heads", self.heads, 4)):
            if not 1 <= value <= most:
                raise InputError(f"{name} is {value}", f"choose 1 to {most}")


def make(spec: ExerciseSpec, seed: int, sheet: int = 1) -> Exercise:
    """Return the exercise of that seed and sheet: the first of its random sequence whose numbers are nice."""
    random = Random(f"{spec.topic}/{spec.level}/{spec.tokens}/{spec.width}/{spec.heads}/{seed}/{sheet}")
    for _ in range(_TRIES):
        exercise = from_data(_draft(spec, random))
        if _is_nice(spec, exercise):
            return exercise
    raise InputError(
        f"no exercise of {spec.tokens} tokens, width {spec.width} with small numbers was found in {_TRIES} tries",
        "ask for a smaller one, or another seed",
    )


def sheets(spec: ExerciseSpec, seed: int, count: int) -> list[Exercise]:
    """Return `count` exercises, all different."""
    made: dict[str, Exercise] = {}
    number = repeats = 0
    while len(made) < count:
        number += 1
        exercise = make(spec, seed, number)
        repeats = 0 if made.setdefault(repr(exercise), exercise) is exercise else repeats + 1
        if repeats == 100:
            raise InputError(f"there are only {len(made)} different sheets of this kind", "ask for fewer or larger")
    return [
        exercise.model_copy(update={"title": f"{exercise.title}, sheet {i}"})
        for i, exercise in enumerate(made.values(), 1)
    ]


# -- drafts ----------------------------------------------------------------------------------------------------------

_SAYS = {
    "attention": "Compute queries, keys and values, the scores, the weights and the outputs.",
    "beta": "Compute scores, weights and outputs. How would they change if β grew?",
    "mask": "Each token may attend to itself and to those before it. Compute scores, weights and outputs.",
    "heads": "Compute each head, put their outputs side by side, and multiply by the output projection.",
    "cross": "The tokens X attend to the tokens Y. Compute scores, weights and outputs.",
    "layernorm": "Normalise each token.",
    "patches": "Cut the image into patches and flatten each.",
    "transport": "Find the cheapest way to move the first histogram into the second, and its cost.",
}
_TITLES = {
    "attention": "Self-attention",
    "beta": "The scale β",
    "mask": "A causal mask",
    "heads": "Several heads",
    "cross": "Cross-attention",
    "layernorm": "LayerNorm",
    "patches": "Patches of an image",
    "transport": "Earth mover’s distance",
}


def _draft(spec: ExerciseSpec, random: Random) -> dict[str, Any]:
    data: dict[str, Any] = {"title": _TITLES[spec.topic], "text": _SAYS[spec.topic]}
    match spec.topic:
        case "layernorm":
            return data | _layernorm(spec, random)
        case "patches":
            side = 2 if spec.level != "hard" else 3
            rows, columns = side * 2, side * (2 if spec.level == "easy" else 3)
            return data | {"patches": {"image": _matrix(random, rows, columns, range(10)), "size": side}}
        case "transport":
            return data | _transport(spec, random)
    heads = max(2, spec.heads) if spec.topic == "heads" else spec.heads
    entries = _ENTRIES[spec.level]
    d = dk = spec.width
    if heads > 1 and d > 3:  # heads narrower than 2 would have no meaningful dot product
        dk = max(2, d // heads)
    data["X"] = _different(random, spec.tokens, d, entries)
    data["heads"] = [{name: _matrix(random, d, dk, entries) for name in ("WQ", "WK", "WV")} for _ in range(heads)]
    if heads > 1:
        data["WO"] = _matrix(random, heads * dk, d, entries)
    if spec.topic == "cross":
        data["memory"] = _different(random, spec.tokens + random.choice((0, 1)), d, entries)
    if spec.topic == "mask":
        data["mask"] = "causal"
    data["scale"] = _scale(spec, random, dk)
    return data


def _scale(spec: ExerciseSpec, random: Random, dk: int) -> str:
    if spec.topic == "beta":
        return random.choice(("1/2", "2", "1/sqrt(dk)"))
    return "none" if spec.level == "easy" and isqrt(dk) ** 2 != dk else "1/sqrt(dk)"


def _layernorm(spec: ExerciseSpec, random: Random) -> dict[str, Any]:
    width = max(3, spec.width)
    tokens = [_nice_token(random, width) for _ in range(spec.tokens)]
    data: dict[str, Any] = {"X": tokens, "layernorm": True}
    if spec.level != "easy":
        data["layernorm"] = {
            "gamma": [random.choice((1, 2)) for _ in range(width)],
            "beta": [random.choice((0, 1)) for _ in range(width)],
        }
    return data


def _nice_token(random: Random, width: int) -> list[int]:
    """Return integers with an integer mean and a nonzero variance, preferably a perfect square."""
    best: list[int] = []
    for _ in range(400):
        token = [random.randint(-2, 6) for _ in range(width)]
        mean = Fraction(sum(token), width)
        variance = Fraction(sum((x - mean) ** 2 for x in token)) / width
        if mean.denominator == 1 and variance > 0:
            best = best or token
            if isqrt(variance.numerator) ** 2 == variance.numerator and variance.denominator == 1:
                return token
    return best


def _transport(spec: ExerciseSpec, random: Random) -> dict[str, Any]:
    bins = max(3, spec.tokens)
    total = {"easy": 6, "medium": 10, "hard": 12}[spec.level]

    def histogram() -> list[str]:
        cuts = sorted(random.randint(0, total) for _ in range(bins - 1))
        masses = [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]
        return [str(Fraction(mass, total)) for mass in masses]

    return {"transport": {"p": histogram(), "q": histogram()}}


def _matrix(random: Random, rows: int, columns: int, entries: range | tuple[int, ...]) -> list[list[int]]:
    return [[random.choice(entries) for _ in range(columns)] for _ in range(rows)]


def _different(random: Random, count: int, width: int, entries: tuple[int, ...]) -> list[list[int]]:
    """Return tokens that are not 0 and all different, if there are enough of that width."""
    starts = _starts(entries, min(width, 4))
    if len(starts) < count:
        return _matrix(random, count, width, entries)
    rest = range(width - len(starts[0]))
    return [[*start, *(random.choice(entries) for _ in rest)] for start in random.sample(starts, count)]


@cache
def _starts(entries: tuple[int, ...], width: int) -> list[tuple[int, ...]]:
    return [token for token in product(entries, repeat=width) if any(token)]


# -- which of them are nice ------------------------------------------------------------------------------------------


def _is_nice(spec: ExerciseSpec, exercise: Exercise) -> bool:
    """Return whether no token or projection is 0, scores are small and vary in each head, and there is mass to move."""
    if exercise.transport:
        return exercise.transport.p != exercise.transport.q
    if not exercise.all_heads:
        return True
    given = [matrix for head in exercise.all_heads for matrix in (head.WQ, head.WK, head.WV)]
    if any(matrix is not None and all(x.is_zero() for _, _, x in matrix.cells()) for matrix in given):
        return False
    if exercise.X is not None and _zero_rows(exercise.X):
        return False
    solution = solve(exercise)
    return all(_head_is_nice(spec, solution, i) for i in _suffixes(exercise))


def _zero_rows(matrix: Matrix[Exact]) -> int:
    return sum(all(x.is_zero() for x in row) for row in matrix)


def _suffixes(exercise: Exercise) -> list[str]:
    count = len(exercise.all_heads)
    return [""] if count == 1 else [str(i) for i in range(1, count + 1)]


def _head_is_nice(spec: ExerciseSpec, solution: Solution, i: str) -> bool:
    scores = [x for _, _, x in solution[f"S{i}"].cells() if not isinstance(x, Masked)]
    if max(abs(float(x)) for x in scores) > _LARGEST[spec.level]:
        return False
    if max(_zero_rows(solution[f"{name}{i}"]) for name in "QK") > 1:
        return False
    varied = len(set(scores)) > 1 or len(scores) == 1
    values = {x for _, _, x in solution[f"V{i}"].cells()}
    return varied and (len(values) > 1 or spec.width == 1)
