"""kept = tried − faulty: what cannot be used is counted, told with its place, and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from glassformer.errors import InputError

T = TypeVar("T")
TOLD = 3  # places that are named for each reason
ENOUGH = 64  # things tried before "more than half of them" means anything


class Fault(Exception):
    """One thing that cannot be used: why ("unreadable image") and where ("cats/7.png", "train.tsv line 12")."""

    def __init__(self, reason: str, place: str) -> None:
        super().__init__(reason, place)  # both, so that it survives pickling between processes
        self.reason, self.place = reason, place

    def __str__(self) -> str:
        return f"{self.reason}: {self.place}"


class Faults:
    """The tally: reason → the places where it was met. A place that is met again in a later epoch counts once."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, None]] = {}  # a dict keeps the order in which they were met
        self.tried = self.failed = 0  # with repetitions: their ratio decides whether to go on

    def __len__(self) -> int:
        return sum(map(len, self.places.values()))

    def __iter__(self) -> Iterator[Fault]:
        return (Fault(reason, place) for reason, places in self.places.items() for place in places)

    def __repr__(self) -> str:
        return f"Faults({'; '.join(self.told())})"

    @property
    def counts(self) -> dict[str, int]:
        return {reason: len(places) for reason, places in self.places.items()}

    def count(self, fault: Fault) -> None:
        self.tried, self.failed = self.tried + 1, self.failed + 1
        self.note(fault)

    def note(self, fault: Fault) -> None:
        """Its place alone, to be told."""
        self.places.setdefault(fault.reason, {})[fault.place] = None

    def good(self, number: int = 1) -> None:
        """So many could be used."""
        self.tried += number

    def each(self, rows: Iterable[int], read: Callable[[int], T]) -> list[T]:
        """[read(row) for row in rows] without those that raise a Fault, which are counted."""
        kept: list[T] = []
        for row in rows:
            try:
                kept.append(read(row))
            except Fault as fault:
                self.count(fault)
            else:
                self.good()
        return kept

    def merge(self, other: Faults) -> None:
        """What another tally counted (a worker's, or that of opening a file) is counted here too."""
        self.tried, self.failed = self.tried + other.tried, self.failed + other.failed
        self.remember(other)

    def remember(self, other: Faults) -> None:
        """The places alone, to be told: what opening left out was weighed when it was opened."""
        for reason, places in other.places.items():
            self.places.setdefault(reason, {}).update(places)

    def take(self) -> Faults:
        """What was counted until now; counting begins anew."""
        taken = Faults()
        taken.merge(self)
        self.places, self.tried, self.failed = {}, 0, 0
        return taken

    def told(self) -> list[str]:
        """A line for each reason: "unreadable image: 12 (cats/7.png, dogs/1.png, dogs/4.png, …)"."""
        return [self._line(reason) for reason in self.places]

    def _line(self, reason: str) -> str:
        places = self.places[reason]
        named = [place for place, _ in zip(places, range(TOLD), strict=False)]
        return f"{reason}: {len(places):,} ({', '.join(named)}{', …' if len(places) > TOLD else ''})"

    def check(self, least: int = ENOUGH) -> None:
        """More than half of what was tried is faulty: then it is the data that is wrong, not a few rows of it."""
        if self.tried >= least and 2 * self.failed > self.tried:
            most = max(self.places, key=lambda reason: len(self.places[reason]))
            fact = f"{self.failed:,} of {self.tried:,} cannot be used, most for this: {self._line(most)}"
            raise InputError(fact, "check that the data is what it should be")
