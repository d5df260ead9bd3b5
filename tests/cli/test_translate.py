from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.checkpoints import load
from glassformer.cli.main import build
from glassformer.errors import InputError
from glassformer.pipelines import aligned, translate

SIZES = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2, "feed_forward_proj": "gated-silu"}


@pytest.fixture
def folder(writer: Path, tmp_path: Path) -> Path:
    """A T5 whose tokens are bytes, as transformers would save one."""
    transformers = pytest.importorskip("transformers")
    tokens = {"pad_token_id": 1, "eos_token_id": 0, "decoder_start_token_id": 1}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=256, **SIZES, **tokens))
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(tmp_path / "t5")
    (tmp_path / "t5" / "tokenizer.json").write_bytes((writer / "tokenizer.json").read_bytes())
    return tmp_path / "t5"


def test_lines(folder: Path) -> None:
    model = load(folder)
    call = ["translate", "-m", str(folder), "--max-new-tokens", "4", "--num-beams", "2", "--prefix", "x: "]
    result = CliRunner().invoke(build(), call, input=b"ab\n\xff\n\ncd\n", catch_exceptions=False)
    both = translate(model, ["ab", "cd"], num_beams=2, max_new_tokens=4, prefix="x: ")
    first, last = (" ".join(text.splitlines()) for text in both)
    assert result.stdout == f"{first}\n\n\n{last}\n"  # a line for a line: what fails and what is empty has its own
    assert result.exit_code == 2
    assert result.stderr == "glassformer: standard input:2: byte 0 is not UTF-8: save the text as UTF-8\n"


def test_which_word_looked_at_which(folder: Path, tmp_path: Path) -> None:
    found = aligned(load(folder), "ab cd", max_new_tokens=4)
    call = ["translate", "-m", str(folder), "--max-new-tokens", "4", "ab cd"]
    drawn = [*call, "--align", "--figure", str(tmp_path / "a.png")]
    result = CliRunner().invoke(build(), drawn, catch_exceptions=False)
    first, *rows = result.stdout.removesuffix("\n").split("\n")
    assert first == found.text
    assert len(rows) == len(found.target)
    assert all(" ← " in row for row in rows)
    assert (tmp_path / "a.png").exists() == bool(found.target)
    with pytest.raises(InputError, match="--figure draws one text, got 2"):
        CliRunner().invoke(build(), [*call, "ef", "--figure", "a.png"], catch_exceptions=False)
