from __future__ import annotations

import torch

from glassformer.app.report.seen import SHOWN, Reader, Seen, short
from glassformer.models import Decoder, decoder


def test_tokens_belong_to_their_stacks() -> None:
    ids, frames = torch.tensor([[1, 2]]), torch.zeros(1, 4, 3)
    assert Seen(inputs=(ids,), title="").tokens is ids
    assert Seen(inputs=(frames,), title="").tokens is None
    assert list(Seen(inputs=(ids, ids), title="").tokens) == ["encoder", "decoder"]
    assert list(Seen(inputs=(frames, ids), title="").tokens) == ["decoder"]


def test_a_word_that_comes_again_is_the_same_token() -> None:
    reader = Reader(Decoder(decoder.tiny()), 50)
    assert reader.read("a b a") == ([3, 4, 3], ["a", "b", "a"])
    assert reader.read("b c")[0] == [4, 5]
    assert "without tokenizer.json" in reader.notes[0]


def test_long_titles_are_cut() -> None:
    assert short("a" * SHOWN) == "a" * SHOWN
    assert short("a" * 99) == "a" * (SHOWN - 1) + "…"
