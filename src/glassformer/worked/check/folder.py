"""A pile of submissions: a row of results and one feedback file each; a broken one never stops the rest."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import GlassError, InputError
from glassformer.worked.check.marking import check
from glassformer.worked.check.report import VERDICTS, Report
from glassformer.worked.check.show import SUFFIX
from glassformer.worked.problem import Exercise
from glassformer.worked.read import read_file

SUFFIXES = frozenset([".md", ".markdown", ".txt", ".tex", ".latex", ".yaml", ".yml", ".json", ".csv", ".tsv"])
RESULTS = "results.csv"
FEEDBACK = "-feedback"  # so that feedback beside the submissions neither replaces them nor is marked itself


@dataclass(frozen=True, slots=True)
class Marked:
    """One submission: its report, or the reason why there is none."""

    path: Path
    report: Report | None
    error: str = ""


def submissions(paths: Iterable[Path]) -> list[Path]:
    """Files as they are, folders as the documents in them (hidden ones and results left out)."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"there is no file {str(path)!r}", "give a document, or a folder of them")
        if not path.is_dir():
            found.append(path)
            continue
        inside = [p for p in sorted(path.rglob("*")) if p.is_file() and p.suffix.lower() in SUFFIXES]
        inside = [p for p in inside if p.name != RESULTS and not p.stem.endswith(FEEDBACK)]
        inside = [p for p in inside if not any(part.startswith(".") for part in p.relative_to(path).parts)]
        if not inside:
            raise InputError(f"the folder {str(path)!r} has no documents", f"put {', '.join(sorted(SUFFIXES))} into it")
        found += inside
    return found


def mark_all(
    exercise: Exercise | None, paths: Iterable[Path], done: Callable[[Path], None] = lambda path: None
) -> Iterator[Marked]:
    """Each submission marked; what goes wrong with one is said of that one."""
    for path in paths:
        try:
            yield Marked(path, check(exercise, read_file(path)))
        except GlassError as error:
            yield Marked(path, None, str(error))
        except Exception as error:  # whatever it is, the others are marked
            yield Marked(path, None, f"it could not be judged ({type(error).__name__})")
        done(path)


def names(paths: Iterable[Path], form: str) -> dict[Path, str]:
    """One feedback file per submission, told apart by folder and ending where names are the same."""
    paths = list(paths)
    stems = [path.stem for path in paths]
    found: dict[Path, str] = {}
    for path in paths:
        stem = (
            path.stem
            if stems.count(path.stem) == 1
            else f"{path.parent.name}-{path.stem}{path.suffix.replace('.', '-')}"
        )
        name, number = f"{stem}{FEEDBACK}{SUFFIX[form]}", 2
        while name in found.values():
            name, number = f"{stem}-{number}{FEEDBACK}{SUFFIX[form]}", number + 1
        found[path] = name
    return found


def table(marked: Iterable[Marked], files: dict[Path, str]) -> str:
    """results.csv: submission, score, a count of each verdict, slips, what could not be read, the reason for none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["submission", "score", *VERDICTS, "slips", "unread", "feedback", "error"])
    for item in marked:
        report = item.report
        if report is None:
            empty = [""] * (len(VERDICTS) + 3)
            writer.writerow([_safe(str(item.path)), *empty, files[item.path], _safe(item.error)])
            continue
        counts = report.count()
        score = "" if report.score is None else f"{report.score:.4f}"
        slips = "; ".join(f"{slip.name} ({slip.where})" for slip in report.slips)
        writer.writerow(
            [
                _safe(str(item.path)),
                score,
                *(counts[v] for v in VERDICTS),
                slips,
                len(report.unread),
                files[item.path],
                "",
            ]
        )
    return out.getvalue()


def _safe(text: str) -> str:
    """A spreadsheet must not take a file's name for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text
