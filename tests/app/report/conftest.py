"""A tiny model of each kind, what it is given, and its run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image

from glassformer import lens
from glassformer.app.choice import opened
from glassformer.app.report import Seen, see

TEXT = "the quick brown fox saw the quick brown dog"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """picture.png, and sound.wav of 0.8 s at another rate than models hear, in two channels."""
    place = tmp_path_factory.mktemp("inputs")
    y, x = np.mgrid[0:60, 0:80] / 80
    Image.fromarray((255 * np.stack([x, y, 1 - x], -1)).astype(np.uint8)).save(place / "picture.png")
    t = np.arange(int(22050 * 0.8)) / 22050
    soundfile.write(place / "sound.wav", np.stack([np.sin(2000 * t), 0 * t], 1) / 2, 22050)
    (place / "not.wav").write_text("no sound")
    return place


Shown = tuple[torch.nn.Module, Seen, lens.Run, torch.Tensor]


@pytest.fixture(scope="session")
def shown(files: Path) -> Callable[[str], Shown]:
    """`shown("decoder")`: model, input, run, output; larger weights than a new model's, so that heads differ."""
    given = {
        "decoder": [TEXT],
        "encoder": [TEXT],
        "seq2seq": ["das ist ein Haus", "this is a house"],
        "vit": [str(files / "picture.png")],
        "hybrid": [str(files / "picture.png")],
        "clip": [str(files / "picture.png"), "a cat & a dog", "a house"],
        "speech": [str(files / "sound.wav")],
        "whisper": [str(files / "sound.wav"), "this is said"],
        "recurrent": ["das ist ein Haus", "this is a house"],
    }
    made: dict[str, Shown] = {}

    def make(kind: str) -> Shown:
        if kind not in made:
            model, _ = opened(f"tiny:{kind}", seed=3)
            with torch.no_grad():
                for weight in model.parameters():
                    weight.mul_(3 if weight.dim() == 2 else 1)
                seen = see(model, given[kind])
                with lens.trace(model) as run:
                    out = model(*seen.inputs[:2])
            made[kind] = model, seen, run, out
        return made[kind]

    return make
