"""Tables in common formats: CSV, TSV, JSON Lines, JSON, Parquet and Arrow, read row by row with named columns.

For text files, only the positions of the rows are held in memory; Arrow files are memory-mapped.
"""

from __future__ import annotations

import codecs
import csv
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from glassformer.data import columns
from glassformer.data.faults import Fault
from glassformer.data.packed import LineIndex, Strings, raw_lines, unreadable
from glassformer.errors import InputError

Values = Mapping[str, Any]  # column name → value
DELIMITED = (".csv", ".tsv", ".tab", ".psv")
SUFFIXES = (*DELIMITED, ".jsonl", ".ndjson", ".json", ".parquet", ".arrow")
LONGEST = 1 << 24  # maximum bytes of one row
SAMPLE = 200  # rows that delimiter, header and columns are guessed from
FIELD = csv.field_size_limit()  # maximum characters of a quoted CSV field
PROBE = 4096  # bytes after the first line that are looked at
JSON_LIMIT = 1 << 30  # maximum bytes of a .json file, which is read as a whole; JSON Lines have no limit
CHANGED = "row that changed since the file was opened"


@runtime_checkable
class Reader(Protocol):
    """Rows of one source in order, each with a value for every column."""

    @property
    def names(self) -> Sequence[str]:
        """Column names; "0", "1", … for a file without a header."""

    def scan(self) -> Iterator[Values | Fault]:
        """Read every row once. Must be exhausted before `read`."""

    def read(self, i: int) -> Values:
        """Read row i of the scan again."""

    def place(self, i: int) -> str:
        """Describe the location of row i for messages."""

    def sample(self) -> Sequence[Values]:
        """Return the first rows."""


def open_table(path: Path, roles: Sequence[str], given: Mapping[str, str] | None = None) -> Reader:
    """Open a table. `roles`, what its columns are needed for, and the `given` names tell a header from data."""
    suffix = path.suffix.lower()
    if not path.is_file():
        raise InputError(f"there is no {path}", "give a file that exists")
    if suffix in (".parquet", ".arrow"):
        return ArrowRows([path])
    if suffix in (".jsonl", ".ndjson") or (suffix == ".json" and not _is_list(path)):
        return JsonLines(path)
    if suffix == ".json":
        return _json_rows(path)
    if suffix not in DELIMITED:
        if "tags" in roles:
            return Conll(path)
        if "line" in roles:
            return PlainLines(path)
    return Delimited(path, roles, tuple((given or {}).values()))


# ---- CSV and TSV -----------------------------------------------------------------------------------------------------


