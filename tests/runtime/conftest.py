"""What several tests of the runtime share."""

from __future__ import annotations

import pytest
from torch import Tensor

from glassformer.runtime.engines import GraphEngine


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every pass through a stack with an engine, whether the engine computed it."""
    found: list[bool] = []
    run = GraphEngine.run

    def counting(self: GraphEngine, *given: object) -> Tensor | None:
        result = run(self, *given)  # type: ignore[arg-type]
        found.append(result is not None)
        return result

    monkeypatch.setattr(GraphEngine, "run", counting)
    return found
