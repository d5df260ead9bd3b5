"""Worksheets as questions of Moodle and as QTI quizzes."""

from __future__ import annotations

import html
import io
import re
import sys
import xml.etree.ElementTree as ET
import zipfile
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.numbers import Masked
from glassformer.exercises.practice import TOPICS, ExerciseSpec, make, sheets
from glassformer.exercises.practice.moodle import moodle_xml
from glassformer.exercises.practice.qti import LAST_PLACE, qti_zip, quiz_text
from glassformer.exercises.practice.questions import questions
from glassformer.exercises.practice.sheet import asked
from glassformer.exercises.solution import solve

# A field of a Cloze question by docs.moodle.org: {weight:NUMERICAL:=answer:tolerance}
FIELD = re.compile(r"\{(\d+):NUMERICAL:=(-?\d+(?:\.\d+)?):(\d+\.\d+)\}")
QTI = "{http://www.imsglobal.org/xsd/ims_qtiasiv1p2}"
HOSTILE = 'x]]></text><b>"&{1:NUMERICAL:=1:1}\x00 $y$ \\(z\\) <script>alert(1)</script>'


def wanted(exercise: Exercise) -> list[Any]:
    """The exact values of the numbers to find."""
    solution = solve(exercise)
    cells = [x for symbol, _ in asked(solution) for _, _, x in solution[symbol].cells()]
    return [x for x in cells if not isinstance(x, Masked)]


