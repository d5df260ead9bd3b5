"""A loaded model knows where it came from."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from glassformer.checkpoints import load, origin_of
from glassformer.models import Decoder, decoder


def test_what_came_with_it(tiny: Path) -> None:
    (tiny / "generation_config.json").write_text('{"eos_token_id": 0}')
    (tiny / "tokenizer.json").write_text("{}")
    model = load(tiny)
    origin = origin_of(model)
    assert origin is not None
    assert origin is model.origin
    assert (origin.family, origin.folder, origin.tokenizer) == ("gpt2", tiny, tiny / "tokenizer.json")
    assert origin.raw == json.loads((tiny / "config.json").read_text())
    assert origin.generation == {"eos_token_id": 0}
    assert origin.file("nothing.json") is None
    assert origin_of(copy.deepcopy(model)) is not None
    assert "origin" not in model.state_dict()


def test_a_model_built_here_has_none() -> None:
    assert origin_of(Decoder(decoder.tiny())) is None
