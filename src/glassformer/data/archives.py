"""Datasets in zip and tar archives: unpacked once into the cache, within limits, and never outside their folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from glassformer.data.packages import cache
from glassformer.errors import GlassError, InputError

ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz2", ".txz")
MAX_BYTES = 200 << 30
MAX_FILES = 5_000_000
MAX_RATIO = 200  # unpacked bytes per byte of the archive
PART = 1 << 20
JUNK = ("__MACOSX",)


def is_archive(path: Path) -> bool:
    return path.is_file() and path.name.lower().endswith(ARCHIVES)


def unpacked(path: Path) -> Path:
    """Return the folder with the archive's files, unpacked on first use; its only folder if it has just one."""
    key = f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}"
    place = cache() / "archives" / hashlib.sha256(key.encode()).hexdigest()[:24]
    if not place.is_dir():
        part = place.with_name(f"{place.name}.{os.getpid()}")
        try:
            part.mkdir(parents=True)
            _unpack(path, part)
            part.rename(place)
        except OSError as error:
            if not place.is_dir():  # unless another process was faster
                fact = f"{path} cannot be unpacked to {place.parent} ({error.strerror or error})"
                raise InputError(fact, "free some disk space, or unpack it yourself") from None
        finally:
            shutil.rmtree(part, ignore_errors=True)
    inside = [one for one in place.iterdir() if not one.name.startswith(".")]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else place


def _unpack(path: Path, folder: Path) -> None:
    limit = min(MAX_BYTES, max(MAX_RATIO * path.stat().st_size, 1 << 28))
    written = count = 0
    try:
        for name, size, open_member in _members(path):
            count += 1
            if count > MAX_FILES or written + size > limit:
                fact = f"{path} contains more than {MAX_FILES:,} files or {limit:,} bytes"
                raise InputError(fact, "unpack it yourself and give the folder")
            target = folder.joinpath(*_safe(name, path))
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_member() as source, target.open("wb") as file:
                while part := source.read(PART):
                    written += len(part)
                    if written > limit:
                        raise InputError(f"{path} unpacks to more than {limit:,} bytes", "give an archive of data")
                    file.write(part)
    except GlassError:
        raise
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, RuntimeError, ValueError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:80]
        raise InputError(f"{path} cannot be unpacked ({reason})", "give a zip or tar archive") from None
    if not count:
        raise InputError(f"{path} contains no files", "give an archive of data")


def _members(path: Path) -> Iterator[tuple[str, int, Callable[[], IO[bytes]]]]:
    """Yield (name, stated size, function that opens it) of every regular file; links and devices are refused."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                mode = info.external_attr >> 16
                if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise InputError(
                        f"{path} contains {info.filename}, which is not a file", "leave out links and devices"
                    )
                if not info.is_dir() and not _hidden(info.filename):
                    yield info.filename, info.file_size, partial(archive.open, info)
        return
    with tarfile.open(path) as archive_:
        for member in archive_:
            if not (member.isfile() or member.isdir()):
                raise InputError(f"{path} contains {member.name}, which is not a file", "leave out links and devices")
            if member.isfile() and not _hidden(member.name):
                yield member.name, member.size, partial(_extract, archive_, member)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    opened = archive.extractfile(member)
    assert opened is not None
    return opened


def _hidden(name: str) -> bool:
    return any(part in JUNK or part.startswith("._") or part == ".DS_Store" for part in PurePosixPath(name).parts)


def _safe(name: str, path: Path) -> tuple[str, ...]:
    parts = tuple(part for part in PurePosixPath(name.replace("\\", "/")).parts if part != ".")
    if not parts or name.startswith("/") or ".." in parts or ":" in parts[0] or "\0" in name:
        raise InputError(
            f"{path} contains {name[:80]!r}, a path outside the archive", "give an archive with relative paths"
        )
    return parts
