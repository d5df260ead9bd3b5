from __future__ import annotations

import pytest
import torch

from glassformer.app.tiny import TINY, tiny_model
from glassformer.errors import InputError


@pytest.mark.parametrize("kind", TINY)
def test_tiny_models_say_that_they_know_nothing(kind: str) -> None:
    model, note = tiny_model(f"tiny:{kind}", seed=5)
    assert note.startswith("Its weights are random (seed 5)")
    assert not model.training
    again, _ = tiny_model(f"tiny:{kind}", seed=5)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_mistakes(refused) -> None:
    refused(InputError, "there is no tiny:horse: choose tiny: and one of decoder", lambda: tiny_model("tiny:horse"))
