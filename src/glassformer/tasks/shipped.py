"""Which model a verb uses: one that comes with Glassformer, one that was fetched, or a folder."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from glassformer.checkpoints import load
from glassformer.checkpoints.registry import cache
from glassformer.errors import InputError

HERE = Path(__file__).parent / "shipped"
# verb → the model it uses when none is named
DEFAULTS = {
    "classify": "objects",
    "embed": "finder",
    "generate": "writer",
    "transcribe": "listener",
    "translate": "translator",
}


def shipped() -> tuple[str, ...]:
    """The names of the models that come with Glassformer."""
    return tuple(sorted(path.parent.name for path in HERE.glob("*/glassformer.json")))


def find_model(name: str | Path) -> Path:
    """The folder of a shipped model, of fetched weights, or one that is there; a name of ours goes first."""
    here = HERE / str(name)
    if str(name) in shipped():
        return here
    fetched = cache() / str(name)
    if "/" not in str(name) and (fetched / "fetched.json").is_file():
        return fetched
    if Path(name).exists():
        return Path(name)
    raise InputError(
        f"there is no model {str(name)!r}",
        f"name a folder, one that comes with Glassformer ({', '.join(shipped())}), or fetched weights (data list)",
    )


def open_model(name: str | Path) -> nn.Module:
    return load(find_model(name))
