"""A tiny model of each architecture, its input and its run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image

from glassformer import lens
from glassformer.models.tiny import tiny_model
from glassformer.report.inputs import Inputs, prepare_inputs

TEXT = "the quick brown fox saw the quick brown dog"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """picture.png, and sound.wav: 0.8 s, stereo, at another rate than the models take."""
    place = tmp_path_factory.mktemp("inputs")
    y, x = np.mgrid[0:60, 0:80] / 80
    Image.fromarray((255 * np.stack([x, y, 1 - x], -1)).astype(np.uint8)).save(place / "picture.png")
    t = np.arange(int(22050 * 0.8)) / 22050
    soundfile.write(place / "sound.wav", np.stack([np.sin(2000 * t), 0 * t], 1) / 2, 22050)
    (place / "not.wav").write_text("no audio")
    return place


@pytest.fixture(scope="session")
def given(files: Path) -> dict[str, list[str]]:
    """Inputs for each architecture."""
    picture, sound = str(files / "picture.png"), str(files / "sound.wav")
    return {
        "decoder": [TEXT],
        "encoder": [TEXT],
        "seq2seq": ["das ist ein Haus", "this is a house"],
        "vit": [picture],
        "hybrid": [picture],
        "clip": [picture, "a cat & a dog", "a house"],
        "speech": [sound],
        "whisper": [sound, "this is said"],
        "recurrent-seq2seq": ["das ist ein Haus", "this is a house"],
    }


Shown = tuple[torch.nn.Module, Inputs, lens.Run, torch.Tensor]


@pytest.fixture(scope="session")
def model_of() -> Callable[[str], torch.nn.Module]:
    """Larger weights than those of a new model, so that heads differ."""

    def make(kind: str) -> torch.nn.Module:
        model = tiny_model(kind, seed=3)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(3 if weight.dim() == 2 else 1)
        return model

    return make


@pytest.fixture(scope="session")
def shown(given: dict[str, list[str]], model_of: Callable[[str], torch.nn.Module]) -> Callable[[str], Shown]:
    """`shown("decoder")`: model, inputs, run, output."""
    made: dict[str, Shown] = {}

    def make(kind: str) -> Shown:
        if kind not in made:
            model = model_of(kind)
            with torch.no_grad():
                inputs = prepare_inputs(model, given[kind])
                with lens.trace(model) as run:
                    out = model(*inputs.tensors[:2])
            made[kind] = model, inputs, run, out
        return made[kind]

    return make
