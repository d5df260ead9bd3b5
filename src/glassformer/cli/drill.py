"""Interactive practice in the terminal: one prompt per step, with hints on demand."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from glassformer.exercises.exercise import Exercise
from glassformer.exercises.practice.drill import Drill
from glassformer.exercises.practice.sheet import sheet

HELP = "Type rows such as 1 2; 3 4, or one of: hint, show (the solution of this step), skip (this exercise), quit."


def drill(exercises: Sequence[Exercise], ask: Callable[[str], str] = input, say: Callable[[str], None] = print) -> None:
    """Ask for every step of every exercise, until the learner quits."""
    try:
        for exercise in exercises:
            say(sheet(exercise, "text", width=shutil.get_terminal_size((100, 24)).columns))
            say(HELP + "\n")
            one(Drill(exercise), ask, say)
    except (EOFError, KeyboardInterrupt, StopPractising):
        say("\nGood-bye.")


class StopPractising(Exception):
    """The learner quit."""


def one(work: Drill, ask: Callable[[str], str], say: Callable[[str], None]) -> None:
    while work.waiting:
        answer = ask(f"{work.question()} = ").strip()
        match answer.lower():
            case "":
                continue
            case "quit" | "exit":
                raise StopPractising
            case "skip":
                say(f"Skipped after {_counted(work.done)}.\n")
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
    shown = f", {_counted(len(work.shown))} shown" if work.shown else ""
    say(f"Done: {_counted(work.done)} answered{shown}.\n")


def _counted(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}"
