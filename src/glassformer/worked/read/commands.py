"""What each command of LaTeX is to the lexer: a sign, a name, words, an environment, or just looks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from glassformer.worked.read import names

if TYPE_CHECKING:
    from glassformer.worked.read.tokens import Lexer

_LETTERS = re.compile(r"[A-Za-z]+")
_AFTER_TEXT = re.compile(r"\s*(?:[_^(=]|\\left|\\approx|:=)")


def command(lexer: Lexer, name: str) -> None:
    """Takes the command `name`, with what belongs to it, from the lexer's source."""
    plain = name.removesuffix("*")
    if name in names.SPACES:
        lexer.spaced = True
    elif name in names.GAPS:
        lexer.add("gap", name)
    elif name in ("\\", "cr", "newline", "tabularnewline"):
        _row(lexer)
    elif name in names.BRACKETS:
        lexer.add(*names.BRACKETS[name])
    elif plain in ("begin", "end"):
        _environment(lexer, plain)
    elif plain in names.TEXTS:
        _text(lexer)
    elif name in names.UPRIGHT or plain in names.UPRIGHT:
        _upright(lexer)
    elif plain in names.WITH_ARGUMENT or plain in ("textcolor", "colorbox", "raisebox"):
        lexer._argument()
    elif plain in names.FONTS:
        lexer.spaced = True
    elif plain in names.LOOKS:
        _looks(lexer, plain)
    elif plain in ("xrightarrow", "xRightarrow", "xlongrightarrow"):
        lexer._argument()
        lexer.add("rel", "→")
    elif plain in ("overset", "underset", "stackrel"):
        lexer._argument()
    else:
        _sign(lexer, plain)


def _sign(lexer: Lexer, name: str) -> None:
    if name in ("%", "$", "#", "&", "_"):
        if name in "%&":
            lexer.add("op" if name == "%" else "words", name)
    elif name == "|":
        lexer.add("op", "‖")
    elif name == "sqrt":
        lexer.add("cmd", "sqrt")
    elif name in names.FUNCTIONS:
        lexer.add("name", name)
    elif name in names.RELATIONS:
        lexer.add("rel", names.RELATIONS[name])
    elif name in names.OPERATORS:
        lexer.add("op", names.OPERATORS[name])
    elif name == "pi":
        lexer.add("cmd", "pi")
    elif name in names.SYMBOLS:
        lexer.add("name", names.SYMBOLS[name])
    elif name in ("dfrac", "tfrac", "cfrac", "nicefrac", "sfrac"):
        lexer.add("cmd", "frac")
    else:
        lexer.add("cmd", names.BIG.get(name, name))


def _row(lexer: Lexer) -> None:
    """`\\\\`, also with the space that may follow it: `\\\\[2pt]`."""
    found = re.compile(r"\s*\[-?[\d.]*\s*(?:pt|em|ex|mm|cm|in)\]").match(lexer.source, lexer.position)
    if found:
        lexer.position = found.end()
    lexer.add("row", "\\\\")


def _environment(lexer: Lexer, which: str) -> None:
    name = (lexer._argument() or "").strip().removesuffix("*")
    if which == "begin" and name in ("array", "alignedat", "tabular", "subarray"):
        found = re.compile(r"\s*\[[tbc]\]").match(lexer.source, lexer.position)
        if found:
            lexer.position = found.end()
        lexer._argument()  # the columns: {cc|c}
    elif which == "begin" and name in names.MATRICES:
        found = re.compile(r"\s*\[[lcr]\]").match(lexer.source, lexer.position)
        if found:
            lexer.position = found.end()
    lexer.add(which, name)


def _text(lexer: Lexer) -> None:
    """`\\text{out}_1` and `\\text{softmax}(…)` are names, `\\text{ where }` is words."""
    text = lexer._argument()
    if text is None:
        return
    word = text.strip()
    named = _LETTERS.fullmatch(word) and text == word and _AFTER_TEXT.match(lexer.source, lexer.position)
    if (named and word.lower() not in ("and", "or", "so", "with", "where", "if", "then", "for")) or (
        word.lower() in names.FUNCTIONS
    ):
        lexer.add("name", word)
    elif word in ("T", "t") and lexer.items and lexer.items[-1].text == "^":
        lexer.add("name", "T")
    elif lexer.items and lexer.items[-1].text in ("_", "^") and word:
        lexer.add("name", word)
    elif word:
        lexer.add("words", " ".join(word.split()))


def _upright(lexer: Lexer) -> None:
    found = re.compile(r"\s*\{\s*([A-Za-z]+)\s*\}").match(lexer.source, lexer.position)
    if found:
        lexer.position = found.end()
        lexer.add("name", found.group(1))
    else:
        lexer.spaced = True


def _looks(lexer: Lexer, name: str) -> None:
    if name in ("left", "right", "middle"):
        found = re.compile(r"\s*\.").match(lexer.source, lexer.position)
        if found:  # \left. and \right. draw nothing
            lexer.position = found.end()
    elif name == "cline":
        lexer._argument()
    lexer.spaced = True
