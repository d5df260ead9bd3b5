from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from glassformer.app.choice import opened
from glassformer.app.report import see
from glassformer.app.report.both import fits
from glassformer.core.audio import MEL, whisper_log_mel
from glassformer.errors import InputError
from glassformer.models import CLIP, clip
from glassformer.tasks.sound import read_sound


def test_sound_and_what_is_said(shown, files: Path) -> None:
    model, seen, _, _ = shown("whisper")
    assert seen.inputs[0].shape == (1, 100, 20)  # a window of 1 s, silence after 0.8 s
    wave = torch.cat([read_sound(files / "sound.wav"), torch.zeros(16000)])[:16000]
    assert torch.equal(seen.inputs[0][0], whisper_log_mel(wave, replace(MEL, bands=20)))
    assert seen.inputs[1].tolist() == [[model.config.start, 3, 4, 5]]
    assert seen.labels == {"decoder": ["<start>", "this", "is", "said"]}
    assert (seen.heard, seen.seconds) == (40, 0.02)


def test_sound_longer_than_a_window(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.wav", np.sin(np.arange(24000) / 5), 16000)
    seen = see(opened("tiny:whisper")[0], [str(tmp_path / "long.wav")])
    assert seen.inputs[1].shape == (1, 1)
    assert "give that as a second input" in seen.notes[0]
    assert "The first 1 s are shown" in seen.notes[1]
    assert seen.heard == 50


def test_a_picture_and_texts(shown) -> None:
    model, seen, _, _ = shown("clip")
    assert [name for name, _, _ in seen.towers] == ["Image", "Text"]
    assert seen.title == "picture.png and a cat & a dog and a house"
    assert seen.towers[1][2].labels["text"] == ["a", "cat", "&", "a", "dog", "<end>"]
    rows = fits(model, seen)
    wanted = torch.cat([model(seen.inputs[0], ids) for ids in seen.inputs[1:]], 1)[0].softmax(-1)
    assert [row[0] for row in rows] == ["a cat & a dog", "a house"]
    assert [float(row[1]) for row in rows] == pytest.approx(wanted.tolist(), abs=1e-3)


def test_one_tower_is_enough(files: Path) -> None:
    model = opened("tiny:clip")[0]
    for inputs, name in ((["a house"], "Text"), ([str(files / "picture.png")], "Image")):
        seen = see(model, inputs)
        assert [tower for tower, _, _ in seen.towers] == [name]
        assert fits(model, seen) == []
        assert torch.equal(seen.towers[0][1](*seen.towers[0][2].inputs), seen.towers[0][1](*seen.inputs))


def test_mistakes(refused, files: Path) -> None:
    picture = str(files / "picture.png")
    model = opened("tiny:clip")[0]
    refused(InputError, "a CLIP was given 2 pictures", lambda: see(model, [picture, picture]))
    deaf = CLIP(replace(clip.tiny(), text=None))
    refused(InputError, "this CLIP has no text tower for 'a'", lambda: see(deaf, ["a"]))
    refused(InputError, "a Whisper was given 3 inputs", lambda: see(opened("tiny:whisper")[0], ["a", "b", "c"]))
