"""Practising in the terminal: a prompt for each step, hints on demand, the exercise's words as its guide."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from glassformer.exercises.exercise import Exercise
from glassformer.exercises.practice.drill import Drill
from glassformer.exercises.practice.sheet import sheet

HELP = "Rows like 1 2; 3 4. Or: hint, show (and go on), skip (the exercise), quit."


def drill(exercises: Sequence[Exercise], ask: Callable[[str], str] = input, say: Callable[[str], None] = print) -> None:
    """Until all exercises are done, or the learner leaves."""
    try:
        for exercise in exercises:
            say(sheet(exercise, "text"))
            say(HELP + "\n")
            one(Drill(exercise), ask, say)
    except (EOFError, KeyboardInterrupt, StopPractising):
        say("\nGood-bye.")


class StopPractising(Exception):
    """The learner said quit."""


def one(work: Drill, ask: Callable[[str], str], say: Callable[[str], None]) -> None:
    while work.waiting:
        answer = ask(f"{work.question()} = ").strip()
        match answer.lower():
            case "":
                continue
            case "quit" | "exit":
                raise StopPractising
            case "skip":
                return
            case "help" | "?":
                say(HELP)
            case "hint":
                say(work.hint())
            case "show":
                say(work.show())
            case _:
                for line in work.answer(answer).lines:
                    say(line)
    shown = len(work.shown)
    say(f"Done: {len(work.answers)} of {len(work.answers) + shown} steps are yours, {shown} shown.\n" if shown
        else "Done: every step of this exercise is there.\n")  # fmt: skip
    sys.stdout.flush()
