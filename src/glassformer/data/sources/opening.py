"""Dataset subsets embedded in Glassformer, and `open_data`, which returns the folder of a full or embedded dataset."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from glassformer.data.packages import cache
from glassformer.data.sources.table import DATASETS
from glassformer.errors import InputError

HERE = Path(__file__).parent / "embedded"


def embedded() -> dict[str, str]:
    """Map each dataset name to what is embedded of it, according to its card: `5,000 images, 500 per class`."""
    found = {}
    for path in sorted(HERE.glob("*.tar.xz")):
        name = path.name.removesuffix(".tar.xz")
        lines = (HERE / f"{name}.md").read_text(encoding="utf-8").splitlines()
        found[name] = next(line for line in lines if line.startswith("Embedded: "))[10:].rstrip(".")
    return found


def embedded_part(name: str) -> str | None:
    """Return what `open_data` gives of this dataset if that is only a part; None if it is the whole dataset."""
    part = embedded().get(name, "the whole dataset")
    return None if part.startswith("the whole dataset") or (cache() / name).is_dir() else part


def open_data(name: str) -> Path:
    """Return the folder of a dataset: the full dataset if it was fetched, otherwise the embedded subset."""
    _known(name)
    fetched = cache() / name
    if fetched.is_dir():
        return fetched
    if name not in embedded():
        raise InputError(f"{name} is neither downloaded nor embedded", f"run glassformer data fetch {name}")
    return unpack(name)


def unpack(name: str) -> Path:
    """Unpack the embedded subset, once and atomically, into a folder laid out like the fetched dataset."""
    _known(name)
    if name not in embedded():
        raise InputError(f"no part of {name} is embedded", f"choose one of {', '.join(embedded())}")
    archive = HERE / f"{name}.tar.xz"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:12]  # a different subset gets a different folder
    folder = cache() / "embedded" / f"{name}-{digest}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder.parent, ignore_cleanup_errors=True) as part:
            whole = Path(part) / "whole"
            with tarfile.open(archive) as packed:
                packed.extractall(whole, filter="data")
            _appear(whole, folder)
    except OSError as error:
        reason = error.strerror or str(error)
        fact = f"{folder} cannot be written ({reason})"
        raise InputError(fact, "set GLASSFORMER_DATA to a writable folder") from None
    return folder


def _appear(whole: Path, folder: Path) -> None:
    try:
        os.replace(whole, folder)
    except OSError:  # another process was first, with the same content
        if not folder.is_dir():
            raise
        shutil.rmtree(whole)


def _known(name: str) -> None:
    if name not in DATASETS:
        raise InputError(f"there is no dataset {name!r}", f"choose one of {', '.join(DATASETS)}, or give a folder")
