from __future__ import annotations

from collections.abc import Iterator

from glassformer.cli.drill import drill
from glassformer.exercises import library


def played(*answers: str) -> list[str]:
    lines: list[str] = []
    script: Iterator[str] = iter(answers)

    def ask(prompt: str) -> str:
        lines.append(prompt)
        try:
            return next(script)
        except StopIteration:
            raise EOFError from None

    drill([library.get("four-tokens")], ask, lines.append)
    return lines


def test_a_whole_session() -> None:
    said = played("hint", "", "help", "1 2; 2 0; 0 1; 1 1", "show", "nonsense $", "quit")
    assert "Q = X·WQ" in said
    assert "Right." in said
    assert said.count("K (4 × 2) = ") == 1
    assert said[-1] == "\nGood-bye."


def test_steps_that_were_shown_do_not_count_as_done() -> None:
    assert played(*["show"] * 6)[-1] == "Done: 0 of 6 steps are yours, 6 shown.\n"


def test_end_of_input_is_good_bye() -> None:
    assert played()[-1] == "\nGood-bye."
