"""Bodies of requests."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    """A request body. Unknown keys and implicit conversions (1 for true, "1" for 1) are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True)