def made(topic: str) -> Exercise:
    return make(ExerciseSpec(topic=topic), 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", TOPICS)
def test_moodle_has_a_field_for_every_number_to_find(topic: str) -> None:
    exercise = made(topic)
    quiz = ET.fromstring(moodle_xml([questions(exercise)]))
    category, question = quiz
    assert category.findtext("category/text") == "$course$/top/Attention on paper"
    assert question.get("type") == "cloze"
    assert question.findtext("name/text") == exercise.title
    text = question.findtext("questiontext/text") or ""
    assert question.find("questiontext").get("format") == "html"  # type: ignore[union-attr]
    fields = FIELD.findall(text)
    assert len(fields) == text.count("NUMERICAL") == len(wanted(exercise))
    for (weight, value, tolerance), exact in zip(fields, wanted(exercise), strict=True):
        assert weight == "1"
        assert tolerance == "0.001"
        assert abs(Fraction(value) - Fraction(exact.decimal(12))) <= Fraction(1, 20000)
    assert (question.findtext("generalfeedback/text") or "").count(r"\(") == len(solve(exercise).steps)


def test_masked_scores_are_printed() -> None:
    text = moodle_xml([questions(made("mask"))])
    assert text.count("−∞</td>".replace("<", "&lt;").replace(">", "&gt;")) == 3


@pytest.mark.variants(3)
@pytest.mark.parametrize("topic", TOPICS)
def test_qti_has_a_question_for_every_number_to_find(topic: str) -> None:
    exercise = made(topic)
    with zipfile.ZipFile(io.BytesIO(qti_zip(questions(exercise)))) as archive:
        assert archive.testzip() is None
        manifest = ET.fromstring(archive.read("imsmanifest.xml"))
        files = [element.get("href") for element in manifest.iter() if element.tag.endswith("}file")]
        assert set(files) <= set(archive.namelist())
        (name,) = [name for name in archive.namelist() if re.fullmatch(r"(text2qti_assessment_\w+)/\1\.xml", name)]
        quiz = ET.fromstring(archive.read(name))
    assert quiz.tag == f"{QTI}questestinterop"
    assert quiz[0].get("title") == exercise.title
    first, *items = quiz.iter(f"{QTI}item")
    assert "text_only_question" in {entry.text for entry in first.iter(f"{QTI}fieldentry")}
    exact = wanted(exercise)
    assert len(items) == len(exact)
    assert len({item.get("ident") for item in items}) == len(items)
    for item, value in zip(items, exact, strict=True):
        assert "numerical_question" in {entry.text for entry in item.iter(f"{QTI}fieldentry")}
        low, high = (float(next(item.iter(f"{QTI}{bound}")).text or "") for bound in ("vargte", "varlte"))
        assert low < float(value) < high
        assert high - low <= 2 * 0.001 + 2 * float(LAST_PLACE) + 1e-9


def test_sheets_share_no_qti_identifier() -> None:
    """Canvas overwrites what has the same identifier if the importer is asked to, also within another quiz."""
    seen: list[set[str]] = []
    for exercise in sheets(ExerciseSpec(topic="beta"), 7, 3):
        with zipfile.ZipFile(io.BytesIO(qti_zip(questions(exercise)))) as archive:
            text = "\n".join(archive.read(name).decode() for name in archive.namelist())
        seen.append(set(re.findall(r"text2qti_[\w-]+", text)))
    assert min(map(len, seen)) > len(wanted(exercise))
    assert not any(a & b for a, b in combinations(seen, 2))


@pytest.mark.parametrize("text", [HOSTILE, "1. a < b", "- x ~ y ^ 2", "    code", "\"q\" -- 'k'..."])
def test_qti_shows_text_as_it_is(text: str) -> None:
    exercise = from_data({"title": text, "text": text, "Q": [[1]], "K": [[1]], "V": [[1]]})
    with zipfile.ZipFile(io.BytesIO(qti_zip(questions(exercise)))) as archive:
        (name,) = [name for name in archive.namelist() if re.fullmatch(r"(text2qti_assessment_\w+)/\1\.xml", name)]
        quiz = ET.fromstring(archive.read(name))
    plain = " ".join(text.replace("\x00", "").split())
    assert quiz[0].get("title") == plain
    shown = next(quiz.iter(f"{QTI}mattext")).text or ""
    assert re.findall(r"<\w+", shown)[:2] == ["<p", "<p"]  # the text, then what is given: no other markup
    assert html.unescape(shown.removeprefix("<p>")).startswith(f"{plain} ")


def test_every_embedded_exercise_has_questions() -> None:
    for name in library.names():
        sheet = questions(library.get(name))
        ET.fromstring(moodle_xml([sheet]))
        assert "Quiz title: " in quiz_text(sheet)


def test_values_near_the_bounds_that_text2qti_refuses() -> None:
    exercise = from_data({"Q": [[7, 0]], "K": [[1, 0], [0, 0]], "V": [["0.001"], ["-0.001"]], "scale": "none"})
    qti_zip(questions(exercise))
    assert "[-0.0001, 0.0020]" in quiz_text(questions(exercise))


@pytest.mark.parametrize("tolerance", [0.0001, 0.00015, 0.0005, 0.01, 0.5, 0.999])
def test_qti_names_no_answer_that_was_rounded_twice(tolerance: float) -> None:
    """text2qti writes four decimals: 0.408248, given to it as 0.40825, would become 0.4083."""
    written = ["0.408248", "0.49995", "0.0001", "0.00015", "-0.00005", "-1", "0.999", "1000000.5"]
    exercise = from_data({"Q": [[0]], "K": [[1]], "V": [written]})
    with zipfile.ZipFile(io.BytesIO(qti_zip(questions(exercise, tolerance)))) as archive:
        (name,) = [name for name in archive.namelist() if re.fullmatch(r"(text2qti_assessment_\w+)/\1\.xml", name)]
        items = list(ET.fromstring(archive.read(name)).iter(f"{QTI}item"))
    for item, value in zip(items[-len(written) :], map(Decimal, written), strict=True):
        low, high = (Decimal(next(item.iter(f"{QTI}{bound}")).text or "") for bound in ("vargte", "varlte"))
        assert low <= min(value, round(value, 4))
        assert high >= max(value, round(value, 4))
        assert high - low <= 2 * Decimal(str(tolerance)) + Decimal("0.0003")
        assert all(Decimal(equal.text or "") == (low + high) / 2 for equal in item.iter(f"{QTI}varequal"))


def test_text_in_moodle_is_no_markup_and_no_field() -> None:
    exercise = from_data({"title": HOSTILE, "text": HOSTILE, "Q": [[1]], "K": [[1]], "V": [[1]]})
    question = ET.fromstring(moodle_xml([questions(exercise)], category="a/b"))[1]
    text = question.findtext("questiontext/text") or ""
    assert "<script>" not in text
    assert len(FIELD.findall(text)) == len(wanted(exercise))
    assert "{1:NUMERICAL:=1:1}" not in text
    name = question.findtext("name/text") or ""
    assert "<" not in name  # Moodle's importer removes tags from names, and would make "q 2" of "q<k and 3 > 2"
    assert html.unescape(name) == html.unescape(HOSTILE.replace("\x00", ""))


@pytest.mark.parametrize("tolerance", [0, -1, 1, float("nan"), 1e-6])
def test_impossible_tolerances(tolerance: float) -> None:
    with pytest.raises(InputError, match="the tolerance is"):
        questions(library.get("four-tokens"), tolerance)


def test_a_small_tolerance_has_more_digits() -> None:
    assert "{1:NUMERICAL:=0.19661:0.0001}" in moodle_xml([questions(library.get("four-tokens"), 0.0001)])


def test_without_text2qti(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "text2qti.config", None)
    with pytest.raises(InputError, match=r"pip install 'glassformer\[lms\]'"):
        qti_zip(questions(library.get("four-tokens")))