class Delimited:
    """CSV, TSV or any other delimiter. The first line is a header if it names columns.

    With commas and semicolons, quotes are CSV quotes. With tabs and bars they belong to the text, as in Common Voice
    and LJSpeech, unless a whole field is quoted with its inner quotes doubled, as pandas writes it.
    """

    def __init__(self, path: Path, roles: Sequence[str], given: Sequence[str] = ()) -> None:
        self.path = path
        self.delimiter = _delimiter(path)
        self.quoted = self.delimiter in ",;"
        self.starts, self.ends, self.numbers = array("q"), array("q"), array("q")
        records = [row for _, _, _, row in islice(self._records(), SAMPLE)]
        first = [row for row in records if isinstance(row, list) and any(row)]
        if not first:
            if "not UTF-8" in records:
                raise InputError(f"{path} is not UTF-8", "save it as UTF-8")
            raise InputError(f"{path} is empty", "give a table with a row for each example")
        self.header = _is_header(first, roles) or any(
            columns.normal(name) in map(columns.normal, first[0]) for name in given
        )
        self.width = len(first[0]) if self.header else Counter(map(len, first)).most_common(1)[0][0]
        self.names = _unique(first[0]) if self.header else [str(i) for i in range(self.width)]

    def sample(self) -> Sequence[Values]:
        rows = [row for _, _, _, row in islice(self._records(), SAMPLE) if isinstance(row, list) and any(row)]
        return [self._values(row) for row in rows[self.header :] if len(row) == self.width]

    def scan(self) -> Iterator[Values | Fault]:
        skip = self.header
        for number, start, end, row in self._records():
            if skip and isinstance(row, list) and any(row):
                skip = False
                continue
            self.starts.append(start)
            self.ends.append(end)
            self.numbers.append(number)
            place = f"{self.path.name} line {number}"
            if isinstance(row, str):
                yield Fault(row, place)
            elif not any(row):
                yield Fault("empty line", place)
            elif len(row) != self.width:
                yield Fault(f"wrong number of columns (not {self.width})", place)
            else:
                yield self._values(row)

    def read(self, i: int) -> Values:
        """The file is opened for each row, so that processes have no handle to share, inherit or close."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.starts[i])
                data = file.read(self.ends[i] - self.starts[i])
            row = self._split(data.decode("utf-8").replace("\r\n", "\n"))
        except (OSError, UnicodeDecodeError, csv.Error):
            row = []
        if len(row) != self.width:
            raise Fault(CHANGED, self.place(i)) from None
        return self._values(row)

    def place(self, i: int) -> str:
        return f"{self.path.name} line {self.numbers[i]}"

    def _values(self, row: Sequence[str]) -> Values:
        return dict(zip(self.names, row, strict=True))

    def _split(self, text: str) -> list[str]:
        if self.quoted:
            parts = next(csv.reader((line + "\n" for line in text.split("\n")), delimiter=self.delimiter), [])
        else:
            parts = [_unquoted(part) for part in text.split(self.delimiter)]
        return [part.strip() for part in parts]

    def _records(self) -> Iterator[tuple[int, int, int, list[str] | str]]:
        """Yield (line number, start, end, fields or the reason why there are none) of every record."""
        lines: Iterator[tuple[int, int, bytes]] = raw_lines(self.path, LONGEST)
        while (found := next(lines, None)) is not None:
            number, start, line = found
            end, more = start + len(line), _Continued(line, lines)
            row: list[str] | str
            try:
                if self.quoted and b'"' in line:
                    row = [part.strip() for part in next(csv.reader(more, delimiter=self.delimiter), [])]
                    end = more.end or end
                else:
                    row = [part.strip() for part in line.decode("utf-8").split(self.delimiter)]
                    row = row if self.quoted else [_unquoted(part) for part in row]
            except UnicodeDecodeError:
                row = "not UTF-8"
            except csv.Error:
                row, end = f"quote that is not closed, or more than {FIELD:,} characters in quotes", start + len(line)
                lines = chain(more.taken, lines)  # the lines after it are rows of their own
            if len(line) > LONGEST:
                row = f"line of more than {LONGEST:,} bytes"
            yield number, start, end, row


class _Continued:
    """The lines of one CSV record: its first, and more of the file while a quote is open."""

    def __init__(self, line: bytes, lines: Iterator[tuple[int, int, bytes]]) -> None:
        self.first: bytes | None = line
        self.lines, self.end, self.size = lines, 0, len(line)
        self.taken: list[tuple[int, int, bytes]] = []

    def __iter__(self) -> _Continued:
        return self

    def __next__(self) -> str:
        if self.first is not None:
            line, self.first = self.first, None
            return line.decode("utf-8") + "\n"
        found = next(self.lines, None)
        if found is None:
            raise csv.Error
        self.taken.append(found)
        _, start, line = found
        self.end, self.size = start + len(line), self.size + len(line)
        if self.size > FIELD:
            raise csv.Error
        return line.decode("utf-8") + "\n"


def _unquoted(field: str) -> str:
    """Undo pandas' quoting of a whole field with doubled quotes; a field with other quotes stays as it is."""
    inner = field[1:-1]
    whole = len(field) > 2 and field[0] == field[-1] == '"' and '""' in inner and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else field


def _delimiter(path: Path) -> str:
    """Return the delimiter that splits most of the first lines into the same number of fields."""
    lines = [line for _, _, line in islice(raw_lines(path, LONGEST), SAMPLE) if line.strip()]
    texts = [line.decode("utf-8", "replace") for line in lines]
    if path.suffix.lower() in (".tsv", ".tab"):
        return "\t"
    best = {}
    for one in "\t|;,":
        try:
            rows = list(csv.reader(texts, delimiter=one)) if one in ",;" else [text.split(one) for text in texts]
        except csv.Error:
            continue
        widths = Counter(len(row) for row in rows if len(row) > 1)
        if widths:
            best[one] = widths.most_common(1)[0][1]
    return max(best, key=lambda one: best[one]) if best else ","


def _is_header(rows: Sequence[Sequence[str]], roles: Sequence[str]) -> bool:
    """Return whether the first row names columns: by usual names, because a label or number is missing from it, or
    because it has one or two words in columns of sentences."""
    first, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if len(set(first)) < len(first) or any(map(columns.is_number, first)):
        return False
    if columns.are_names(first, roles):
        return True
    if len(rest) < 4:
        return False
    if "label" not in roles:
        least = min(len(row[i].split()) for row in rest for i in range(len(first)) if row[i])
        return least > max(len(name.split()) for name in first) and (
            least > 2 or columns.named_by_words(first, roles) > 0
        )
    for i, name in enumerate(first):
        below = [row[i] for row in rest]
        if columns.label_like(below) and name not in below and len(name) <= 40:
            return True
        if all(map(columns.is_number, below)):
            return True
    return False


