"""Moodle XML: each worksheet as one Cloze question with a NUMERICAL field for every number to find.

https://docs.moodle.org/en/Moodle_XML_format and https://docs.moodle.org/en/Embedded_Answers_(Cloze)_question_type.
Formulas are LaTeX between \\( and \\), which Moodle's MathJax filter shows.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from markupsafe import escape

from glassformer.exercises.practice.questions import Questions


def moodle_xml(sheets: Sequence[Questions], category: str = "Attention on paper") -> str:
    """Return a file for Moodle's question bank, with all worksheets in one category."""
    quiz = ET.Element("quiz")
    folder = ET.SubElement(quiz, "question", type="category")
    _text(folder, "category", f"$course$/top/{category.replace('/', '//')}")
    for sheet in sheets:
        question = ET.SubElement(quiz, "question", type="cloze")
        _text(question, "name", sheet.title.replace("<", "&#60;"))  # Moodle removes what looks like a tag
        _text(question, "questiontext", "\n".join(_question(sheet)), "html")
        _text(question, "generalfeedback", "\n".join(rf"<p>\({_safe(worked)}\)</p>" for worked in sheet.worked), "html")
        ET.SubElement(question, "penalty").text = "0.3333333"
        ET.SubElement(question, "hidden").text = "0"
    ET.indent(quiz)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(quiz, encoding="unicode") + "\n"


def _text(parent: ET.Element, tag: str, text: str, form: str = "") -> None:
    element = ET.SubElement(parent, tag, {"format": form} if form else {})
    ET.SubElement(element, "text").text = text


def _question(sheet: Questions) -> Iterator[str]:
    yield f"<p>{_plain(sheet.text)}</p>"
    yield from (rf"<p>\({_safe(formula)}\)</p>" for formula in sheet.given)
    for step in sheet.steps:
        words = f" ({_plain(step.words)})" if step.words else ""
        yield rf"<p>\({_safe(step.formula)} =\){words}</p>"
        yield "<table><tbody>"
        for row in step.values:
            cells = "".join(f"<td>{_field(value, sheet.tolerance)}</td>" for value in row)
            yield f"<tr>{cells}</tr>"
        yield "</tbody></table>"


def _field(value: str | None, tolerance: float) -> str:
    return "−∞" if value is None else f"{{1:NUMERICAL:={value}:{tolerance:.12f}".rstrip("0") + "}"


def _safe(formula: str) -> str:
    """Escape LaTeX for HTML; its braces never start a field, because no digit and colon follow them."""
    return str(escape(formula))


def _plain(text: str) -> str:
    """Escape plain text for HTML, and its braces, which could start a field."""
    return str(escape(text)).replace("{", "&#123;").replace("}", "&#125;").replace("\\", "&#92;")
