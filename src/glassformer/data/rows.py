"""Rows of a dataset by role, from any source: tables, folders, line-aligned files, archives and Python objects."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.data import columns, tables
from glassformer.data.archives import is_archive, unpacked
from glassformer.data.columns import Columns
from glassformer.data.faults import Fault, Faults, read_each
from glassformer.data.packed import LineIndex, Strings, raw_lines
from glassformer.data.stream import is_later_window
from glassformer.data.tables import ArrowRows, ListTable, Reader, Values, open_table
from glassformer.data.webdataset import Shards, is_shard, shards_of
from glassformer.errors import InputError

Row = dict[str, Any]  # role → value
Source = str | Path | Sequence[Path] | Reader
Check = Callable[[Row], str]  # the reason why a row cannot be used, or ""
IMAGES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"))
SPLITS = {
    "train": ("train", "training"),
    "validation": ("valid", "val", "validation", "dev"),
    "test": ("test", "testing"),
}
TEXTS = (".txt", ".conll", ".iob", ".iob2", ".bio")
DESCRIBING = ("metadata", "labels", "annotations")  # names of tables that describe the files of their folder


class Rows:
    """The usable rows of a dataset: rows[i] has a value for every role. `faults` are the rows that were left out.

    `columns` says which columns of the source were used. File names are relative to `root`. `split` is that of the
    source, if its name states one.
    """

    def __init__(
        self, reader: Reader, columns: Columns, index: NDArray[np.int64], faults: Faults, root: Path, split: str = ""
    ) -> None:
        self.reader, self.columns, self.index, self.faults = reader, columns, index, faults
        self.root, self.split = root, split

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, i: int) -> Row:
        if not 0 <= i < len(self):
            raise IndexError(f"row {i} is out of range: there are {len(self)}")
        try:
            return by_role(self.reader.read(int(self.index[i])), self.columns)
        except KeyError:
            raise Fault(tables.CHANGED, self.place(i)) from None

    def place(self, i: int) -> str:
        """Describe the location of row i: "train.tsv line 12"."""
        return self.reader.place(int(self.index[i]))

    def part(self, rows: NDArray[np.int64]) -> Rows:
        """Return the subset of these rows, in this order."""
        return Rows(self.reader, self.columns, self.index[rows], Faults(), self.root, self.split)

    def without(self, unusable: Mapping[int, Fault]) -> Rows:
        """Return the rows without the unusable ones, which are added to the faults."""
        for fault in unusable.values():
            self.faults.note(fault)
        rest = np.setdiff1d(np.arange(len(self)), np.fromiter(unusable, np.int64, len(unusable)))
        return Rows(self.reader, self.columns, self.index[rest], self.faults, self.root, self.split)

    def locate(self, name: str, role: str) -> Path | None:
        """Return the file that a row names, if it exists."""
        return locate(self.root, name, role, self.split)

    def require_half(self) -> None:
        """Raise InputError if more than half of the rows were left out."""
        if not is_later_window(self.reader):
            self.faults.check(1)

    def require_some(self, missing: str, remedy: str) -> None:
        """Raise InputError if there are no rows."""
        if not len(self) and not is_later_window(self.reader):
            raise InputError(missing, remedy)

    @property
    def given(self) -> dict[str, str]:
        """The columns as `open_rows` takes them, to open other data in the same way."""
        return {role: "+".join(names) for role, names in self.columns.items()}

    def described(self) -> str:
        """Return which columns were used for what, and which were not used."""
        used = {name for some in self.columns.values() for name in some}
        roles = ", ".join(f"{role}={'+'.join(some)}" for role, some in self.columns.items())
        others = [name for name in self.reader.names if name not in used]
        return f"columns {roles}{f' (not used: {_few(others)})' if others else ''}"


def name_of(source: Source) -> str:
    """Name a source in messages: its path, the first of several, or "the data" of a Python object."""
    if isinstance(source, str | Path):
        return str(source)
    return str(source[0]) if isinstance(source, Sequence) else "the data"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def by_role(values: Values, chosen: Columns) -> Row:
    """Return the value of each role, or {column: value} for a role with several columns; missing values are None."""
    found: Row = {}
    for role, names in chosen.items():
        found[role] = values.get(names[0]) if len(names) == 1 else {name: values.get(name) for name in names}
    return found


def open_rows(
    source: Source,
    roles: Sequence[str],
    *,
    optional: Sequence[str] = (),
    given: Mapping[str, str] | None = None,
    check: Check = lambda row: "",
    strict: bool = True,
) -> Rows:
    """Open the rows of a source and read each once, leaving out those for which `check` returns a reason.

    `roles` must have a column each, `optional` ones are used if they are found; `given` names columns explicitly.
    If more than half of the rows are left out, it is an error, unless `strict` is off (text may have empty lines).
    """
    reader, root, where = open_reader(source, (*roles, *optional), given)
    split = split_of(where)
    guess = _Guess(reader, roles, root, split)
    chosen = columns.choose(reader.names, roles, optional, given, where, guess, guess.flags)
    faults, kept = Faults(), []
    for i, values in enumerate(reader.scan()):
        reason = values if isinstance(values, Fault) else check(by_role(values, chosen))
        if reason:
            faults.count(reason if isinstance(reason, Fault) else Fault(reason, reader.place(i)))
        else:
            faults.count_usable()
            kept.append(i)
    rows = Rows(reader, chosen, np.array(kept, dtype=np.int64), faults, root, split)
    if strict:
        rows.require_half()
    return rows


class RowDataset:
    """A dataset over `rows`; `faults` are the rows that were skipped when it was opened."""

    rows: Rows

    def like(self, source: Source) -> Self:
        """Open other data, such as the next window of a stream, with the columns, classes and sizes of this."""
        raise NotImplementedError

    @property
    def faults(self) -> Faults:
        return self.rows.faults

    @property
    def root(self) -> Path:
        return self.rows.root

    def __len__(self) -> int:
        return len(self.rows)


class _Guess:
    """Guesses a column with an unusual name by its values: files, repeated labels, or the longest texts."""

    def __init__(self, reader: Reader, roles: Sequence[str], root: Path, split: str) -> None:
        self.rows, self.roles, self.root, self.split = reader.sample(), roles, root, split

    def __call__(self, role: str, left: Sequence[str]) -> str | None:
        text = {name: [str(row.get(name, "")) for row in self.rows] for name in left}
        if not self.rows or not left:
            return None
        if role in ("image", "audio"):
            there = [name for name in left if locate(self.root, text[name][0], role, self.split)]
            return there[0] if there else left[0] if left[0].isdigit() else None
        if role == "label":
            repeated = [name for name in left if columns.label_like(text[name])]
            return repeated[0] if len(repeated) == 1 else left[0] if len(left) == 1 else None
        unnamed = all(name.isdigit() for name in left)
        if role == "text" and "label" in self.roles:
            words = [name for name in left if not all(map(columns.is_number, text[name]))]
            longest = max(words, key=lambda name: sum(map(len, text[name])), default=None)
            return longest if unnamed or len(words) <= 2 else None
        if unnamed:
            return left[-1 if role == "transcript" else 0]
        return left[0] if role in ("source", "target") and len(left) <= 2 else None

    def flags(self) -> list[str]:
        """Return the columns that hold 0 and 1, both of them and nothing else."""
        names = self.rows[0] if self.rows else ()
        return [name for name in names if {str(row.get(name)) for row in self.rows} == {"0", "1"}]


# ---- sources ---------------------------------------------------------------------------------------------------------


def open_reader(source: Source, roles: Sequence[str], given: Mapping[str, str] | None) -> tuple[Reader, Path, str]:
    """Return the reader of a source, the folder that its file names are relative to, and its name for messages."""
    if isinstance(source, str | Path):
        path = Path(source)
        if is_shard(path):
            return Shards([path]), path.parent, str(path)
        path = unpacked(path) if is_archive(path) else path
        if path.is_dir():
            return _open_folder(path, roles, given)
        parts = [Path(one) for one in str(source).split(",")]
        if len(parts) == 2 and not path.exists() and all(one.is_file() for one in parts):
            return AlignedFiles(parts), path.parent, str(source)
        return open_table(path, roles, given), path.parent, str(path)
    if isinstance(source, Sequence):
        return _open_files([Path(one) for one in source], roles, given), Path(source[0]).parent, name_of(source)
    return source, Path(), name_of(source)


def _open_files(paths: Sequence[Path], roles: Sequence[str], given: Mapping[str, str] | None) -> Reader:
    if len(paths) == 1:
        return Shards(paths) if is_shard(paths[0]) else open_table(paths[0], roles, given)
    if all(path.suffix in (".parquet", ".arrow") for path in paths):
        return ArrowRows(paths)
    if all(map(is_shard, paths)):
        return Shards(paths)
    if all(path.suffix not in tables.SUFFIXES for path in paths):
        return AlignedFiles(paths)
    return ConcatTable([open_table(path, roles, given) for path in paths])


def _open_folder(folder: Path, roles: Sequence[str], given: Mapping[str, str] | None) -> tuple[Reader, Path, str]:
    where = str(folder)
    if (folder / "state.json").is_file() and (arrows := sorted(folder.glob("*.arrow"))):
        return ArrowRows(_in_order(folder, arrows), _saved_features(folder)), folder, where
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
    if shards := shards_of(folder):
        return Shards(shards), folder, where
    found = [path for path in files if path.suffix.lower() in tables.SUFFIXES and path.name not in _NOT_TABLES]
    describing = [path for path in found if path.stem.lower() in DESCRIBING]
    if describing and ("image" in roles or "audio" in roles):
        return open_table(describing[0], roles, given), folder, str(describing[0])
    if "audio" in roles and (texts := sorted(folder.rglob("*.trans.txt"))):
        return LibriSpeech(folder, texts), folder, where
    names = _class_names(folder) if "label" in roles else []
    if names and not (found and {name.lower() for name in names} <= {*BESIDE["image"]}):
        images = ClassFolders(folder, names)
        listed = TextFolders(folder, names) if "text" in roles and not len(images.files) else images
        return listed if len(listed.files) else images, folder, where
    if found and len({path.suffix for path in found}) == 1:
        return _open_files(found, roles, given), folder, where
    if "source" in roles and (both := _aligned(files, given)):
        return AlignedFiles(both), folder, where
    if len(found) == 1:
        return open_table(found[0], roles, given), folder, str(found[0])
    if found:
        fact = f"{folder} holds tables of several formats ({_few([path.name for path in found])})"
        raise InputError(fact, f"name one of them: {found[0]}")
    kinds = {"image": "a folder for each class", "audio": "*.trans.txt files as in LibriSpeech"}
    own = next((text for role, text in kinds.items() if role in roles), "two files of aligned lines")
    raise InputError(
        f"{folder} contains neither a table nor {own}", "name one file, or give a folder of a known format"
    )


_NOT_TABLES = frozenset(("dataset_info.json", "dataset_dict.json", "state.json", "dataset_infos.json", "config.json"))


def _in_order(folder: Path, arrows: Sequence[Path]) -> Sequence[Path]:
    """Return the Arrow files in the order of state.json, which `datasets` writes."""
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        named = [folder / str(one["filename"]) for one in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return arrows
    return named if {*named} <= {*arrows} and named else arrows


def _saved_features(folder: Path) -> Mapping[str, Any] | None:
    try:
        found = json.loads((folder / "dataset_info.json").read_text(encoding="utf-8"))["features"]
        return found if isinstance(found, dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


# ---- splits ----------------------------------------------------------------------------------------------------------


def find_split(folder: Path, split: str) -> Path | tuple[Path, ...] | None:
    """Return the part of a dataset folder for a split ("train", "validation" or "test"); None if it has none.

    A split is a table, text file or folder named after it (`train.csv`, `train-00000-of-00002.parquet`, `train/`), or
    two line-aligned files (`train.en`, `train.fr`); in the folder itself or in `data/`.
    """
    for place in (folder, folder / "data"):
        if not place.is_dir():
            continue
        inside = sorted(place.iterdir())
        for name in SPLITS[split]:
            mine = [path for path in inside if re.split(r"[.-]", path.name.lower())[0] == name]
            files = [path for path in mine if path.is_file()]
            for suffix in (*tables.SUFFIXES, ".tar"):
                if shards := [path for path in files if path.suffix.lower() == suffix]:
                    return shards[0] if len(shards) == 1 else tuple(shards)
            if texts := [path for path in files if path.suffix in TEXTS]:
                return texts[0]
            if folders := [path for path in mine if path.is_dir()]:
                return folders[0]
            if len(files) == 2 and files[0].suffix and files[1].suffix:
                return tuple(files)
    return None


def split_of(name: str) -> str:
    """Return the split that the name of a table states, as in `trainLabels.csv`; "" if it states none."""
    path = Path(name)
    words = columns.words_of(path.stem) if path.suffix.lower() in tables.SUFFIXES else []
    found = [split for split, names in SPLITS.items() if any(word in names for word in words)]
    return found[0] if len(found) == 1 else ""


# ---- readers of folders ----------------------------------------------------------------------------------------------


class ClassFolders:
    """A folder for each class: (file, class) of every image under folder/class/, sorted by name."""

    names: tuple[str, ...] = ("file", "class")
    suffixes = IMAGES | {".avif", ".heic", ".heif", ".jp2", ".jxl", ".svg"}  # what cannot be decoded is reported

    def __init__(self, root: Path, classes: Sequence[str]) -> None:
        listed = list(_files_of(root, classes, self.suffixes))
        self.files, self.labels = Strings(file for file, _ in listed), Strings(label for _, label in listed)

    def sample(self) -> Sequence[Values]:
        return [row for row in islice(self.scan(), tables.SAMPLE) if not isinstance(row, Fault)]

    def scan(self) -> Iterator[Values | Fault]:
        return (self.read(i) for i in range(len(self.files)))

    def read(self, i: int) -> Values:
        return {"file": self.files[i], "class": self.labels[i]}

    def place(self, i: int) -> str:
        return self.files[i]


def _class_names(root: Path) -> list[str]:
    names = sorted(one.name for one in os.scandir(root) if one.is_dir() and not one.name.startswith("."))
    if names and {name.lower() for name in names} <= {name for some in SPLITS.values() for name in some}:
        fact = f"{root} has no classes but the splits {', '.join(names)}"
        raise InputError(fact, f"open one of them: {root / names[0]}")
    return names


def _files_of(root: Path, classes: Sequence[str], suffixes: Container[str]) -> Iterator[tuple[str, str]]:
    for name in classes:
        for folder, below, files in os.walk(root / name):
            below[:] = sorted(one for one in below if not one.startswith("."))
            inside = os.path.relpath(folder, root)
            for file in sorted(files):
                if os.path.splitext(file)[1].lower() in suffixes and not file.startswith("."):
                    yield os.path.join(inside, file), name


class TextFolders(ClassFolders):
    """A folder for each class, with one text in every .txt file, as the movie reviews of aclImdb come."""

    names = ("text", "class")
    suffixes = frozenset((".txt",))

    def __init__(self, root: Path, classes: Sequence[str]) -> None:
        super().__init__(root, classes)
        self.root = root

    def scan(self) -> Iterator[Values | Fault]:
        return read_each(range(len(self.files)), self.read)

    def read(self, i: int) -> Values:
        try:
            with (self.root / self.files[i]).open("rb") as file:
                return {"text": file.read(tables.LONGEST).decode("utf-8-sig"), "class": self.labels[i]}
        except UnicodeDecodeError:
            raise Fault("not UTF-8", self.files[i]) from None
        except OSError:
            raise Fault("unreadable text", self.files[i]) from None


class LibriSpeech(ListTable):
    """84/121123/84-121123.trans.txt has lines "84-121123-0000 GO DO YOU HEAR"; the audio is 84-121123-0000.flac."""

    def __init__(self, root: Path, texts: Sequence[Path]) -> None:
        rows: list[Values | Fault] = []
        places: list[str] = []
        for text in texts:
            for number, _, line in raw_lines(text):
                place = f"{text.relative_to(root)} line {number}"
                try:
                    name, _, sentence = line.decode("utf-8").strip().partition(" ")
                except UnicodeDecodeError:
                    rows.append(Fault("not UTF-8", place))
                else:
                    row = {"path": str((text.parent / name).relative_to(root)), "sentence": sentence.strip()}
                    rows.append(row if name else Fault("empty line", place))
                places.append(place)
        super().__init__(rows, places)
        self.names = ("path", "sentence")


class AlignedFiles:
    """Two text files whose lines correspond: train.en and train.fr. The columns are named after their suffixes."""

    def __init__(self, paths: Sequence[Path]) -> None:
        if len(paths) != 2:
            raise InputError(
                f"there are {len(paths)} files of aligned lines, such as {paths[0]}", "give two, for source and target"
            )
        self.paths = list(paths)
        names = [path.suffix.lstrip(".") for path in paths]
        self.names = names if all(names) and names[0] != names[1] else ["0", "1"]
        self.files = [LineIndex(path, ((n, at, len(line)) for n, at, line in raw_lines(path))) for path in paths]
        first, second = map(len, self.files)
        if first != second:
            fact = f"{paths[0].name} has {first:,} lines and {paths[1].name} {second:,}"
            raise InputError(fact, "give two files whose lines correspond")

    def sample(self) -> Sequence[Values]:
        return [row for row in islice(self.scan(), tables.SAMPLE) if not isinstance(row, Fault)]

    def scan(self) -> Iterator[Values | Fault]:
        for i, lines in enumerate(zip(*(raw_lines(path) for path in self.paths), strict=True)):
            try:
                yield {name: line.decode("utf-8").strip() for name, (_, _, line) in zip(self.names, lines, strict=True)}
            except UnicodeDecodeError:
                yield Fault("not UTF-8", self.place(i))

    def read(self, i: int) -> Values:
        return {name: lines[i].strip() for name, lines in zip(self.names, self.files, strict=True)}

    def place(self, i: int) -> str:
        return f"{self.paths[0].name} line {i + 1}"


def _aligned(files: Sequence[Path], given: Mapping[str, str] | None) -> list[Path]:
    """Return the two files of a folder that differ in their suffix only: corpus.en and corpus.fr."""
    wanted = [f".{name}" for name in (given or {}).values()]
    stems: dict[str, list[Path]] = {}
    for path in files:
        if path.suffix and path.suffix not in tables.SUFFIXES and (not wanted or path.suffix in wanted):
            stems.setdefault(path.stem, []).append(path)
    both = [some for some in stems.values() if len(some) == 2]
    return both[0] if len(both) == 1 else []


class ConcatTable:
    """Tables one after the other, such as the shards of one dataset."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers, self.names = list(readers), list(readers[0].names)
        self.ends: list[int] = []

    def sample(self) -> Sequence[Values]:
        return self.readers[0].sample()

    def scan(self) -> Iterator[Values | Fault]:
        total = 0
        self.ends = []
        for reader in self.readers:
            self.ends.append(total)
            for values in reader.scan():
                total += 1
                self.ends[-1] = total
                yield values

    def read(self, i: int) -> Values:
        reader, at = self._find(i)
        return reader.read(at)

    def place(self, i: int) -> str:
        reader, at = self._find(i)
        return reader.place(at)

    def _find(self, i: int) -> tuple[Reader, int]:
        part = int(np.searchsorted(self.ends, i, side="right"))
        return self.readers[part], i - (self.ends[part - 1] if part else 0)


