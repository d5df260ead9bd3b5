"""Grade a folder of documents that have answer keys, and count what is found and which verdicts are false.

A document NAME.EXT has its key in NAME.key.json: `exercise` (an embedded one, or a YAML file in the folder), `cells`
(a list of symbol, row, column, written and status: right, follows or wrong) and `mistake` (its name, or null). Run as a
script: python tests/exercises/score_documents.py FOLDER [--details]
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.errors import GlassError
from glassformer.exercises import library
from glassformer.exercises.arithmetic import Unevaluated
from glassformer.exercises.evaluation import enclose
from glassformer.exercises.exercise import Exercise, from_data, load_exercise
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.plan import plan
from glassformer.exercises.reader import parse_formula, read_file
from glassformer.exercises.reader.notation import usual_notation

Place = tuple[str, int, int]


@dataclass
class Score:
    """One document: answers in its key, those graded in their cell, and everything that contradicts the key."""

    name: str
    answers: int = 0
    found: int = 0
    false: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    unread: int = 0
    diagnoses: list[str] = field(default_factory=list)
    mistake: str = ""
    error: str = ""


def documents(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every document of a folder with its key."""
    for key in sorted(folder.glob("*.key.json")):
        name = key.name.removesuffix(".key.json")
        found = [path for path in sorted(folder.glob(f"{name}.*")) if path.stem == name and path != key]
        if len(found) != 1:
            raise SystemExit(f"{key.name} has {len(found)} documents, expected 1")
        yield found[0], json.loads(key.read_text(encoding="utf-8"))


def exercise_of(key: Mapping[str, Any], folder: Path) -> Exercise:
    named = key["exercise"]
    if isinstance(named, Mapping):
        return from_data(dict(named))
    if named in library.names():
        return library.get(named)
    path = next(p for p in (folder / named, folder / f"{named}.yaml", Path(named)) if p.exists())
    return load_exercise(path)


def score(path: Path, key: Mapping[str, Any]) -> Score:
    """Grade one document and compare every cell with its key."""
    made = Score(path.name, len(key["cells"]), mistake=str(key.get("mistake") or ""))
    exercise = exercise_of(key, path.parent)
    try:
        graded = grade(exercise, read_file(path))
    except GlassError as error:
        made.error = str(error)
        made.missed = [f"{c['symbol']}[{c['row']},{c['column']}]" for c in key["cells"]]
        return made
    same = {op.symbol: op.inputs[0] for op in plan(exercise).operations if op.op == "copy"}  # the only head's H is O
    return compare(made, graded, key, same)


def compare(made: Score, graded: Grade, key: Mapping[str, Any], same: Mapping[str, str]) -> Score:
    def place(symbol: str, row: int, column: int) -> Place:
        return same.get(symbol, symbol), row, column

    truth = {place(c["symbol"], c["row"], c["column"]): c for c in key["cells"]}
    made.answers = len(truth)
    cells = {place(c.symbol, c.row, c.column): c for c in graded.cells if c.given is not None}
    cells |= {at: c for c in graded.cells if (at := place(c.symbol, c.row, c.column)) in truth and c.given is not None
              and close(c.given, truth[at]["written"])}  # fmt: skip
    for at, wanted in truth.items():
        cell = cells.get(at)
        if cell is not None and close(cell.given or "", wanted["written"]):
            made.found += 1
        else:
            read = f" (read {cell.given}, {cell.verdict})" if cell is not None else ""
            made.missed.append(f"{_name(at)} {wanted['written']}{read}")
    for at, cell in cells.items():
        said = f"{_name(at)} {cell.given}: {cell.verdict} in line {cell.line}"
        accepted = cell.verdict in ("right", "follows")
        if at not in truth:
            if not accepted:
                made.false.append(f"{said}, but the key has no such cell")
        elif accepted != (truth[at]["status"] in ("right", "follows")):
            made.false.append(f"{said}, but {truth[at]['written']} is {truth[at]['status']}")
    made.unread = graded.accounting.unread
    planted = any(c["status"] not in ("right", "follows") for c in key["cells"])
    made.diagnoses = [f"{m.name}: {m.where}" for m in graded.mistakes if not planted and not made.mistake]
    made.mistake = f"{made.mistake} → {'; '.join(f'{m.name}: {m.where}' for m in graded.mistakes)}"
    return made


def close(given: str, written: Any) -> bool:
    a, b = _number(given), _number(str(written))
    return a is not None and b is not None and (a == b or abs(a - b) < 1e-9 * max(1, abs(b)))


def _number(text: str) -> float | None:
    exact = text
    text = re.sub(r"[\s$\\{}≈~]", "", text).replace("−", "-").replace("∞", "inf")
    text = re.sub("infty|oo", "inf", text)
    thousands = "." in text or text.count(",") > 1
    text = text.replace(",", "" if thousands else ".")
    scale, text = (100, text[:-1]) if text.endswith("%") else (1, text)
    try:
        top, _, bottom = text.partition("/")
        return float(top) / float(bottom or 1) / scale
    except (ValueError, ZeroDivisionError):
        return _exact_form(exact)


def _exact_form(text: str) -> float | None:
    """Return the value of an expression such as e²/(2e² + 1)."""
    drafts = parse_formula(usual_notation(text), 1).drafts
    try:
        return float(enclose(drafts[0].terms[0].term).mid()) if drafts else None
    except (Unevaluated, AttributeError):
        return None


def _name(at: Place) -> str:
    return f"{at[0]}[{at[1]},{at[2]}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--details", action="store_true", help="list every missed answer and every false verdict")
    arguments = parser.parse_args()
    scores = [score(path, key) for path, key in documents(arguments.folder)]
    print(f"{'document':36} answers  found  false  unread  false diagnoses | mistake → diagnosis")
    for each in scores:
        counts = f"{each.answers:7} {each.found:6} {len(each.false):6} {each.unread:7}"
        print(f"{each.name[:36]:36} {counts}  {'; '.join(each.diagnoses)} | {each.mistake} {each.error}"[:200])
        for line in (*each.false, *(f"missed {m}" for m in each.missed)) if arguments.details else ():
            print(f"    {line}")
    answers, found = sum(each.answers for each in scores), sum(each.found for each in scores)
    false, unread = sum(len(each.false) for each in scores), sum(each.unread for each in scores)
    print(f"{len(scores)} documents, {answers} answers: {found} found ({found / max(1, answers):.1%}), {false} false "
          f"verdicts, {unread} numbers unread, {sum(map(bool, (s.diagnoses for s in scores)))} false diagnoses")


if __name__ == "__main__":
    main()
