"""A name finds the shipped model, then what was fetched, then a folder; whatever is shipped loads and is small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from glassformer.errors import InputError
from glassformer.models import ViT
from glassformer.pipelines.loading import DEFAULTS, HERE, as_folder, describe_model, find_model, load, shipped
from glassformer.runtime import precision_of


def test_every_shipped_model_loads_and_has_its_card() -> None:
    assert shipped() == ("digits", "finder", "listener", "objects", "translator", "writer")
    for name in shipped():
        folder = find_model(name)
        assert sum(weight.numel() for weight in load(folder).parameters()) > 1000
        assert (folder / "card.md").read_text(encoding="utf-8").startswith(f"# {name}")
        assert (folder / "measured.json").is_file()


def test_all_of_it_stays_within_60_megabytes() -> None:
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file()) <= 60e6


def test_fetched_weights_go_by_name_and_folders_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    folder = tmp_path / "stories15m"
    folder.mkdir()
    assert find_model(folder) == folder
    with pytest.raises(InputError):
        find_model("stories15m")  # not fetched: something else of that name
    (folder / "fetched.json").write_text("{}", encoding="utf-8")
    assert find_model("stories15m") == folder


def test_an_unknown_name_lists_what_there_is(refused: Callable[..., None]) -> None:
    refused(InputError, "there is no model 'nobody': give a folder, a shipped model", lambda: load("nobody"))


def test_every_verb_has_its_default() -> None:
    assert set(DEFAULTS) == {"classify", "embed", "generate", "transcribe", "translate"}


def test_a_model_loads_in_a_precision_and_in_eval_mode() -> None:
    assert precision_of(load("digits", precision="int8")) == "int8"
    model = load("digits")
    assert precision_of(model) == "fp32"
    assert not model.training


def test_tiny_models_load_by_name() -> None:
    first, again, other = (load("tiny:vit", seed=seed) for seed in (1, 1, 2))
    assert isinstance(first, ViT)
    weights = [next(model.parameters()) for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_device_must_be_there(refused: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(InputError, "device 'cuda' is not available on this machine", lambda: load("digits", device="cuda"))
    assert load("tiny:vit", device="auto") is not None
    assert {weight.dtype for weight in load("tiny:vit", dtype=torch.float64).parameters()} == {torch.float64}


def test_every_name_that_load_takes_can_be_described() -> None:
    assert describe_model("digits").verbs == ("classify",)
    small = describe_model("tiny:decoder")
    assert small.folder is None
    assert small.facts["model"] == "Decoder"
    assert small.facts["tokenizer"] == "none"
    with pytest.raises(InputError, match="tiny:decoder has random weights and no folder: save it with"):
        find_model("tiny:decoder")


def test_auto_says_which_precision_it_chose(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = precision_of(load("tiny:vit", precision="auto"))
    assert f"\nprecision {chosen} (fp32 1.00 × the time, cosine 1.00000" in f"\n{capsys.readouterr().err}"


def test_a_folder_with_the_name_of_a_shipped_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was trained with `-o digits` is `./digits`, and a Path is always a folder."""
    monkeypatch.chdir(tmp_path)
    Path("digits").mkdir()
    assert find_model("digits") != Path("digits")
    assert find_model(Path("digits")) == find_model(as_folder("digits")) == Path("digits")
    assert (as_folder("digits"), as_folder(Path("mine"))) == ("./digits", "mine")
