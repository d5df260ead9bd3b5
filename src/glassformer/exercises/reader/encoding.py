"""Decodes the bytes of a text file: UTF-8, UTF-16, or Windows-1252, which includes all printable Latin-1 text."""

from __future__ import annotations

from glassformer.errors import InputError

_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\x1a\x1b")
_MOST_ACCENTS = 0.3  # of the bytes of a text in Windows-1252; binary data has about half


def decode_text(data: bytes, name: str) -> tuple[str, str]:
    """Return the text and a note on its encoding, empty for Unicode. Raises InputError if it is not text."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text, note = data.decode(encoding), ""
    except UnicodeDecodeError:
        accents = sum(byte > 127 for byte in data)
        if encoding == "utf-16" or not _CONTROLS.isdisjoint(data) or accents > _MOST_ACCENTS * len(data):
            raise InputError(f"{name} is not text", "save it as UTF-8") from None
        text = data.decode("cp1252", errors="replace")
        note = "the file is not UTF-8, and was read as Windows-1252 (Latin-1)"
    if "\0" in text:
        raise InputError(f"{name} is not text (it contains a zero byte)", "save it as UTF-8")
    return text, note
