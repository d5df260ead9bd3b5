"""Bodies of requests."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    """Unknown keys are rejected, and so are implicit conversions: 1 for true, "1" for 1."""

    model_config = ConfigDict(extra="forbid", strict=True)
