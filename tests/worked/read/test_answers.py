"""YAML and JSON answers, with every number as it was written."""

from __future__ import annotations

import pytest

from glassformer.errors import InputError
from glassformer.worked.read import Reading, label, read


def shown(reading: Reading) -> list[tuple[int, str, str]]:
    return [(s.line, s.target.label, label(s.terms[0].term)) for s in reading.statements if s.target]


def test_json() -> None:
    text = '{"Q": [[1, 2], [0.1050, "1/2"]],\n "w_{1,2}": 0.5,\n "A": [[null, 1e-5]], "S": [["-inf", -3]]}'
    assert shown(read(text, "a.json")) == [
        (1, "Q", "[1, 2; 0.1050, 1/2]"), (2, "w_{1,2}", "0.5"), (3, "A", "[, 1e-5]"), (3, "S", "[-∞, -3]"),
    ]  # fmt: skip


def test_json_inside_values_as_solve_writes_it() -> None:
    assert shown(read('{"values": {"Q": [[1]]}, "steps": [{"symbol": "K"}]}', "a.json")) == [(1, "Q", "[1]")]


def test_yaml() -> None:
    text = "title: mine\nQ: [[1, 2.50], [3, sqrt(2)]]\nheads:\n  - {Q: [[1]]}\n  - {Q: [[2]]}\nout_1: [0, 1]\n"
    assert shown(read(text, "a.yaml")) == [
        (2, "Q", "[1, 2.50; 3, √(2)]"), (4, "Q_1", "[1]"), (5, "Q_2", "[2]"), (6, "out_1", "[0, 1]"),
    ]  # fmt: skip


def test_what_is_not_an_answer_is_listed() -> None:
    reading = read('{"Q": [[1, "two apples"], [3, 4]], "?!": 3, "K": [[1, 2], [3]]}', "a.json")
    assert [entry.source for entry in reading.unread] == ["two apples", "?!", "K"]
    assert label(reading.statements[0].terms[0].term) == "[1, ; 3, 4]"


@pytest.mark.parametrize(
    ("text", "name", "fact"),
    [
        ('{"Q": [1,', "a.json", "is not JSON"),
        ("[1, 2]", "a.json", "holds no mapping"),
        ("Q: [1, 2\nK: 3", "a.yaml", "is not YAML"),
        ("just words", "a.yaml", "holds no mapping"),
        ("{}", "a.json", "no answers"),
        ("title: x", "a.yml", "no answers"),
        ("[" * 100_000, "a.json", "nested too deeply|is not JSON"),
        ("{a: " * 200 + "1" + "}" * 200, "a.yaml", "levels|nested|not YAML"),
    ],
)
def test_broken_files(text: str, name: str, fact: str) -> None:
    with pytest.raises(InputError, match=fact) as caught:
        read(text, name)
    assert "\n" not in str(caught.value)


def test_aliases_do_not_explode() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(InputError, match="more than"):
        read("\n".join(lines), "a.yaml")
