"""QTI 1.2, as Canvas imports it, through text2qti: one numerical question for every number to find.

https://github.com/gpoore/text2qti: the extra `lms`.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator
from decimal import Decimal

from glassformer.errors import InputError
from glassformer.exercises.practice.questions import Questions

LAST_PLACE = Decimal("0.0001")  # text2qti writes bounds to four decimals, and refuses bounds closer to 0
_ENTITIES = str.maketrans({char: f"&#{ord(char)};" for char in string.punctuation})


def qti_zip(sheet: Questions) -> bytes:
    """Return the quiz of a worksheet as a QTI package."""
    try:
        from text2qti.config import Config
        from text2qti.qti import QTI
        from text2qti.quiz import Quiz
    except ImportError:
        raise InputError("QTI needs the text2qti package", "install it with pip install 'glassformer[lms]'") from None
    text = quiz_text(sheet)
    quiz = Quiz(text, config=Config())
    for part in (quiz, *quiz.questions_and_delims):
        # text2qti hashes the wording alone, which sheets share: Canvas could overwrite one sheet with the next
        part.id = hashlib.sha256(f"{text}\n{part.id}".encode()).hexdigest()
    data: bytes = QTI(quiz).zip_bytes()
    return data


def quiz_text(sheet: Questions) -> str:
    """Return the quiz in text2qti's own format."""
    return "\n".join(_lines(sheet))


def _lines(sheet: Questions) -> Iterator[str]:
    yield f"Quiz title: {sheet.title or 'Exercise'}"
    yield ""
    yield f"Text title: {sheet.title or 'Exercise'}"
    yield f"Text: {_plain(sheet.text) or 'Given:'}"
    for formula in sheet.given:
        yield ""
        yield f"    ${formula}$"
    yield ""
    number = 1
    for step in sheet.steps:
        single = len(step.values) == 1 and len(step.values[0]) == 1
        for i, row in enumerate(step.values, 1):
            for j, value in enumerate(row, 1):
                if value is None:  # a masked score
                    continue
                words = f" ({_plain(step.words)})" if step.words else ""
                yield f"Title: {step.symbol}" if single else f"Title: {step.symbol}[{i},{j}]"
                place = "" if single else f", row {i}, column {j}"
                yield f"{number}. ${step.formula}${words}{place}:"
                yield f"= {_range(value, sheet.tolerance)}"
                yield ""
                number += 1


def _range(value: str, tolerance: float) -> str:
    """Return what is accepted: the value and its margin if four decimals can express them, else the bounds."""
    middle, margin = Decimal(value), Decimal(f"{tolerance:.12f}")
    low, high = middle - margin, middle + margin
    if min(abs(low), abs(high)) > LAST_PLACE and all(x == round(x, 4) for x in (low, middle, high)):
        return f"{value} +- {margin.normalize():f}"
    low = -LAST_PLACE if abs(low) < LAST_PLACE else low  # the accepted range may grow by at most two ten-thousandths
    high = LAST_PLACE if abs(high) < LAST_PLACE else high
    return f"[{low:.4f}, {high:.4f}]"


def _plain(text: str) -> str:
    """Escape plain text for Markdown, so that nothing in it is taken as markup or a formula."""
    return text.translate(_ENTITIES)