def _unique(names: Sequence[str]) -> list[str]:
    """Return the column names; a column without a name, such as pandas' index, gets its number."""
    return [name or str(i) for i, name in enumerate(names)]


class PlainLines:
    """A text file with one example per line."""

    names = ("line",)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = LineIndex(path, ((number, start, len(line)) for number, start, line in raw_lines(path, LONGEST)))

    def sample(self) -> Sequence[Values]:
        return [row for row in islice(self.scan(), SAMPLE) if not isinstance(row, Fault)]

    def scan(self) -> Iterator[Values | Fault]:
        for number, _, line in raw_lines(self.path, LONGEST):
            try:
                yield {"line": line.decode("utf-8")}
            except UnicodeDecodeError:
                yield Fault("not UTF-8", f"{self.path.name} line {number}")

    def read(self, i: int) -> Values:
        return {"line": self.index[i]}

    def place(self, i: int) -> str:
        return self.index.place(i)


# ---- JSON ------------------------------------------------------------------------------------------------------------


class JsonLines:
    """One JSON object per line. Objects inside an object become columns `outer.inner`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.starts, self.sizes, self.numbers = array("q"), array("q"), array("q")
        self.names = list(dict.fromkeys(name for row in self.sample() for name in row))
        if not path.stat().st_size:
            raise InputError(f"{path} is empty", "give a JSON object on every line")

    def sample(self) -> Sequence[Values]:
        rows = (parse_object(line) for _, _, line in islice(raw_lines(self.path, LONGEST), SAMPLE))
        return [row for row in rows if not isinstance(row, str)]

    def scan(self) -> Iterator[Values | Fault]:
        for number, start, line in raw_lines(self.path, LONGEST):
            self.starts.append(start)
            self.sizes.append(len(line))
            self.numbers.append(number)
            row = parse_object(line)
            yield Fault(row, f"{self.path.name} line {number}") if isinstance(row, str) else row

    def read(self, i: int) -> Values:
        try:
            with self.path.open("rb") as file:
                file.seek(self.starts[i])
                row = parse_object(file.read(self.sizes[i]))
        except OSError:
            row = CHANGED
        if isinstance(row, str):
            raise Fault(CHANGED, self.place(i))
        return row

    def place(self, i: int) -> str:
        return f"{self.path.name} line {self.numbers[i]}"


def parse_object(line: bytes) -> Values | str:
    """Parse a line to the values of its row, or return the reason why it has none."""
    if not line.strip():
        return "empty line"
    if len(line) > LONGEST:
        return f"line of more than {LONGEST:,} bytes"
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):
        return "not JSON"
    return flat(row) if isinstance(row, dict) else "not a JSON object"


FILE = {"bytes", "path", "array", "sampling_rate"}  # keys of an image or a recording in Hugging Face's datasets


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten {"translation": {"en": …, "fr": …}} to columns translation.en and translation.fr; images and audio as in
    Hugging Face's datasets stay whole."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and value and not value.keys() <= FILE:
            found |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            found[name] = value
    return found


class ListTable:
    """Rows in memory with their locations, such as those of a .json file; a `Fault` is a row that cannot be used."""

    def __init__(self, rows: Sequence[Values | Fault], places: Iterable[str]) -> None:
        self.rows, self.places = rows, Strings(places)
        self.names: Sequence[str] = list(dict.fromkeys(name for row in self.sample() for name in row))

    def __len__(self) -> int:
        return len(self.rows)

    def sample(self) -> Sequence[Values]:
        return [row for row in self.rows[:SAMPLE] if not isinstance(row, Fault)]

    def scan(self) -> Iterator[Values | Fault]:
        return iter(self.rows)

    def read(self, i: int) -> Values:
        row = self.rows[i]
        if isinstance(row, Fault):
            raise row
        return row

    def place(self, i: int) -> str:
        return self.places[i]


def _is_list(path: Path) -> bool:
    """Return whether a .json file is one document: a list, or an object with a list. Else it is JSON Lines."""
    with path.open("rb") as file:
        start, more = file.readline(LONGEST).removeprefix(codecs.BOM_UTF8), bool(file.read(PROBE).strip())
    try:
        first = json.loads(start)
    except (ValueError, RecursionError):
        return True
    lists = isinstance(first, dict) and any(
        isinstance(one, list) and one and isinstance(one[0], dict) for one in first.values()
    )
    return not isinstance(first, dict) or (lists and not more)


def _json_rows(path: Path) -> ListTable:
    if path.stat().st_size > JSON_LIMIT:
        raise InputError(
            f"{path} has {path.stat().st_size:,} bytes", "write such a large dataset as JSON Lines (.jsonl)"
        )
    try:
        whole = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({str(error)[:80]})", "give a list of objects, or JSON Lines") from None
    lists = [one for one in whole.values() if isinstance(one, list)] if isinstance(whole, dict) else [whole]
    if len(lists) != 1 or not isinstance(lists[0], list):
        raise InputError(f"{path} does not contain a list of rows", "give a list of objects, or JSON Lines (.jsonl)")
    if not all(isinstance(row, dict) for row in lists[0]):
        raise InputError(f"{path} has rows that are not objects", 'write each as {"text": …, "label": …}')
    return ListTable([flat(row) for row in lists[0]], (f"{path.name} row {i + 1}" for i in range(len(lists[0]))))


# ---- CoNLL -----------------------------------------------------------------------------------------------------------


class Conll(ListTable):
    """Token classification: a token and its tag in the first and last column, an empty line after each sentence."""

    def __init__(self, path: Path) -> None:
        rows: list[Values] = []
        lines: list[int] = []
        tokens: list[str] = []
        tags: list[str] = []
        began = 1
        for number, _, line in raw_lines(path, LONGEST):
            parts = line.decode("utf-8", "replace").split()
            if parts and not line.startswith((b"-DOCSTART-", b"# ")):
                began = number if not tokens else began
                tokens.append(parts[0])
                tags.append(parts[-1] if len(parts) > 1 else "")
            elif tokens:
                rows.append({"tokens": tokens, "tags": tags})
                lines.append(began)
                tokens, tags = [], []
        if tokens:
            rows.append({"tokens": tokens, "tags": tags})
            lines.append(began)
        if len(rows) == 1 and len(rows[0]["tokens"]) > SAMPLE // 2:
            fact = f"{path} is neither a table nor CoNLL, which has an empty line after each sentence"
            raise InputError(fact, "give a .csv, .tsv or .jsonl file with columns such as text and label")
        super().__init__(rows, (f"{path.name} line {number}" for number in lines))


# ---- Parquet and Arrow -----------------------------------------------------------------------------------------------


class ArrowRows:
    """Parquet files, or Arrow files as the `datasets` library writes them; class labels get their names."""

    def __init__(self, paths: Sequence[Path], features: Mapping[str, Any] | None = None) -> None:
        try:
            pa = import_module("pyarrow")
            pq = import_module("pyarrow.parquet")
        except ImportError:
            fact = f"{paths[0].name} needs the package pyarrow, which is not installed"
            raise InputError(fact, "pip install pyarrow") from None
        self.paths = list(paths)
        try:
            parts = [pq.read_table(path) if path.suffix == ".parquet" else _arrow(pa, path) for path in self.paths]
            self.table = pa.concat_tables(parts, promote_options="default")
        except (pa.ArrowException, OSError) as error:
            fact = f"{self.paths[0]} cannot be read ({str(error).splitlines()[0][:80]})"
            raise InputError(fact, "give Parquet files, or a folder written by save_to_disk") from None
        self.ends = np.cumsum([len(part) for part in parts])
        self.classes = _class_names(features or _features(self.table.schema.metadata))
        self.names = list(dict.fromkeys(name for row in self.sample() for name in row)) or self.table.column_names

    def sample(self) -> Sequence[Values]:
        return [self._named(row) for row in self.table.slice(0, SAMPLE).to_pylist()]

    def scan(self) -> Iterator[Values | Fault]:
        for batch in self.table.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                yield self._named(row)

    def read(self, i: int) -> Values:
        return self._named(self.table.slice(i, 1).to_pylist()[0])

    def place(self, i: int) -> str:
        part = int(np.searchsorted(self.ends, i, side="right"))
        return f"{self.paths[part].name} row {i + 1 - (int(self.ends[part - 1]) if part else 0)}"

    def _named(self, row: dict[str, Any]) -> dict[str, Any]:
        for name, classes in self.classes.items():
            value = row.get(name)
            if isinstance(value, list):
                row[name] = [_class(classes, one) for one in value]
            elif value is not None:
                row[name] = _class(classes, value)
        return flat(row)


def _class(names: Sequence[str], value: Any) -> Any:
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


def _arrow(pa: Any, path: Path) -> Any:
    """Memory-map an Arrow file, in the stream format of `datasets` or in the file format."""
    mapped = pa.memory_map(str(path))
    try:
        return pa.ipc.open_stream(mapped).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _features(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, Any]:
    """Return the feature types that the `datasets` library stores in a schema."""
    try:
        return json.loads((metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}


def _class_names(features: Mapping[str, Any]) -> dict[str, list[str]]:
    found = {}
    for name, feature in features.items():
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict) and isinstance(inner.get("names"), list):
            found[name] = [str(one) for one in inner["names"]]
    return found
