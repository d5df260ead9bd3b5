from __future__ import annotations

import pytest
import torch

from glassformer.errors import InputError
from glassformer.models.tiny import MAKERS, tiny_model


@pytest.mark.parametrize("kind", MAKERS)
def test_a_seed_determines_the_weights(kind: str) -> None:
    model, again = tiny_model(f"tiny:{kind}", seed=5), tiny_model(kind, seed=5)
    assert not model.training
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    other = tiny_model(kind, seed=6)
    assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_an_unknown_architecture(refused) -> None:  # type: ignore[no-untyped-def]
    refused(InputError, "there is no tiny:horse: choose tiny: and one of decoder", lambda: tiny_model("tiny:horse"))
