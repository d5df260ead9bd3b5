from __future__ import annotations

import re

import pytest

from glassformer.exercises import library
from glassformer.exercises.practice.drill import Drill
from glassformer.exercises.solution import solve


def typed(name: str, symbol: str, digits: int = 4) -> str:
    matrix = solve(library.get(name))[symbol]
    return "; ".join(" ".join(x.decimal(digits) for x in row) for row in matrix)


@pytest.mark.parametrize("name", ["four-tokens", "columns", "root-three"])
def test_the_right_answers_lead_through(name: str) -> None:
    work = Drill(library.get(name))
    while work.waiting:
        reply = work.answer(typed(name, work.symbol))
        assert reply.done, reply.lines


def test_a_wrong_answer_is_located_and_explained() -> None:
    work = Drill(library.get("four-tokens"))
    assert work.question() == "Q (4 × 2)"
    reply = work.answer("1 2; 2 0; 0 1; 1 7")
    assert not reply.done
    assert "row 4 column 2" in reply.lines[0]
    assert work.symbol == "Q"


def test_a_wrong_product_of_queries_and_keys_is_graded_without_giving_the_answer() -> None:
    work = Drill(library.get("root-three"))
    reply = work.answer("78 71; 73 99")
    assert reply.lines == ("Not yet: 1 of 4 numbers is wrong (row 2 column 2).",)


def test_words_are_no_matrix() -> None:
    assert Drill(library.get("four-tokens")).answer("I do not know").lines[0].startswith("That is not a matrix")


def test_hints_come_from_the_diagnosis() -> None:
    """Scores not divided by √3: the hint says so."""
    work = Drill(library.get("root-three"))
    assert work.answer(typed("root-three", "QKt")).done
    reply = work.answer("78 71; 73 68")
    assert not reply.done
    assert any("√" in line or "sqrt" in line or "scale" in line.lower() for line in reply.lines[1:]), reply.lines


def test_follow_through() -> None:
    work = Drill(library.get("four-tokens"))
    for symbol in ("Q", "K", "V"):
        assert work.symbol == symbol
        work.answer(typed("four-tokens", symbol))
    work.answer("1 2 0 1; 2 4 0 2; 0 0 0 0; 1 2 0 3")  # one mistake, which stays in the answers
    work.show()
    untouched = "0.1966 0.5344 0.0723 0.1966; 0.1050 0.7758 0.0142 0.1050; .25 .25 .25 .25; "
    reply = work.answer(untouched + "0.0871 0.2369 0.0321 0.6439")
    assert reply.done
    assert "earlier" in reply.lines[0]


def test_hint_and_show() -> None:
    work = Drill(library.get("four-tokens"))
    assert work.hint() == "Q = X·WQ"
    assert work.hint() == "X = [1 2; 2 0; 0 1; 1 1]\nWQ = [1 0; 0 1]"
    assert work.hint() == "Q[1,1] = 1"
    assert "⎡1  2⎤" in work.show()
    assert work.shown == ["Q"]
    assert work.symbol == "K"


def test_what_cannot_be_read_says_so() -> None:
    work = Drill(library.get("four-tokens"))
    reply = work.answer("1 2; 3 4")
    assert not reply.done
    assert reply.lines == ("That is 2 × 2, and Q is 4 × 2.",)
    assert not work.answer("1 2; 2 0; 0 one; 1 1").done


@pytest.mark.parametrize("name", library.names())
def test_the_first_hint_is_a_formula_and_not_the_answer(name: str) -> None:
    work = Drill(library.get(name))
    while work.waiting:
        symbol, value = work.symbol, work.solution[work.symbol]
        hint = work.hint()
        assert not re.search(r"(?:= |^)[\[⎡⎢⎣]\s*[-−]?\d", hint), (symbol, hint)
        assert not re.search(r"\b(?:QKt|KtQ|Su)", hint)
        if value.shape == (1, 1):
            assert not hint.endswith(f"= {value[0, 0].decimal(4)}")
        work.show()


def test_the_last_hint_gives_a_cell_that_is_wrong() -> None:
    work = Drill(library.get("four-tokens"))
    assert not work.answer("1 2; 2 0; 0 7; 1 1").done
    assert [work.hint() for _ in range(3)][-1] == "Q[3,2] = 1"


def test_steps_that_were_shown_are_not_done() -> None:
    work = Drill(library.get("four-tokens"))
    assert not work.answer("1 2; 2 0; 0 7; 1 1").done
    work.show()
    assert work.done == 0
    assert work.answer(typed("four-tokens", "K")).done
    assert work.done == 1


def test_a_column_may_be_typed_as_a_list() -> None:
    work = Drill(library.get("layernorm"))
    assert work.symbol == "mu"
    answer = " ".join(x.decimal(4) for (x,) in solve(library.get("layernorm"))["mu"])
    assert work.answer(answer).done


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nonsense 5", "'nonsense' is not a number: type the rows, such as 1 2; 3 4."),
        ("1 2; 3", "That is rows of unequal length, and Q is 4 × 2."),
        ("[[1, 2], [3, 4]]", "That is 2 × 2, and Q is 4 × 2."),
    ],
)
def test_what_is_not_the_matrix_is_said_to_be_so(given: str, said: str) -> None:
    assert Drill(library.get("four-tokens")).answer(given).lines == (said,)
