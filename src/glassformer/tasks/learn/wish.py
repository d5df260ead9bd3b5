"""What someone wants trained, in words that all tasks share, and what a task makes of it: a model and a lesson."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import nn

from glassformer.errors import ConfigError, InputError
from glassformer.tasks.shipped import find_model
from glassformer.tasks.sources import DATASETS, open_data
from glassformer.tasks.training import Lesson

HELD = ("valid", "val", "validation", "dev", "test")  # parts of a dataset that may be held out, the first that is there
SHARE = 0.1  # of the rows are held out where the data has no part for that
C = TypeVar("C", bound=Any)  # a dataclass of changes, with what each of them `needs`


@dataclass(frozen=True, kw_only=True)
class Wish:
    """`data`: a dataset's name, a folder or a file. None: what the task itself chooses. `base`: a model to go on from,
    and `rank` of the low-rank change it may have (None: all of it learns). `changes`: what `augment` does otherwise
    than usual, by name and size (crop 4, mixup 0.2).
    """

    data: str
    held: str | None = None
    kind: str | None = None
    width: int | None = None
    depth: int | None = None
    heads: int | None = None
    batch: int | None = None
    smoothing: float | None = None
    augment: bool = True
    changes: tuple[tuple[str, float], ...] = ()
    image: int | None = None
    vocabulary: int | None = None
    base: str | None = None
    rank: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("width", "depth", "heads", "batch", "image", "vocabulary", "rank"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"{name} is {value}", "choose at least 1")
        if self.rank is not None and self.base is None:
            fact = f"a low-rank change of rank {self.rank} of nothing"
            raise ConfigError(fact, "name the model that it changes (--from)")
        if self.changes and not self.augment:
            raise ConfigError(f"a change of {self.changes[0][0]} where nothing is changed", "leave out --no-augment")
        if self.base is not None:
            for name in ("kind", "width", "depth", "heads", "vocabulary"):
                if getattr(self, name) is not None:
                    fact = f"{name} {getattr(self, name)} for a model that is there already ({self.base})"
                    raise ConfigError(fact, "leave it out, or train anew")

    def changed(self, how: type[C], **usual: float) -> C | None:
        """How images or recordings are changed while learning: as usual but for what was wished; None: not at all."""
        if not self.augment:
            return None
        known: dict[str, Any] = {field.name: type(field.default) for field in fields(how)}
        for i, (name, value) in enumerate(self.changes):
            if name in dict(self.changes[:i]):
                raise ConfigError(f"{name} is changed twice", "give it once")
            if name not in known:
                raise ConfigError(f"there is no change {name!r}", f"choose {', '.join(known)}")
            if known[name] is not float and value != int(value):
                raise ConfigError(f"{name} is {value:g}", "choose a whole number")
            if value < 0:
                raise ConfigError(f"{name} is {value:g}", "choose 0 (none) or more")
            if known[name] is bool and value > 1:
                raise ConfigError(f"{name} is {value:g}", "choose 0 (no) or 1 (yes)")
            usual[name] = known[name](value)
        made = how(**usual)
        for name, value in self.changes:
            if value and name in how.needs and not getattr(made, how.needs[name]):
                fact = f"{name} {value:g} means nothing where {how.needs[name]} is 0"
                raise ConfigError(fact, f"give --change {how.needs[name]}=… too, or leave it out")
        return made

    def kinds(self, *known: str) -> str:
        """The architecture wished for, the first of those known if none is."""
        if self.kind is None:
            return known[0]
        if self.kind not in known:
            raise ConfigError(f"there is no {self.kind!r} for this task", f"choose {', '.join(known)}")
        return self.kind

    def leave(self, task: str, *names: str) -> None:
        """What makes no sense for a task is said, not ignored."""
        default: dict[str, object] = {"augment": True, "changes": ()}
        for name in names:
            if getattr(self, name) != default.get(name):
                raise ConfigError(f"{name} {getattr(self, name)} means nothing to {task}", "leave it out")

    @property
    def folder(self) -> Path:
        """The model to go on from."""
        assert self.base is not None
        return find_model(self.base)

    def parts(self, suffix: str = "") -> tuple[Path, Path | None]:
        """What to learn from, and what to hold out; None: a part of the former."""
        whole = open_data(self.data) if self.data in DATASETS else Path(self.data)
        if not whole.exists():
            names = ", ".join(DATASETS)
            raise InputError(f"there is no {self.data}", f"give a folder, a file, or a dataset's name ({names})")
        first = whole / f"train{suffix}"
        found = [whole / f"{name}{suffix}" for name in HELD if (whole / f"{name}{suffix}").exists()]
        if self.held is not None:
            given = Path(self.held)
            if not given.exists():
                raise InputError(f"there is no {self.held}", "hold out data that is there")
            return (first if first.exists() else whole), given
        return (first, found[0] if found else None) if first.exists() else (whole, None)


class Start(NamedTuple):
    """All that a training needs besides its plan; `save` writes a folder that the task's verb takes. `note`: what the
    task has chosen that its user may want otherwise."""

    model: nn.Module
    lesson: Lesson
    save: Callable[[nn.Module, Path], Path]
    rate: float
    what: str
    note: str = ""
