from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.checkpoints import Preprocess, load
from glassformer.cli.main import build
from glassformer.data.sources import open_data
from glassformer.errors import InputError
from glassformer.models import MLP
from glassformer.pipelines import evaluate
from glassformer.train.objectives.image_classification import save_images
from glassformer.train.objectives.image_models import Size, mlp_config


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(build(), ["evaluate", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_a_dataset_by_name_or_a_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path_factory.getbasetemp() / "data"))
    how = Preprocess(resize=(8, 8), resample=2, crop=None, scale=1 / 255, mean=(0.5,), std=(0.5,))
    model = MLP(mlp_config((1, 8, 8), 10, Size(width=8, depth=1)))
    folder = save_images(model, tmp_path / "m", [str(i) for i in range(10)], how)
    expected = evaluate(load(folder), open_data("uci-digits") / "test", limit=50)
    code, out, error = run("uci-digits", "-m", str(folder), "--limit", "50", "--json")
    assert (code, error) == (0, "")
    assert json.loads(out) == expected
    code, out, _ = run(str(open_data("uci-digits") / "test"), "-m", str(folder), "--limit", "50")
    assert out.splitlines()[-1] == f"images             {expected['images']}"
    with pytest.raises(InputError, match="there is no dataset or file 'nowhere'"):
        run("nowhere", "-m", str(folder))
