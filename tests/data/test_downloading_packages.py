"""The real pip, on a folder of packages and without a network."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from glassformer.data import packages as registry
from glassformer.data.packages import Package, cache, download, extract, sha256_of
from glassformer.errors import CheckpointError, InputError


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: Any) -> Path:
    """A folder that pip takes packages from, with one wheel in it."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with zipfile.ZipFile(shelf / "tinything-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tinything/data.txt", "hello")
        wheel.writestr("tinything-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
        wheel.writestr("tinything-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tinything-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return shelf


def package(shelf: Path, **how: Any) -> Package:
    sha = sha256_of(shelf / "tinything-1.0-py3-none-any.whl")
    usual = {"registry": "pip", "name": "tinything", "version": "1.0", "sha256": sha, "megabytes": 0.1}
    return Package(**(usual | how))


def test_fetched_once_and_kept(shelf: Path, tmp_path: Path) -> None:
    said: list[str] = []
    file = download(package(shelf), tmp_path / "down", said.append)
    assert said == ["tinything 1.0: 0.1 MB from pip"]
    wanted = package(shelf)
    shutil.rmtree(shelf)  # the second time it is not asked for
    assert download(wanted, tmp_path / "down", said.append) == file
    assert len(said) == 1
    extract(file, {"tinything/data.txt": "in/a/word.txt"}, tmp_path / "out")
    assert (tmp_path / "out" / "in" / "a" / "word.txt").read_text() == "hello"
    with pytest.raises(CheckpointError, match="has no tinything/other"):
        extract(file, {"tinything/other": "x"}, tmp_path / "out")


def test_a_download_that_was_broken_off_starts_anew(shelf: Path, tmp_path: Path) -> None:
    place = tmp_path / "down" / "tinything-1.0"
    place.mkdir(parents=True)
    (place / "tinything-1.0-py3-none-any.whl").write_bytes(b"half")
    assert sha256_of(download(package(shelf), tmp_path / "down")) == package(shelf).sha256


def test_another_file_than_the_pinned_one_is_not_kept(shelf: Path, tmp_path: Path, refused: Any) -> None:
    other = package(shelf, sha256="0" * 64)
    text = "tinything-1.0-py3-none-any.whl has the sha256"
    refused(CheckpointError, text, lambda: download(other, tmp_path / "down"))
    assert list((tmp_path / "down").iterdir()) == []


def test_what_cannot_be_fetched(shelf: Path, tmp_path: Path, refused: Any, monkeypatch: Any) -> None:
    gone = package(shelf, version="2.0")
    refused(InputError, "tinything 2.0 could not be fetched (ERROR:", lambda: download(gone, tmp_path / "down"))
    assert list((tmp_path / "down").iterdir()) == []
    by_npm = package(shelf, registry="npm")
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(InputError, "npm is not installed: install it", lambda: download(by_npm, tmp_path / "down"))


def test_an_interrupt_leaves_nothing(shelf: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        download(package(shelf), tmp_path / "down")
    assert list((tmp_path / "down").iterdir()) == []


def test_commands(tmp_path: Path) -> None:
    how = {"name": "n", "version": "1", "sha256": "", "megabytes": 1.0}
    assert Package(registry="npm", **how).command(tmp_path)[-1] == "n@1"
    assert Package(registry="apt", **how).command(tmp_path)[-1] == "n=1"
    assert "--no-binary" in Package(registry="pip", source=True, **how).command(tmp_path)


def test_tar_and_deb(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    with tarfile.open(path, "w:gz") as whole:
        entry = tarfile.TarInfo("package/a.txt")
        entry.size = 3
        whole.addfile(entry, io.BytesIO(b"tar"))
    extract(path, {"package/a.txt": "a.txt"}, tmp_path)
    assert (tmp_path / "a.txt").read_text() == "tar"
    if shutil.which("dpkg-deb"):
        root = tmp_path / "root"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN" / "control").write_text(
            "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: a\n"
        )
        (root / "b.txt").write_text("deb")
        subprocess.run(["dpkg-deb", "-b", str(root), str(tmp_path / "a.deb")], check=True, capture_output=True)
        extract(tmp_path / "a.deb", {"b.txt": "b.txt"}, tmp_path)
        assert (tmp_path / "b.txt").read_text() == "deb"
        assert not (tmp_path / ".deb").exists()


def test_the_cache(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    assert cache() == tmp_path / "glassformer"
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "mine"))
    assert cache() == tmp_path / "mine"


def test_one_wheel_for_every_machine(shelf: Path, tmp_path: Path) -> None:
    """pip on any machine takes the wheel of the platform that is pinned."""
    wheels = {}
    for tag in ("manylinux2014_x86_64", "manylinux2014_aarch64"):
        path = wheels[tag] = shelf / f"tinything-1.0-cp312-cp312-{tag}.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("tinything/data.txt", tag)
            wheel.writestr("tinything-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
            wheel.writestr("tinything-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: cp312-cp312-{tag}\n")
    pinned = package(shelf, sha256=sha256_of(wheels["manylinux2014_aarch64"]), platform="manylinux2014_aarch64")
    assert download(pinned, tmp_path / "down").name == wheels["manylinux2014_aarch64"].name


def test_what_builds_an_sdist_is_held_to_versions(monkeypatch: Any) -> None:
    monkeypatch.setenv("OTHER", "stays")
    with registry._held("setuptools<70") as environment:
        assert environment["OTHER"] == "stays"
        for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"):
            assert Path(environment[name]).read_text() == "setuptools<70\n"
    assert not Path(environment["PIP_CONSTRAINT"]).exists()
    with registry._held("") as environment:
        assert environment.get("PIP_CONSTRAINT") == registry.os.environ.get("PIP_CONSTRAINT")
