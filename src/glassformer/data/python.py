"""Rows of Python objects: a torch Dataset, a DataLoader, a list, or any other iterable of examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from glassformer.data import tables
from glassformer.data.faults import Fault, read_each
from glassformer.data.tables import ListTable, Reader, Values
from glassformer.errors import InputError

EXAMPLES = "give examples such as (image, label), (text, label), (source, target), or dictionaries with column names"


class Indexed:
    """A map-style dataset, read on demand. Examples that are tuples have the columns 0, 1, …"""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.classes = _classes(data)
        self.names = list(self.read(0)) if len(data) else []

    def __len__(self) -> int:
        return len(self.data)

    def sample(self) -> Sequence[Values]:
        return [row for row in islice(self.scan(), 20) if not isinstance(row, Fault)]

    def scan(self) -> Iterator[Values | Fault]:
        return read_each(range(len(self.data)), self.read)

    def read(self, i: int) -> Values:
        try:
            example = self.data[i]
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, IndexError) as error:
            first = (str(error).splitlines() or [""])[0][:60]
            raise Fault(f"example that raises {type(error).__name__} ({first})", self.place(i)) from None
        return values_of(example, self.classes)

    def place(self, i: int) -> str:
        return f"example {i}"


def reader_of(data: Any) -> Reader:
    """Return the rows of a Python object.

    For a DataLoader, its dataset is used: batches are drawn by seed and step, so that a run can be resumed. An iterable
    without a length is read once and kept in memory.
    """
    from torch.utils.data import DataLoader, IterableDataset

    if isinstance(data, Reader):
        return data
    if isinstance(data, DataLoader):
        data = data.dataset
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a pandas DataFrame
        data = data.to_dict("records")
    if isinstance(data, Mapping):
        raise InputError("the data is a dictionary", f"{EXAMPLES}; pass splits as data and val")
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, IterableDataset):
        if not len(data):
            raise InputError("the data has 0 examples", EXAMPLES)
        return Indexed(data)
    if not isinstance(data, Iterable):
        raise InputError(f"the data is a {type(data).__name__}", EXAMPLES)
    rows = [values_of(example) for example in data]
    if not rows:
        raise InputError("the data has 0 examples", EXAMPLES)
    return ListTable(rows, (f"the data, example {i + 1}" for i in range(len(rows))))


def values_of(example: Any, classes: Sequence[str] = ()) -> Values:
    """Return the columns of an example: those of a dictionary, or "0", "1", … of a tuple, with scalars as numbers."""
    if isinstance(example, Mapping):
        return tables.flat({str(name): _plain(value) for name, value in example.items()})
    parts = example if isinstance(example, tuple | list) else (example,)
    found = {str(i): _plain(part) for i, part in enumerate(parts)}
    if classes and len(parts) == 2 and isinstance(label := found["1"], int) and 0 <= label < len(classes):
        found["1"] = classes[label]
    return found


def _plain(value: Any) -> Any:
    """Convert a tensor or array of one element to a number."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    return value


def _classes(data: Any) -> Sequence[str]:
    """Return the class names of a torchvision dataset."""
    found = getattr(data, "classes", None)
    return [str(one) for one in found] if isinstance(found, list | tuple) else ()
