"""read(text) → Reading: placed and unplaced statements of a document. Tolerant, but never guesses silently."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from unicodedata import normalize

from glassformer.errors import InputError
from glassformer.exercises.expression import Name
from glassformer.exercises.reader import brackets, formats, macros
from glassformer.exercises.reader import decimal_comma as commas
from glassformer.exercises.reader.answers import answers
from glassformer.exercises.reader.document import Piece, TableContents, latex_table, markdown_table, pieces, scan
from glassformer.exercises.reader.encoding import decode_text
from glassformer.exercises.reader.notation import plain_numbers, usual_notation
from glassformer.exercises.reader.printouts import printouts
from glassformer.exercises.reader.sentences import token_names
from glassformer.exercises.reader.statements import (
    Draft,
    Link,
    Note,
    Place,
    Reading,
    Statement,
    Unread,
    listed,
    parse_formula,
    split_target,
    target_of,
)

# 𝑄 and 𝟎 of Word, MathML and Typst, and the ligatures of PDF, as plain characters
_PLAIN = {code: normalize("NFKC", chr(code)) for code in (*range(0x1D400, 0x1D800), *range(0xFB00, 0xFB05))}
# a number crossed out directly before the one that replaces it: ~~0.61~~ 0.673
_REPLACED = re.compile(r"~~[ \t]*[-+−]?\d*[.,]?\d+[ \t]?%?[ \t]*~~[ \t]*(?=[-+−]?\.?\d)")
LARGEST = 2_000_000  # maximum size in bytes
MOST_FORMULAS = 8_000
MOST_MATHEMATICS = 300_000  # maximum characters in formulas: many times the length of a long exercise
MOST_IN_PROSE = 4  # numbers in a text without mathematics
LONGEST_SOURCE = 400  # maximum characters of a source kept for Unread and Note
KINDS = ("auto", "markdown", "latex", "yaml", "json", "csv")
_SUFFIXES = {".md": "markdown", ".markdown": "markdown", ".txt": "markdown", ".tex": "latex", ".latex": "latex",
             ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".csv": "csv", ".tsv": "csv"}  # fmt: skip


def read_file(path: Path | str, *, decimal_comma: bool = False) -> Reading:
    """Read a file of at most 2 MB; `decimal_comma` treats every comma between two digits as a decimal comma."""
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # opening a named pipe would wait for a writer
            raise InputError(f"{path} is not a regular file", "save the answers as a file")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise _too_large(path.name, max(len(data), path.stat().st_size))
        return read(data, path.name, decimal_comma=decimal_comma)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", "name a file that exists") from None


def read(
    text: str | bytes, name: str = "the document", kind: str = "auto", *, decimal_comma: bool = False
) -> Reading:
    """Read the statements of a document. Raises InputError if it is not text, exceeds 2 MB or has no mathematics.

    `decimal_comma` treats every comma between two digits as a decimal comma, except in indices.
    """
    if kind not in KINDS:
        raise InputError(f"kind {kind!r} is not known", f"choose one of {', '.join(KINDS)}")
    if len(text) > LARGEST:
        raise _too_large(name, len(text))
    data = text if isinstance(text, bytes) else text.encode(errors="replace")
    converted = formats.convert(data, name) if kind == "auto" else None
    if converted is not None:
        (text, kind), encoding = converted, ""
    else:
        text, encoding = decode_text(data, name)
        text = formats.plain(text, name)
    text = text.translate(_PLAIN).replace("\r\n", "\n").replace("\r", "\n")
    notes = [Note(1, "", encoding)] if encoding else []
    if kind == "auto":
        kind = _guess(text, name)
    if kind in ("yaml", "json", "csv"):
        reading = answers(text, name, kind)
        return replace(reading, text=reading.text or text, notes=(*notes, *reading.notes))
    found = not decimal_comma and commas.has_decimal_commas(text)
    text = commas.to_decimal_points(text, every=decimal_comma or found, lists=found)
    if found:
        notes.append(Note(1, "", "commas between digits are read as decimal commas"))
    for replaced in _REPLACED.finditer(text):
        line = text.count("\n", 0, replaced.start()) + 1
        notes.append(Note(line, replaced.group().strip(), "crossed out: the number after it is read"))
    text = _REPLACED.sub("", text)
    collector = Collector(notes=notes, names=token_names(text))
    text = usual_notation(printouts(brackets.inline(plain_numbers(text))))
    for piece in pieces(macros.body(text)):
        collector.take(piece)
    reading = collector.reading(name, kind)
    if not reading.statements and not reading.unread and len(re.findall(r"\d+", text)) < MOST_IN_PROSE:
        raise InputError(f"{name} contains no mathematics", "write formulas as $…$, or plainly as Q = [[1, 2]]")
    return replace(reading, text=text)


def _too_large(name: str, size: int) -> InputError:
    return InputError(f"{name} is {size / 1e6:.1f} MB", f"send at most {LARGEST // 1_000_000} MB")


def _guess(text: str, name: str) -> str:
    suffix = _SUFFIXES.get(Path(name).suffix.lower())
    if suffix is not None:
        return suffix
    start = text.lstrip()
    if start.startswith("{") and '"' in start[:200]:
        return "json"
    return "latex" if macros.is_latex(text) else "markdown"


@dataclass(slots=True)
class _Kept:
    """A draft with its location, kept until the following formulas can no longer continue it."""

    draft: Draft
    place: Place
    context: str


@dataclass(slots=True)
class Collector:
    """Assembles the pieces of a document into statements."""

    kept: list[_Kept] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    words: str = ""
    context: str = ""
    formulas: int = 0
    characters: int = 0
    names: frozenset[str] = frozenset()  # of tokens

    def take(self, piece: Piece) -> None:
        match piece.kind:
            case "prose":
                self.prose(piece)
            case "code":
                self.count("")
                self.prose(piece)
            case "inline" | "display":
                self.formula(piece.text, piece.line, piece.kind, piece.crossed)
            case "open":
                self.problem(piece.line, piece.text, "the formula is never closed")
                self.formula(piece.text, piece.line, "display", piece.crossed)
            case "picture":
                self.problem(piece.line, piece.text, "pictures cannot be read: write out what it shows")
            case "table":
                self.count(piece.text)
                self.table(markdown_table(piece.text, piece.line, self.words))
            case "tabular":
                self.count(piece.text)
                self.table(latex_table(piece.text, piece.line))

    def prose(self, piece: Piece) -> None:
        for event in scan(piece.text, piece.line, code=piece.kind == "code", names=self.names):
            if event.kind == "formula":
                self.formula(event.text, event.line, "plain", piece.crossed)
            elif event.kind == "number":
                self.formula(event.text, event.line, "prose", piece.crossed)
            elif event.target is not None:
                self.assigned(event.text, event.line, event.target, piece.crossed)
            elif event.kind == "long":
                self.problem(event.line, event.text, "the line is too long: break it")
            else:
                self.say(event.text)

    def say(self, text: str) -> None:
        text = " ".join(text.split()).strip()
        if any(char.isalnum() for char in text):
            self.words = f"{self.words} {text}".strip()[-LONGEST_SOURCE:]
            self.context = self.words

    def formula(self, source: str, line: int, place: Place, crossed: bool) -> None:
        self.count(source)
        found = parse_formula(source, line)
        for position, draft in enumerate(found.drafts):
            last = self.kept[-1].draft if self.kept else None
            joins = position == 0 and not self.words and not draft.words and last is not None
            if joins and last is not None and (last.dangling or (draft.leading and draft.terms[0].relation != "→")):
                last.extend(draft)
                continue
            self.keep(draft, place, crossed)
        for line, source, reason in found.problems:
            self.problem(line, source, reason)
        self.notes += [Note(line, _short(source), assumption) for line, source, assumption in found.notes]

    def assigned(self, source: str, line: int, target: Name, crossed: bool) -> None:
        """Keep a value that a sentence assigns to a quantity and its tokens."""
        self.count(source)
        for draft in parse_formula(source, line).drafts[:1]:
            value = listed(draft.terms[0].term)
            links = [Link(line, "", target), Link(line, "=", value)]
            self.keep(Draft(line, source, links), "prose", crossed)

    def count(self, source: str) -> None:
        self.formulas += 1
        self.characters += len(source)
        if self.formulas > MOST_FORMULAS or self.characters > MOST_MATHEMATICS:
            raise InputError("the document contains too much mathematics", "send one solution at a time")

    def keep(self, draft: Draft, place: Place, crossed: bool) -> None:
        draft.words = f"{self.words} {draft.words}".strip()
        draft.crossed |= crossed
        self.kept.append(_Kept(draft, place, self.context))
        self.words = ""

    def problem(self, line: int, source: str, reason: str) -> None:
        self.unread.append(Unread(line, _short(source), reason))

    def table(self, table: TableContents) -> None:
        for line, source, target, term in table.chains:
            links = [Link(line, "", term)] if target is None else [Link(line, "", target), Link(line, "=", term)]
            draft = Draft(line, _short(source), links)
            if target is None and not self.words and self.kept and self.kept[-1].draft.dangling:  # Q = over a table
                self.kept[-1].draft.extend(draft)
            else:
                self.keep(draft, "table", False)
        for line, text in table.formulas:
            self.formula(text, line, "table", False)
        for line, source, reason in table.problems:
            self.problem(line, source, reason)
        self.say(table.words)

    def reading(self, name: str, kind: str) -> Reading:
        statements: list[Statement] = []
        for kept in self.kept:
            draft = kept.draft
            for target, terms in split_target(draft.terms):
                if target is None and len(terms) == 1 and draft.dangling and terms[0].relation == "":
                    target, terms = target_of(terms[0].term), ()
                statements.append(
                    Statement(draft.line, draft.source, target, terms, draft.words, kept.context, draft.given,
                              kept.place, draft.crossed)
                )
        unread = sorted(self.unread, key=lambda item: item.line)
        return Reading(name, kind, tuple(statements), tuple(unread), tuple(self.notes))


def _short(source: str) -> str:
    text = " ".join(source.split())
    return text if len(text) <= LONGEST_SOURCE else text[: LONGEST_SOURCE - 1] + "…"
