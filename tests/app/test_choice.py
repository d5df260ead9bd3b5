"""The model of a verb: as named, or the one that comes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.app.choice import chosen
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
