"""Unusable rows of a dataset: recorded with reason and location, skipped, and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from glassformer.errors import InputError

T = TypeVar("T")
LISTED = 3  # locations listed for each reason
ENOUGH = 64  # rows read before a failure rate above one half is an error
REMEDIES = {"not UTF-8": "save the data as UTF-8, for example with iconv -f cp1252 -t utf-8"}


class Fault(Exception):
    """An unusable row: the reason ("unreadable image") and its location ("cats/7.png", "train.tsv line 12")."""

    def __init__(self, reason: str, place: str) -> None:
        super().__init__(reason, place)  # both, so that it survives pickling between processes
        self.reason, self.place = reason, place

    def __str__(self) -> str:
        return f"{self.reason}: {self.place}"


def read_each(rows: Iterable[int], read: Callable[[int], T]) -> Iterator[T | Fault]:
    """Yield read(row) for each row, or the Fault that it raises."""
    for row in rows:
        try:
            yield read(row)
        except Fault as fault:
            yield fault


class Faults:
    """A tally of faults by reason and location. A location that fails again in a later epoch is listed once."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, None]] = {}  # a dict keeps insertion order
        self.tried = self.failed = 0  # including repetitions; their ratio decides whether to continue

    def __len__(self) -> int:
        return sum(map(len, self.places.values()))

    def __iter__(self) -> Iterator[Fault]:
        return (Fault(reason, place) for reason, places in self.places.items() for place in places)

    def __repr__(self) -> str:
        return f"Faults({'; '.join(self.summary())})"

    @property
    def counts(self) -> dict[str, int]:
        return {reason: len(places) for reason, places in self.places.items()}

    def count(self, fault: Fault) -> None:
        self.tried, self.failed = self.tried + 1, self.failed + 1
        self.note(fault)

    def note(self, fault: Fault) -> None:
        """Record the location without counting the row as tried."""
        self.places.setdefault(fault.reason, {})[fault.place] = None

    def count_usable(self, number: int = 1) -> None:
        """Count usable rows."""
        self.tried += number

    def each(self, rows: Iterable[int], read: Callable[[int], T]) -> list[T]:
        """[read(row) for row in rows], skipping and counting the rows that raise a Fault."""
        kept: list[T] = []
        for found in read_each(rows, read):
            if isinstance(found, Fault):
                self.count(found)
            else:
                kept.append(found)
                self.count_usable()
        return kept

    def merge(self, other: Faults) -> None:
        """Add the counts and locations of another tally, such as a worker's."""
        self.tried, self.failed = self.tried + other.tried, self.failed + other.failed
        self.remember(other)

    def remember(self, other: Faults) -> None:
        """Add the locations of another tally without its counts."""
        for reason, places in other.places.items():
            self.places.setdefault(reason, {}).update(places)

    def take(self) -> Faults:
        """Return everything recorded so far and reset the tally."""
        taken = Faults()
        taken.merge(self)
        self.places, self.tried, self.failed = {}, 0, 0
        return taken

    def summary(self) -> list[str]:
        """Return one line per reason: "unreadable image: 12 (cats/7.png, dogs/1.png, dogs/4.png, …)"."""
        return [self._line(reason) for reason in self.places]

    def _line(self, reason: str) -> str:
        places = self.places[reason]
        named = [place for place, _ in zip(places, range(LISTED), strict=False)]
        return f"{reason}: {len(places):,} ({', '.join(named)}{', …' if len(places) > LISTED else ''})"

    def check(self, least: int = ENOUGH) -> None:
        """Raise InputError if more than half of at least `least` rows are unusable: then the whole dataset is wrong."""
        if self.tried >= least and 2 * self.failed > self.tried:
            most = max(self.places, key=lambda reason: len(self.places[reason]))
            again = self.failed > len(self)  # rows are read once in every epoch
            count = f"{len(self):,}, more than half," if again else f"{self.failed:,} of {self.tried:,}"
            fact = f"{count} cannot be used, most of them because of {self._line(most)}"
            raise InputError(fact, REMEDIES.get(most, "check the format of the data"))
