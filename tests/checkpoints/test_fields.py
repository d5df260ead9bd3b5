"""A field of config.json is of its kind and no larger than the file bears, or it is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from glassformer.checkpoints.fields import DEEPEST, Fields
from glassformer.errors import ConfigError

TABLES = {"table": torch.ones(5, 4), "same": torch.ones(5, 4), "other": torch.zeros(5, 4), "wide": torch.ones(5, 5)}


def of(**raw: Any) -> Fields:
    return Fields(raw, {name: tuple(tensor.shape) for name, tensor in TABLES.items()}, TABLES.__getitem__)


def test_what_is_there() -> None:
    f = of(width=8, eps=1, on=True, act="gelu_new", eos=[7, 8], architectures=["A", "B"], none=None)
    assert (f.size("width"), f.size("absent", 3), f.size("none", 2)) == (8, 3, 2)
    assert (f.number("eps"), f.flag("on", False), f.activation("act", "relu")) == (1.0, True, "gelu_tanh")
    assert (f.token("eos", 0), f.token("absent", 5), f.architecture) == (7, 5, "A")
    assert (f.numbers, of().architecture) == (85, "")
    assert f.has("nothing", "table")
    assert not f.has("nothing")


def test_pairs_and_parts() -> None:
    f = of(image=8, wide=[4, 6], text={"width": 3}, bad={"width": 0})
    assert (f.pair("image"), f.pair("wide"), f.pair("absent", 5)) == ((8, 8), (4, 6), (5, 5))
    assert f.part("text").size("width") == 3
    assert f.part("absent").raw == {}
    with pytest.raises(ConfigError, match="width is 0"):
        f.part("bad").size("width")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("12", lambda f: f.size("x")),
        (12.0, lambda f: f.size("x")),
        (True, lambda f: f.size("x")),
        (0, lambda f: f.size("x")),
        (-1, lambda f: f.depth("x")),
        (86, lambda f: f.size("x")),
        ([4, 0], lambda f: f.pair("x")),
        ([4, 4, 4], lambda f: f.pair("x")),
        (3, lambda f: f.part("x")),
        (10**9, lambda f: f.size("x")),
        (5, lambda f: f.depth("x")),
        (10**9, lambda f: f.depth("x")),
        (2**40, lambda f: f.count("x")),
        ("1e-5", lambda f: f.number("x")),
        (float("nan"), lambda f: f.number("x")),
        (True, lambda f: f.number("x")),
        (1, lambda f: f.flag("x", False)),
        ("mish", lambda f: f.activation("x", "relu")),
        (["relu"], lambda f: f.activation("x", "relu")),
        ([], lambda f: f.token("x", 0)),
        ("relative", lambda f: f.only("x", "absolute")),
        (None, lambda f: f.size("x")),
    ],
)
def test_what_is_wrong_is_named(value: Any, read: Callable[[Fields], Any]) -> None:
    with pytest.raises(ConfigError, match=r"\bx\b"):
        read(of(x=value))


def test_deeper_than_anything() -> None:
    many = Fields({"x": DEEPEST + 1}, {str(i): (1,) for i in range(2 * DEEPEST)}, TABLES.__getitem__)
    with pytest.raises(ConfigError, match="1001"):
        many.depth("x")


def test_ties() -> None:
    assert of().tied("same", "table", default=True)
    assert of().tied("absent", "table", default=True)
    assert not of().tied("other", "table", default=True)
    assert not of().tied("wide", "table", default=True)
    assert not of(tie_word_embeddings=False).tied("same", "table", default=True)
    assert not of().tied("same", "table", default=False)
