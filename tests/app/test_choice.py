"""The model of a command: as named, or the one that comes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.app.choice import LENS, chosen, opened
from glassformer.app.tiny import TINY
from glassformer.checkpoints import save
from glassformer.errors import InputError
from glassformer.models import ViT, vit
from glassformer.tasks import shipped


def test_a_name_or_the_default_of_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(ViT(vit.tiny()), tmp_path / "mine" / "objects")
    assert isinstance(chosen(str(folder), "classify"), ViT)
    monkeypatch.setattr(shipped, "HERE", tmp_path / "mine")
    assert isinstance(chosen(None, "classify"), ViT)
    with pytest.raises(InputError, match="there is no model 'translator'"):
        chosen(None, "translate")


def test_the_lens_takes_what_verbs_take_and_tiny_ones(tmp_path: Path) -> None:
    folder = save(ViT(vit.tiny()).train(), tmp_path / "mine")
    for name, note in ((str(folder), ""), ("digits", ""), ("tiny:vit", "Its weights are random")):
        model, said = opened(name)
        assert not model.training
        assert said.startswith(note)
        assert bool(said) == bool(note)
    with pytest.raises(InputError, match="there is no model 'nobody'"):
        opened("nobody")
    assert all(kind in LENS for kind in TINY)
