"""Which column of a table holds what: by common names, by what the columns contain, or as given with --columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import Any

from glassformer.errors import ConfigError, InputError

Columns = dict[str, tuple[str, ...]]  # role → names of its columns (several for multi-label data in columns of 0 and 1)

_TEXT = ("text", "sentence", "review", "content", "comment", "body", "tweet", "message", "document", "utterance")
_FILE = ("file_name", "filename", "file", "path", "filepath", "file_path")
NAMES: dict[str, tuple[str, ...]] = {
    "image": (*_FILE, "image", "img", "image_path", "image_id", "id", "id_code"),
    "audio": ("path", "audio", *_FILE, "audio_path", "wav", "clip", "id"),
    "transcript": ("sentence", "text", "transcript", "transcription", "normalized_text", "normalized_transcription"),
    "label": ("label", "labels", "class", "category", "target", "sentiment", "intent", "stars", "rating", "score", "y"),
    "text": ("text", "text1", "text_a", "sentence1", "premise", "question1", "anchor", "query", *_TEXT[1:], "question",
             "title"),
    "text_pair": ("text_pair", "text2", "text_b", "sentence2", "hypothesis", "question2", "positive", "answer"),
    "negative": ("negative", "hard_negative", "negatives"),
    "source": ("source", "src", "source_text", "sentence1", "text1", "input"),
    "target": ("target", "tgt", "target_text", "sentence2", "text2", "output"),
    "tokens": ("tokens", "words"),
    "tags": ("ner_tags", "tags", "labels", "pos_tags", "chunk_tags"),
    "line": ("line", *_TEXT, "sentence1", "title"),
    "messages": ("messages", "conversations", "conversation", "chat", "dialog"),
    "prompt": ("prompt", "instruction", "question"),
    "context": ("context", "input"),
    "completion": ("completion", "response", "answer", "output"),
}  # fmt: skip
LANGUAGES = frozenset((
    "ar", "bg", "bn", "ca", "cs", "cy", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr", "ga", "gl", "gu",
    "he", "hi", "hr", "hu", "hy", "is", "it", "ja", "ka", "kk", "ko", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "mt",
    "nb", "ne", "nl", "nn", "no", "pa", "pl", "ps", "pt", "ro", "ru", "sk", "sl", "so", "sq", "sr", "sv", "sw", "ta",
    "te", "th", "tl", "tr", "uk", "ur", "uz", "vi", "zh", "arabic", "chinese", "czech", "danish", "dutch", "english",
    "finnish", "french", "german", "greek", "hebrew", "hindi", "hungarian", "indonesian", "italian", "japanese",
    "korean", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "spanish", "swedish", "thai",
    "turkish", "ukrainian", "vietnamese",
))  # fmt: skip
SIDES = {"source": {"source", "src"}, "target": {"target", "tgt", "translation", "translated"}}  # words inside names
WORDS = "give them with --columns, as in"


def normal(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def are_names(cells: Sequence[str], roles: Sequence[str]) -> bool:
    """Return whether the cells of a first row name columns: one by a usual name for a role, or two by words inside
    their names, as in `Source Sentence`, or by languages."""
    names = [normal(cell) for cell in cells]
    usual = any(name in NAMES[role] for name in names for role in roles)
    return usual or named_by_words(cells, roles) > 1


def named_by_words(cells: Sequence[str], roles: Sequence[str]) -> int:
    """Return how many cells contain different words of usual names for roles, or of languages.

    It is 0 if a cell cannot be a name: a file, or a text of more than three words.
    """
    if not all(_NAME.fullmatch(cell.strip()) and not _SUFFIX.search(cell) for cell in cells):
        return 0
    known = {word for role in roles for name in NAMES[role] for word in name.split("_")}
    known |= LANGUAGES if "source" in roles else frozenset()
    own = ([word for word in words_of(cell) if len(word) > 2 or " " not in cell.strip()] for cell in cells)
    return len({found for words in own if (found := frozenset(known.intersection(words)))})


_NAME = re.compile(r"[\w().:/-]{1,30}( [\w().:/-]{1,30}){0,2}")  # at most three words without other punctuation
_SUFFIX = re.compile(r"\.(\w*[a-z]\w*\d|wav|mp3|flac|ogg|opus|m4a|png|jpe?g|gif|bmp|webp|tiff?|txt)$", re.IGNORECASE)


def words_of(name: str) -> list[str]:
    """Split `SourceText`, `source_text` or `Source text 2` into lower-case words without digits."""
    return [word.lower() for word in re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))]


def parse(text: str) -> dict[str, str]:
    """Parse `text=review,label=stars` to {"text": "review", "label": "stars"}."""
    found = {}
    for part in text.split(","):
        role, equals, name = part.partition("=")
        if not equals or not role.strip() or not name.strip():
            raise ConfigError(
                f"--columns {text!r} contains {part!r}, which is not role=column",
                "write --columns text=review,label=stars",
            )
        found[role.strip()] = name.strip()
    return found


def choose(
    names: Sequence[str],
    roles: Sequence[str],
    optional: Sequence[str] = (),
    given: Mapping[str, str] | None = None,
    where: str = "the table",
    guess: Callable[[str, Sequence[str]], str | None] = lambda role, left: None,
    flags: Callable[[], Sequence[str]] = tuple,
) -> Columns:
    """Assign a column to every role: as `given`, by its usual names, or else by `guess(role, unassigned columns)`.

    `flags` returns the columns that only hold 0 and 1, which several labels may have.
    """
    given = dict(given or {})
    wanted = (*roles, *optional)
    for role in given:
        if role not in wanted:
            raise ConfigError(f"--columns {role}={given[role]} is not a role of this data", f"name {', '.join(wanted)}")
    found: Columns = {role: _named(role, name, names, where) for role, name in given.items()}
    taken = {name for some in found.values() for name in some}
    for role in wanted:
        left = [name for name in names if name not in taken]
        if role in found or (match := _usual(role, left) or (guess(role, left) if role in roles else None)) is None:
            continue
        found[role] = (match,)
        taken.add(match)
    missing = [role for role in roles if role not in found]
    if missing:
        has = ", ".join(names)[:80] or "nothing"
        rest = iter([name for name in names if name not in taken and normal(name) != "id"])
        several = [name for name in flags() if name not in taken] if missing == ["label"] else []
        if len(several) > 1:
            rest = iter(["+".join(several[:8])])
        example = ",".join(f"{role}={'+'.join(found[role]) if role in found else next(rest, '…')}" for role in roles)
        hint = f"{WORDS} {quote(example) if ' ' in example else example}"  # to be pasted into a shell
        if len(names) < len(roles):
            hint = f"give a table with the columns {' and '.join(roles)}"
            hint += ", or two files with corresponding lines as corpus.en,corpus.fr" * ("source" in roles)
        raise InputError(f"{where} has no column for {' and '.join(missing)} among {has}", hint)
    return {role: found[role] for role in wanted if role in found}


def _usual(role: str, left: Sequence[str]) -> str | None:
    by_name = {normal(name): name for name in reversed(left)}
    exact = next((by_name[name] for name in NAMES[role] if name in by_name), None)
    if exact or role not in SIDES:
        return exact
    inside = next((name for name in left if SIDES[role].intersection(words_of(name))), None)
    return inside or next((name for name in left if normal(name).rpartition(".")[2] in LANGUAGES), None)


def _named(role: str, text: str, names: Sequence[str], where: str) -> tuple[str, ...]:
    """A column by name or by number from 0: `stars`, `2`; several columns of 0 and 1: `toxic+obscene+threat`."""
    own = {str(i): name for i, name in enumerate(names)} | {normal(name): name for name in reversed(names)}
    chosen = (text,) if text in names or "+" not in text else tuple(part.strip() for part in text.split("+"))
    for name in chosen:
        if normal(name) not in own:
            raise InputError(
                f"{where} has no column {name} among {', '.join(names)[:80] or 'nothing'}", f"name one as {role}"
            )
    return tuple(name if name in names else own[normal(name)] for name in chosen)


def label_like(values: Sequence[Any]) -> bool:
    """Return whether values repeat as class labels do: at most half of them distinct."""
    return len(values) >= 4 and 2 * len(set(map(str, values))) <= len(values)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