# ---- files named in rows ---------------------------------------------------------------------------------------------

SOUNDS = (".flac", ".wav", ".mp3", ".ogg", ".opus")
BESIDE = {
    "image": ("", "images", "train", "test", "img", "data"),
    "audio": ("", "clips", "audio", "wavs", "wav"),
}
ENDINGS = {"image": (".png", ".jpg", ".jpeg", ".webp", ".tif", ".bmp", ".gif"), "audio": SOUNDS}


@cache
def _folders_beside(role: str, split: str) -> tuple[str, ...]:
    if not split:
        return BESIDE[role]
    others = {name for other, names in SPLITS.items() if other != split for name in names}
    return tuple(dict.fromkeys((*(name for name in BESIDE[role] if name not in others), *SPLITS[split])))


def locate(root: Path, name: str, role: str, split: str = "") -> Path | None:
    """Return the file that a table names, which may lie in a usual folder beside it and may lack its suffix.

    The files of a table for a `split` are not in the folders of other splits, where their names may stand for others.
    """
    if not name or "\0" in name:
        return None
    ending = Path(name).suffix.lower()
    for suffix in ("",) if ending in IMAGES or ending in SOUNDS else ("", *ENDINGS[role]):
        for folder in _folders_beside(role, split):
            found = root / folder / f"{name}{suffix}"
            try:
                if found.is_file():
                    return found
            except OSError:  # a name that is too long
                return None
    return None
