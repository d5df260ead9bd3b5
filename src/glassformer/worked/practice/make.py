"""Fresh exercises with small whole numbers whose scores stay readable, from a seed: same seed, same exercise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from random import Random
from typing import Any, Literal, get_args

from glassformer.errors import InputError
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import Exact, Masked
from glassformer.worked.problem import Exercise, from_data
from glassformer.worked.solve import Solution, solve

Topic = Literal["attention", "beta", "mask", "heads", "cross", "layernorm", "patches", "transport"]
Level = Literal["easy", "medium", "hard"]
TOPICS: tuple[str, ...] = get_args(Topic)
LEVELS: tuple[str, ...] = get_args(Level)

# The entries of matrices, and how large a score may grow: e⁶ is about the last exponential people like to divide by.
_ENTRIES = {"easy": (0, 1, 2), "medium": (-1, 0, 1, 2), "hard": (-2, -1, 0, 1, 2, 3)}
_LARGEST = {"easy": 4, "medium": 5, "hard": 7}
_TRIES = 4000


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What kind of exercise: its topic, its size, and how hard."""

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
                raise InputError(f"{value} {name} on paper", f"choose 1 to {most}")


def make(wanted: Wanted, seed: int, sheet: int = 1) -> Exercise:
    """The exercise of that seed and sheet: the first of its random sequence whose numbers are nice."""
    random = Random(f"{wanted}/{seed}/{sheet}")
    for _ in range(_TRIES):
        exercise = from_data(_draft(wanted, random))
        if _is_nice(wanted, exercise):
            return exercise
    raise InputError(
        f"no exercise of {wanted.tokens} tokens, width {wanted.width} came out with small numbers in {_TRIES} tries",
        "ask for a smaller one, or another seed",
    )


def sheets(wanted: Wanted, seed: int, count: int) -> list[Exercise]:
    """So many exercises, each different from the others."""
    made: dict[str, Exercise] = {}
    number = repeats = 0
    while len(made) < count:
        number += 1
        exercise = make(wanted, seed, number)
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
    "mask": "Each token may look at itself and those before it. Compute scores, weights and outputs.",
    "heads": "Compute each head, put their outputs side by side, and multiply by the output projection.",
    "cross": "The tokens X look at the memory. Compute scores, weights and outputs.",
    "layernorm": "Normalise each token to mean 0 and variance 1, then scale and shift it.",
    "patches": "Cut the image into patches and flatten each row by row.",
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


def _draft(wanted: Wanted, random: Random) -> dict[str, Any]:
    data: dict[str, Any] = {"title": _TITLES[wanted.topic], "text": _SAYS[wanted.topic]}
    match wanted.topic:
        case "layernorm":
            return data | _layernorm(wanted, random)
        case "patches":
            side = 2 if wanted.level != "hard" else 3
            rows, columns = side * 2, side * (2 if wanted.level == "easy" else 3)
            return data | {"patches": {"image": _matrix(random, rows, columns, range(10)), "size": side}}
        case "transport":
            return data | _transport(wanted, random)
    heads = max(2, wanted.heads) if wanted.topic == "heads" else wanted.heads
    entries = _ENTRIES[wanted.level]
    d = dk = wanted.width
    if heads > 1 and d > 3:  # heads narrower than 2 would have no dot product worth the name
        dk = max(2, d // heads)
    data["X"] = _matrix(random, wanted.tokens, d, entries)
    data["heads"] = [{name: _matrix(random, d, dk, entries) for name in ("WQ", "WK", "WV")} for _ in range(heads)]
    if heads > 1:
        data["WO"] = _matrix(random, heads * dk, d, entries)
    if wanted.topic == "cross":
        data["memory"] = _matrix(random, wanted.tokens + random.choice((0, 1)), d, entries)
    if wanted.topic == "mask":
        data["mask"] = "causal"
    data["scale"] = _scale(wanted, random, dk)
    return data


def _scale(wanted: Wanted, random: Random, dk: int) -> str:
    if wanted.topic == "beta":
        return random.choice(("1/2", "2", "1/sqrt(dk)"))
    return "none" if wanted.level == "easy" and isqrt(dk) ** 2 != dk else "1/sqrt(dk)"


def _layernorm(wanted: Wanted, random: Random) -> dict[str, Any]:
    width = max(3, wanted.width)
    tokens = [_nice_token(random, width) for _ in range(wanted.tokens)]
    data: dict[str, Any] = {"X": tokens, "layernorm": True}
    if wanted.level != "easy":
        data["layernorm"] = {
            "gamma": [random.choice((1, 2)) for _ in range(width)],
            "beta": [random.choice((0, 1)) for _ in range(width)],
        }
    return data


def _nice_token(random: Random, width: int) -> list[int]:
    """Whole numbers with a whole mean, a variance that is a square if one turns up soon, and never 0."""
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


def _transport(wanted: Wanted, random: Random) -> dict[str, Any]:
    bins = max(3, wanted.tokens)
    total = {"easy": 6, "medium": 10, "hard": 12}[wanted.level]

    def histogram() -> list[str]:
        cuts = sorted(random.randint(0, total) for _ in range(bins - 1))
        masses = [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]
        return [str(Fraction(mass, total)) for mass in masses]

    return {"transport": {"p": histogram(), "q": histogram()}}


def _matrix(random: Random, rows: int, columns: int, entries: range | tuple[int, ...]) -> list[list[int]]:
    return [[random.choice(entries) for _ in range(columns)] for _ in range(rows)]


# -- which of them are nice ------------------------------------------------------------------------------------------


def _is_nice(wanted: Wanted, exercise: Exercise) -> bool:
    """No token or projection that is 0, no large score, no head whose scores are all alike, and something to move."""
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
    return all(_head_is_nice(wanted, solution, i) for i in _suffixes(exercise))


def _zero_rows(matrix: Matrix[Exact]) -> int:
    return sum(all(x.is_zero() for x in row) for row in matrix)


def _suffixes(exercise: Exercise) -> list[str]:
    count = len(exercise.all_heads)
    return [""] if count == 1 else [str(i) for i in range(1, count + 1)]


def _head_is_nice(wanted: Wanted, solution: Solution, i: str) -> bool:
    scores = [x for _, _, x in solution[f"S{i}"].cells() if not isinstance(x, Masked)]
    if max(abs(float(x)) for x in scores) > _LARGEST[wanted.level]:
        return False
    if max(_zero_rows(solution[f"{name}{i}"]) for name in "QK") > 1:
        return False
    varied = len(set(scores)) > 1 or len(scores) == 1
    values = {x for _, _, x in solution[f"V{i}"].cells()}
    return varied and (len(values) > 1 or wanted.width == 1)
