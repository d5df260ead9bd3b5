"""What several tests of the runtime share."""

from __future__ import annotations

import pytest
from torch import Tensor

from glassformer.runtime.engines import Engine


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every pass through a stack with an engine, whether the engine computed it."""
    found: list[bool] = []
    run = Engine.run

    def counting(self: Engine, *given: object) -> Tensor | None:
        result = run(self, *given)  # type: ignore[arg-type]
        found.append(result is not None)
        return result

    monkeypatch.setattr(Engine, "run", counting)
    return found
