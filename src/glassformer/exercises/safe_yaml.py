"""Safe YAML loading from parser events into plain lists, dictionaries and strings: no objects, aliases or deep nesting.

Numbers stay text, so that 0.1 is a tenth and 010 is ten; libyaml's composer is avoided, as deep nesting crashes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from glassformer.errors import InputError
from glassformer.exercises.expression import shorten

MAX_BYTES = 1_000_000
MAX_DEPTH = 12
MAX_NODES = 100_000
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_text(path: str | Path, limit: int = MAX_BYTES) -> str:
    """Read a text file of at most `limit` bytes."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", "give the path of a file") from None
    if len(data) > limit:
        raise InputError(f"{path} is larger than {limit:,} bytes", "give a smaller file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start + 1})", "save it as UTF-8") from None


def load_yaml(text: str) -> Any:
    """Load YAML as lists, dictionaries with string keys, strings, booleans and None."""
    if len(text) > MAX_BYTES:
        raise InputError(f"the text has {len(text):,} characters", f"give at most {MAX_BYTES:,}")
    loader_type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loader = loader_type(text)
        try:
            return _build(loader)
        finally:
            loader.dispose()
    except UnicodeEncodeError:
        raise InputError("the text has a lone surrogate in it, which is not a character", "save it as UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        problem = getattr(error, "problem", None) or shorten(str(error), 60)
        raise InputError(f"the YAML cannot be parsed{where}: {problem}", "correct that line") from None


def _build(loader: Any) -> Any:
    """Build the value from events: each goes into the container on top of the stack; a dictionary first reads a key."""
    done: list[Any] = []
    stack: list[tuple[Any, list[str]]] = []  # container, and the key whose value is pending
    nodes = 0

    def put(value: Any) -> None:
        nonlocal nodes
        nodes += 1
        if nodes > MAX_NODES:
            raise InputError(f"the YAML has more than {MAX_NODES:,} entries", "give a smaller exercise")
        if not stack:
            done.append(value)
            return
        container, waiting = stack[-1]
        if isinstance(container, list):
            container.append(value)
        elif waiting:
            container[waiting.pop()] = value
        elif not isinstance(value, str) or value in container:
            fault = "is given twice" if isinstance(value, str) else "is not a word"
            raise InputError(f"the key {shorten(str(value), 20)!r} {fault}", "give each key once, as a word")
        else:
            waiting.append(value)

    while True:
        event = loader.get_event()
        match event:
            case yaml.AliasEvent():
                raise InputError(f"the YAML uses the alias *{shorten(str(event.anchor), 20)}", "write the value out")
            case yaml.ScalarEvent():
                plain = event.implicit[0] and event.value.lower() in _WORDS
                put(_WORDS[event.value.lower()] if plain else event.value)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                container: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
                if stack and isinstance(stack[-1][0], dict) and not stack[-1][1]:
                    raise InputError("a list or dictionary is used as a key", "use words as keys")
                put(container)
                stack.append((container, []))
                if len(stack) > MAX_DEPTH:
                    raise InputError(f"the YAML is nested deeper than {MAX_DEPTH}", "write it flatter")
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                stack.pop()
            case yaml.DocumentStartEvent() if done:
                raise InputError("the file contains several YAML documents", "give one exercise per file")
            case yaml.StreamEndEvent():
                return done[0] if done else None
