"""Cache of measurements, keyed by claim, parameters, seed and version. A damaged file counts as missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer import __version__
from glassformer.files import replacing, user_cache

if TYPE_CHECKING:
    from glassformer.lab.experiment import Result, Value

PACKAGE = Path(__file__).parent.parent
ABOVE = ("report", "cli", "server", "widget")  # packages that no measurement depends on


def folder() -> Path:
    """Return the cache folder of the lab."""
    return user_cache() / "lab"


@cache
def version() -> str:
    """Return the versions of glassformer and torch, with a digest of the code that measures."""
    import torch

    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] not in ABOVE:
            digest.update(path.read_bytes())
    return f"{__version__}-{torch.__version__}-{digest.hexdigest()[:16]}"


def place(number: int, parameters: Mapping[str, Value], seed: int) -> Path:
    key = json.dumps([number, dict(sorted(parameters.items())), seed, version()])
    return folder() / f"{number:02}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def load(number: int, parameters: Mapping[str, Value], seed: int) -> tuple[Result, float] | None:
    try:
        data = json.loads(place(number, parameters, seed).read_text(encoding="utf-8"))
        return dict(data["result"]), float(data["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(number: int, parameters: Mapping[str, Value], seed: int, result: Result, seconds: float) -> None:
    path = place(number, parameters, seed)
    with suppress(OSError):  # if the cache folder is not writable, the claim is measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(json.dumps({"result": result, "seconds": seconds}), encoding="utf-8")
