"""What was measured before, by claim, parameters, seed and version; a file that is broken is measured again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from glassformer import __version__
from glassformer.lab.experiment import Result, Value

PACKAGE = Path(__file__).parent.parent


def folder() -> Path:
    """Where this user's programs keep what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "glassformer" / "lab"


@cache
def version() -> str:
    """Glassformer's, torch's, and a digest of the code that measures: a changed line is another version."""
    import torch

    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        if "app" not in path.relative_to(PACKAGE).parts:
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
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({"result": result, "seconds": seconds}), encoding="utf-8")
        os.replace(part, path)  # a reader never sees half a file
    except OSError:  # a home that cannot be written: measured again next time
        with suppress(OSError):
            part.unlink()
