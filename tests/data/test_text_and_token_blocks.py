from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer.data import bpe
from glassformer.data import text as module
from glassformer.data.text import Lines, Text, blocks
from glassformer.errors import InputError

WORDS = ["the", " sea", "whale ", "é", "\n", "\n\n", "\n  ", "\t", "'s", "123", ".", "—", "\n—"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return bpe.train(["the sea the whale's sea\n\n\n  123 the é.\n"] * 5, 280)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=300), st.integers(1, 40))
@example(["the\nsea"] * 100, 1)
def test_pieces_are_the_text_and_their_tokens_the_texts(
    tmp_path_factory: Any, tokenizer: Any, words: list[str], size: int
) -> None:
    whole = "".join(words)
    path = tmp_path_factory.getbasetemp() / "pieces.txt"
    path.write_bytes(whole.encode())
    pieces = list(Text.open(path).pieces(size))
    assert "".join(pieces) == whole
    if all(len(piece) < 16 * size for piece in pieces):  # none had to be cut within a line
        ids = [i for piece in pieces for i in tokenizer.encode(piece).ids]
        assert ids == tokenizer.encode(whole).ids


def test_a_long_text_is_cut_between_lines_and_one_without_lines_anywhere(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word word\n" * 10_000)
    pieces = list(Text.open(tmp_path / "a.txt").pieces(1000))
    assert max(map(len, pieces)) <= 1100
    assert all(piece.endswith("\n") for piece in pieces)
    (tmp_path / "a.txt").write_text("x" * 100_000)
    assert max(map(len, Text.open(tmp_path / "a.txt").pieces(1000))) == 16_000


def test_what_stands_in_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\xff\xfe\r\n\r\nthree\r\n" + b"x\r\n" * 9)
    (tmp_path / "b.txt").write_bytes("vièr".encode())
    (tmp_path / "c.md").write_text("not this")
    text = Text.open(tmp_path)
    for size in (1 << 16, 1, 5):
        assert "".join(text.pieces(size)) == "one\ntwo\ufffd\ufffd\n\nthree\n" + "x\n" * 9 + "vièr"
        assert text.faults.summary() == ["bytes that are not UTF-8: 1 (a.txt line 2)"]
    assert text.bytes == sum((tmp_path / name).stat().st_size for name in ("a.txt", "b.txt"))
    assert [path.name for path in Text.open([tmp_path / "b.txt", tmp_path / "a.txt"]).files] == ["b.txt", "a.txt"]


@given(st.integers(1, 40), st.integers(0, 10**9))
def test_blocks_are_the_tokens_in_order(tmp_path_factory: Any, tokenizer: Any, length: int, seed: int) -> None:
    words = np.random.default_rng(seed).choice(WORDS, 200)
    path = tmp_path_factory.getbasetemp() / "blocks.txt"
    path.write_bytes("".join(words).encode())
    made = blocks(Text.open(path), tokenizer, length, tmp_path_factory.getbasetemp() / "cache")
    ids = tokenizer.encode("".join(words)).ids
    assert made.tokens == len(ids)
    assert len(made) == (len(ids) - 1) // length
    for i in range(len(made)):
        assert made.block(i).tolist() == ids[i * length : (i + 1) * length + 1]
    assert made.ids(3, 9).tolist() == ids[3:9]
    with pytest.raises(IndexError):
        made.block(len(made))


def test_tokens_are_made_once(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_bytes(b"the sea\n" * 50 + b"\xff\n")
    first = blocks(Text.open(path), tokenizer, 8, cache, end="</s>")
    assert first.ids(0, first.tokens)[-1] == tokenizer.token_to_id("</s>")
    assert (cache / first.path.name).stat().st_size == 2 * first.tokens
    other = bpe.train(["other"], 260)
    longer = blocks(Text.open(path), other, 8, cache)
    assert longer.tokens != first.tokens
    with monkeypatch.context() as patch:
        patch.setattr(module, "_encoded", None)
        again = blocks(Text.open(path), tokenizer, 8, cache, end="</s>")
        assert again.faults.tried == 0  # told, not weighed: nothing was read that could be more than the bad lines
        assert again.faults.summary() == first.faults.summary() == ["bytes that are not UTF-8: 1 (a.txt line 51)"]
    assert again.block(3).tolist() == first.block(3).tolist()
    assert pickle.loads(pickle.dumps(again)).block(3).tolist() == first.block(3).tolist()
    first.path.write_bytes(first.path.read_bytes()[:-2])  # cut off: made anew
    assert blocks(Text.open(path), tokenizer, 8, cache, end="</s>").block(3).tolist() == again.block(3).tolist()
    path.write_bytes(b"the whale\n" * 50)
    assert blocks(Text.open(path), tokenizer, 8, cache).bytes == 500
    assert not [file for file in cache.iterdir() if file.suffix not in (".ids", ".json")], "nothing half made is left"


def test_the_end_is_held_out(tmp_path: Path, tokenizer: Any, refused: Any) -> None:
    (tmp_path / "a.txt").write_text("the sea 1 2 3\n" * 40)
    whole = blocks(Text.open(tmp_path / "a.txt"), tokenizer, 8, tmp_path)
    first, last = (pickle.loads(pickle.dumps(part)) for part in whole.cut(0.25))
    assert first.tokens + last.tokens == whole.tokens
    assert last.tokens == round(whole.tokens / 4)
    assert [*first.ids(0, first.tokens), *last.ids(0, last.tokens)] == whole.ids(0, whole.tokens).tolist()
    assert abs(first.bytes + last.bytes - whole.bytes) <= 1
    assert last.block(1).tolist() == whole.ids(first.tokens + 8, first.tokens + 17).tolist()
    again = last.cut(0.5)[1]
    assert again.ids(0, again.tokens).tolist() == whole.ids(whole.tokens - again.tokens, whole.tokens).tolist()
    refused(InputError, f"{whole.tokens} tokens, of which 3 are for validation", lambda: whole.cut(3 / whole.tokens))


def test_many_tokens_take_four_bytes(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "a.txt").write_text("the sea " * 20)

    class Large:
        token_to_id, to_str, encode_batch_fast = tokenizer.token_to_id, tokenizer.to_str, tokenizer.encode_batch_fast

        def get_vocab(self) -> dict[str, int]:
            return {"the": 65_536}  # the largest id counts, not how many there are

    made = blocks(Text.open(tmp_path / "a.txt"), Large(), 4, tmp_path)
    assert made.path.stat().st_size == 4 * made.tokens
    assert made.block(1).tolist() == tokenizer.encode("the sea " * 20).ids[4:9]
    assert json.loads(made.path.with_suffix(".json").read_text())["kind"] == "uint32"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("the sea " * 20)

    def full(*_: Any) -> Any:
        yield [1, 2]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_encoded", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\): free some disk space"):
        blocks(Text.open(tmp_path / "a.txt"), tokenizer, 4, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("één \r\n\r\ntwo\n".encode() + b"\xff\n" + b"x" * 30 + b"\n" + b"y" * 20)
    lines = Lines.open(path, longest=20)
    assert [lines.line(i) for i in range(len(lines))] == ["één", "two", "y" * 20]
    assert lines.lengths.tolist() == [6, 3, 20]
    part = lines.part(np.array([2, 0]))
    assert [part.line(i) for i in range(len(part))] == ["y" * 20, "één"]
    told = [f"empty line: 1 ({path.name} line 2)", "not UTF-8: 1 (a.txt line 4)"]
    assert lines.faults.summary() == [*told, "line of more than 20 bytes: 1 (a.txt line 5)"]


def test_what_is_refused(tmp_path: Path, tokenizer: Any, refused: Any) -> None:
    path = tmp_path / "a.txt"
    refused(InputError, f"there is no {path}: give", lambda: Text.open(path))
    refused(InputError, f"{tmp_path} has no *.txt: give", lambda: Text.open(tmp_path))
    refused(InputError, "nothing has no *.txt: give", lambda: Text.open([]))
    path.write_text("")
    refused(InputError, f"{path} is empty: give", lambda: Text.open(path))
    path.write_bytes(b"\xff\xfe\x80\n" * 9)
    refused(InputError, "9 of 10 cannot be used, most of them", lambda: list(Text.open(path).pieces()))
    path.write_text("the")
    open_ = lambda **more: blocks(Text.open(path), tokenizer, 9, tmp_path, **more)
    refused(InputError, "a.txt has 1 tokens, too few for a block of 9 and its next token: give", open_)
    refused(InputError, "the tokenizer has no token <e>: choose", lambda: open_(end="<e>"))
    refused(
        InputError,
        "block length must be at least 1, got 0: choose",
        lambda: blocks(Text.open(path), tokenizer, 0, tmp_path),
    )
    path.write_text("\n\n")
    refused(InputError, f"{path} has no lines of text: give", lambda: Lines.open(path))
