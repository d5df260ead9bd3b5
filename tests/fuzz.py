"""A fuzzer of exercises, answers and documents: python tests/fuzz.py --inputs 100000 --seed 0

Hypothesis makes the inputs, mostly from pieces that mean something, with characters deleted, doubled or swapped. An
input fails if anything but a GlassError is raised, if it takes more than two seconds of processor time, or if it ends
the process; then the input has been written to the file named at the start.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from glassformer.errors import GlassError
from glassformer.exercises import library
from glassformer.exercises.exercise import load
from glassformer.exercises.grade import grade
from glassformer.exercises.reader import read
from glassformer.exercises.solution import render, solve

SECONDS = 2.0
NUMBERS = ["0", "1", "-3", "0.25", "1e-320", "99999999999999999999", "1/2", "1/0", "sqrt(2)", "e^50", "10^9", "-inf", "nan"]  # noqa: E501
SYMBOLS = ["Q", "K", "V", "S", "A", "O", "H", "X", "WQ", "q_1", "a_{12}", "e_{11}", "w_{1,j}", "QK^T", "out_2", "heads", "z1"]  # noqa: E501
WORDS = ("For token 2:", "softmax ->", "Head 1", "If", "the weights sum to", "for example", "row 1 and 2", "context")
WRAPS = ("$$%s$$", "$%s$", "%s", "\\[%s\\]", "`%s`", "| %s | 2 |", "\\cancel{%s}", "\\frac{%s}{2}", "((%s", "%s = ")
SOLVED = [
    render(solve(library.get(name)), form)
    for name in ("one-query", "four-tokens", "causal")
    for form in ("markdown", "latex")
]
FIELDS = ["Q", "K", "V", "X", "WO", "scale", "mask", "layout", "layernorm", "memory", "transport", "patches"]
SETTINGS = ("causal", "none", "1/sqrt(dk)", "columns", "{eps: 1e-5}", "{p: [1/2, 1/2], q: [1, 0]}")
EDITS = ("cut", "double", "swap", "put")
RELATIONS = ("=", "≈", "->", ":=", "= 2 \\cdot")

number = st.sampled_from(NUMBERS)
row = st.lists(number, min_size=1, max_size=4)
matrix = st.lists(row, min_size=1, max_size=4)
latex = matrix.map(lambda m: r"\begin{bmatrix}" + r" \\ ".join(" & ".join(r) for r in m) + r"\end{bmatrix}")
value = st.one_of(number, row.map(lambda r: f"({', '.join(r)})"), matrix.map(lambda m: str(m).replace("'", "")), latex)
equation = st.tuples(st.sampled_from(SYMBOLS), st.sampled_from(RELATIONS), value).map(" ".join)
piece = st.one_of(
    st.tuples(st.sampled_from(WRAPS), equation).map(lambda pair: pair[0] % pair[1]),
    st.sampled_from(WORDS),
    st.text(max_size=30),
    st.sampled_from(SOLVED).flatmap(lambda text: st.integers(0, len(text)).map(lambda k: text[k : k + 400])),
)
edits = st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(EDITS), st.characters()), max_size=6)


def mutated(text: str, changes: list[tuple[int, str, str]]) -> str:
    for place, kind, char in changes:
        k = place % (len(text) + 1)
        if kind == "cut":
            text = text[:k] + text[k + 1 :]
        elif kind == "double":
            text = text[:k] + text[k : k + 20] * 2 + text[k + 20 :]
        elif kind == "swap":
            text = text[:k] + text[k + 1 : k + 2] + text[k : k + 1] + text[k + 2 :]
        else:
            text = text[:k] + char + text[k:]
    return text


documents = st.tuples(st.lists(piece, max_size=6).map("\n\n".join), edits).map(lambda pair: mutated(*pair))
def as_yaml(mapping: dict[str, str]) -> str:
    return "\n".join(f"{key}: {item}" for key, item in mapping.items()) + "\n"


answers = st.dictionaries(st.sampled_from(SYMBOLS), value, max_size=4).map(as_yaml)
fields = st.dictionaries(st.sampled_from(FIELDS), st.one_of(value, st.sampled_from(SETTINGS)), max_size=5).map(as_yaml)
known = st.sampled_from(library.names()).map(library.text)
exercises = st.tuples(st.one_of(fields, known), edits).map(lambda pair: mutated(*pair))


def grade_document(text: str) -> None:
    for name in ("four-tokens", "two-heads"):
        str(grade(library.get(name), read(text, "a.md")))


def grade_answers(text: str) -> None:
    grade(library.get("four-tokens"), read(text, "a.yaml"))


def solve_exercise(text: str) -> None:
    render(solve(load(text + "\n")), "text")


TARGETS: dict[str, tuple[Callable[[str], None], st.SearchStrategy[str]]] = {
    "documents": (grade_document, documents),
    "answers": (grade_answers, answers),
    "exercises": (solve_exercise, exercises),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="How many inputs to try, a third of each kind.")
    parser.add_argument("--seed", type=int, default=0, help="Random seed.")
    parser.add_argument("--last", type=Path, default=Path("fuzz-last-input.txt"), help="Keeps the current input.")
    args = parser.parse_args()
    total = 0
    for kind in TARGETS:
        worked, refused, slowest = fuzz(kind, max(1, args.inputs // len(TARGETS)), args.seed, args.last)
        total += worked + refused
        print(f"{kind}: {worked} worked, {refused} refused, slowest {slowest:.2f} s", flush=True)
    args.last.unlink(missing_ok=True)
    print(f"{total} inputs, no crash")


def fuzz(kind: str, inputs: int, number: int, last: Path) -> tuple[int, int, float]:
    """How many inputs worked, how many were refused, and the processor time of the slowest."""
    target, strategy = TARGETS[kind]
    counts: Counter[str] = Counter()
    times = [0.0]

    @seed(number)
    @settings(
        max_examples=inputs, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def trial(text: str) -> None:
        last.write_text(f"{kind}\n{text}", encoding="utf-8", errors="surrogatepass")
        gc.disable()  # collecting what Hypothesis remembers of earlier inputs is not the input's time
        began = time.process_time()
        try:
            target(text)
            counts["worked"] += 1
        except GlassError:
            counts["refused"] += 1
        times.append(time.process_time() - began)
        gc.enable()
        assert times[-1] < SECONDS, f"{times[-1]:.1f} s of processor time: {text!r}"

    trial()
    return counts["worked"], counts["refused"], max(times)


if __name__ == "__main__":
    main()
