from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from glassformer.checkpoints import load
from glassformer.cli.main import build
from glassformer.errors import InputError
from glassformer.pipelines import embed

TEXTS = ["the cat sat", "the market fell", "the dog sat the cat sat"]


def run(*arguments: str, text: str | bytes = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(build(), ["embed", *arguments], input=text, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_lines_to_vectors(reader: Path, tmp_path: Path) -> None:
    expected = embed(load(reader), TEXTS)
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))
    call = ["-m", str(reader), str(tmp_path / "lines.txt"), "-o", str(tmp_path / "v.npy"), "--batch-size", "2"]
    assert run(*call) == (0, "", "")
    torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "v.npy")), expected)
    code, out, error = run("-m", str(reader), text="\n".join(TEXTS))
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, error) == (0, "")
    assert [row["text"] for row in rows] == TEXTS
    torch.testing.assert_close(torch.tensor([row["vector"] for row in rows]), expected)
    run("-m", str(reader), "-o", str(tmp_path / "v.jsonl"), text="\n".join(TEXTS))
    assert (tmp_path / "v.jsonl").read_text() == out


def test_search(reader: Path) -> None:
    code, out, _ = run("-m", str(reader), "--search", "the cat sat", "-k", "2", text="\n".join(TEXTS))
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert len(rows) == 2
    assert rows[0] == ["1.0000", "the cat sat"]


def test_a_bad_line_is_told_and_the_rest_embedded(reader: Path) -> None:
    code, out, error = run("-m", str(reader), text=b"the cat\nthe \xff\n" + b"cat " * 40 + b"\nthe dog\n")
    assert code == 2
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["the cat", "the dog"]
    first, second = error.splitlines()
    assert first == "glassformer: standard input:2: byte 4 is not UTF-8: save the text as UTF-8"
    assert second.startswith("glassformer: standard input:3: a text of 42 tokens exceeds the model's context of 12")


def test_what_is_refused(reader: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--output v.txt has an unknown format"):
        run("-m", str(reader), "-o", str(tmp_path / "v.txt"), text="the")


def test_a_table_for_parquet(reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import parquet

    _, out, _ = run("-m", str(reader), text="\n".join(TEXTS))
    run("-m", str(reader), "-o", str(tmp_path / "v.parquet"), text="\n".join(TEXTS))
    rows = parquet.read_table(tmp_path / "v.parquet").to_pylist()
    assert rows == [json.loads(line) for line in out.splitlines()]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"\.parquet needs the package pyarrow"):
        run("-m", str(reader), "-o", str(tmp_path / "v.parquet"), text="the")
