"""What all tasks share between a wish and a training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.checkpoints import save
from glassformer.errors import InputError
from glassformer.models import Encoder, ViT, vit
from glassformer.tasks.data import Lines
from glassformer.tasks.learn.begin import NEW, begun, going_on, halved
from glassformer.tasks.learn.text import TextLesson
from glassformer.tasks.learn.wish import Wish


@pytest.fixture
def lines(tmp_path: Path) -> Callable[[str, int], Lines]:
    def opened(name: str, count: int) -> Lines:
        (tmp_path / name).write_text("\n" + "".join(f"line {i}\n" for i in range(count)))
        return Lines.open(tmp_path / name)

    return opened


def test_a_tenth_is_held_out_and_what_opening_left_out_is_kept(lines: Callable[[str, int], Lines]) -> None:
    whole = lines("a.txt", 30)
    train, held, faults = halved(whole, None, seed=0)
    assert (len(train), len(held)) == (27, 3)
    assert {train.line(i) for i in range(27)}.isdisjoint(held.line(i) for i in range(3))
    assert faults.told() == ["empty line: 1 (a.txt line 1)"]
    assert halved(whole, None, seed=0)[1].line(0) == held.line(0)


def test_what_is_given_is_held_out(lines: Callable[[str, int], Lines]) -> None:
    first, second = lines("a.txt", 5), lines("b.txt", 2)
    train, held, faults = halved(first, second, seed=0)
    assert train is first
    assert held is second
    assert faults.told() == ["empty line: 2 (a.txt line 1, b.txt line 1)"]


def test_the_model_to_go_on_from(tmp_path: Path, refused: Callable[..., None]) -> None:
    folder = str(save(ViT(vit.tiny()), tmp_path / "vit"))
    assert going_on(Wish(data="x"), (ViT,), "a ViT") is None
    assert isinstance(going_on(Wish(data="x", base=folder), (Encoder, ViT), "a ViT"), ViT)
    says = f"{folder} holds a ViT: go on from an encoder"
    refused(InputError, says, lambda: going_on(Wish(data="x", base=folder), (Encoder,), "an encoder"))


def test_a_model_that_goes_on_learns_more_gently(tmp_path: Path) -> None:
    model = ViT(vit.tiny())
    lesson = object.__new__(TextLesson)  # it is passed on as it is
    made = lambda **more: begun(Wish(data="x", **more), model, lesson, lambda model, folder: folder, "what")
    assert made().rate == NEW
    assert made(base="writer").rate < NEW
    assert not any(weight.requires_grad for weight in made(base="writer", rank=2).model.embed.parameters())
