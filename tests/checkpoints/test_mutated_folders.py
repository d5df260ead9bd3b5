"""Folders with damaged files, tokenizers included: a model or one line that says why not, never a traceback.

The slow half tries thousands of them: GLASSFORMER_MUTATIONS=10000 pytest tests/checkpoints/test_mutated_folders.py.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoints import load
from glassformer.errors import GlassError
from glassformer.pipelines.tokenizers import words_of

SIZES = {"vocab_size": 60, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
VALUES = [None, True, 0, -1, 7, 10**9, 1.5, "", "x" * 300, [], [1], {}, {"a": 1}]


def words() -> list[str]:
    letters = (chr(ord("a") + i % 26) + "#" * (i // 26) for i in range(55))
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]


def with_word_pieces(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(words()), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}), encoding="utf-8")


def with_merges(folder: Path) -> None:
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())[:57]
    tokens = ["<|endoftext|>", *letters, letters[0] + letters[1], letters[2] + letters[3]]
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}), encoding="utf-8")
    pairs = "\n".join(["#version: 0.2", f"{letters[0]} {letters[1]}", f"{letters[2]} {letters[3]}"])
    (folder / "merges.txt").write_text(pairs + "\n", encoding="utf-8")


def with_json(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words())}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture
def folders(hf: Any, publish: Any, tmp_path: Path) -> list[Path]:
    gpt2 = {"vocab_size": 60, "n_embd": 12, "n_layer": 1, "n_head": 2, "n_positions": 16}
    models = {
        "bert": hf.BertModel(hf.BertConfig(**SIZES, max_position_embeddings=16)),
        "gpt2": hf.GPT2LMHeadModel(hf.GPT2Config(**gpt2, bos_token_id=0, eos_token_id=0)),
        "llama": hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, max_position_embeddings=16)),
    }
    bert, gpt, llama = (shutil.move(publish(model), tmp_path / name) for name, model in models.items())
    with_word_pieces(bert)
    with_merges(gpt)
    with_json(llama)
    return [bert, gpt, llama]


def mutate(path: Path, draw: random.Random) -> None:
    """Cut, flip, insert or repeat bytes; or another value somewhere in a JSON file."""
    data = bytearray(path.read_bytes())
    way = draw.randrange(6)
    at = draw.randrange(max(1, len(data)))
    if way == 0:
        data = data[:at]
    elif way == 1 and data:
        for _ in range(draw.randrange(1, 8)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif way == 2:
        data[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))
    elif way == 3:
        data = data[:at] + data[at : at + 40] * 3 + data[at:]
    elif way == 4:
        data = bytearray(draw.choice([b"", b"null", b"[]", b"{}", b"3", b'"x"', b"\xff\xfe", b"[" * 5000]))
    elif path.suffix == ".json":
        text = json.loads(path.read_text(encoding="utf-8"))
        node: Any = text
        while isinstance(node, dict | list) and node:
            key: Any = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
            if not isinstance(node[key], dict | list) or not node[key] or draw.random() < 0.3:
                if draw.random() < 0.3 and isinstance(node, dict):
                    del node[key]
                else:
                    node[key] = draw.choice(VALUES)
                break
            node = node[key]
        data = bytearray(json.dumps(text).encode())
    path.write_bytes(bytes(data))


def try_mutations(folders: list[Path], place: Path, count: int, seed: int) -> tuple[int, int]:
    """How many folders were refused, of how many; anything but a GlassError fails the test."""
    draw, refused = random.Random(seed), 0
    for number in range(count):
        copy = place / str(number)
        shutil.copytree(draw.choice(folders), copy)
        files = sorted(path for path in copy.iterdir() if path.is_file() and path.suffix != ".safetensors")
        weights = sorted(copy.glob("*.safetensors"))
        target = draw.choice(weights) if draw.random() < 0.1 else draw.choice(files)
        mutate(target, draw)
        try:
            model = load(copy)
            words_of(model).encode("a b c")
        except GlassError as error:
            refused += 1
            if "\n" in str(error):
                pytest.fail(f"seed {seed}, folder {number}: more than one line: {error}")
        except Exception as error:
            pytest.fail(f"seed {seed}, folder {number}, {target.name}: {type(error).__name__}: {error}")
        finally:
            shutil.rmtree(copy)
    return refused, count


@pytest.mark.timeout(120)
def test_mutated_folders(folders: list[Path], tmp_path: Path) -> None:
    refused, count = try_mutations(folders, tmp_path / "mutated", 150, seed=1)
    assert count / 4 < refused < count  # some damage is harmless


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_mutated_folders(folders: list[Path], tmp_path: Path) -> None:
    count = int(os.environ.get("GLASSFORMER_MUTATIONS", "2000"))
    refused, _ = try_mutations(folders, tmp_path / "mutated", count, seed=2)
    assert refused > count / 4


@pytest.mark.parametrize(
    ("folder", "name", "content"),
    [
        (0, "vocab.txt", b"\xff\xfe\x00"),
        (0, "tokenizer_config.json", b"[]"),
        (0, "tokenizer_config.json", b"{"),
        (1, "vocab.json", b"[]"),
        (1, "vocab.json", b'{"a": "b"}'),
        (1, "merges.txt", b"#version: 0.2\nq\n"),
        (2, "tokenizer.json", b"{}"),
    ],
)
def test_damaged_tokenizers(folders: list[Path], folder: int, name: str, content: bytes) -> None:
    (folders[folder] / name).write_bytes(content)
    model = load(folders[folder])
    with pytest.raises(GlassError, match=str(folders[folder])):
        words_of(model)
