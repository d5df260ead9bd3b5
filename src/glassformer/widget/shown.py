"""`gf.show(x)`: an exercise, a grade or a run in a notebook."""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade import Grade
from glassformer.exercises.solution import Solution, solve
from glassformer.templates import render

if TYPE_CHECKING:
    from glassformer.lens import Run
    from glassformer.report import Report


@dataclass(frozen=True)
class Shown:
    """The result of `gf.show`. A notebook displays the static page, or the live page instead where that is possible.

    `html` is the self-contained page, `save("page.html")` writes it; `widget` is the anywidget, for notebooks that
    need the widget object, or None if anywidget is not installed.
    """

    title: str
    html: str = field(repr=False)
    """The static page: self-contained, without scripts or requests."""
    _address: Callable[[], str] = field(repr=False)
    _id: str = field(default_factory=lambda: f"glassformer-{uuid.uuid4().hex[:12]}", repr=False)

    @cached_property
    def widget(self) -> Any:
        """The live page as an anywidget; None if anywidget is not installed (the extra `notebook`)."""
        try:
            from glassformer.widget.live import Workbench
        except ImportError:
            return None
        return Workbench(self._address(), self._id)

    def save(self, path: str | Path) -> Path:
        """Write the static page to an .html file."""
        path = Path(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"a page cannot be saved as {path.name!r}", "end the name in .html")
        try:
            path.write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path} cannot be written ({error.strerror})", "choose another place") from None
        return path

    def _repr_html_(self) -> str:
        return f'<div id="{self._id}">{render("frame.html", page=self.html, title=self.title)}</div>'

    def _ipython_display_(self) -> None:
        """Display the static page, then the widget, which hides it once the kernel has answered.

        These are two outputs: with a single one, a saved notebook without a kernel would show only a missing widget.
        """
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        display({"text/html": self._repr_html_(), "text/plain": repr(self)}, raw=True)
        if getattr(get_ipython(), "kernel", None) is not None and self.widget is not None:
            display(self.widget)


def show(
    x: Exercise | Solution | Grade | Report | Run | Mapping[str, Any] | str | Path,
    *,
    tokens: Sequence[str] | None = None,
) -> Shown:
    """Show an exercise, a grade or a run in a notebook.

    An exercise is a name, a YAML file, its data or a Solution; a grade is the result of `gf.check`; a run is a report
    of `gf.look` or a trace of `gf.trace`, whose positions `tokens` names.

    >>> gf.show("four-tokens").save("exercise.html")
    PosixPath('exercise.html')
    """
    if tokens is not None and type(x).__name__ != "Run":
        raise InputError("tokens are only for a trace", "leave them out")
    if isinstance(x, Grade):
        return _grade(x)
    if isinstance(x, Solution):
        return _exercise(x)
    if isinstance(x, Exercise | str | Path):
        return _exercise(solve(x))
    if isinstance(x, Mapping):
        from glassformer.exercises.exercise import from_data

        return _exercise(solve(from_data(dict(x))))
    return _run(x, tokens)


def _exercise(solution: Solution) -> Shown:
    from glassformer.exercises.solution import render as written
    from glassformer.report.paper import to_data

    address = f"#/paper?x={pack(to_data(solution.exercise))}"
    return Shown(solution.exercise.title, written(solution, "html"), lambda: address)


def _grade(grade: Grade) -> Shown:
    from glassformer.report.paper import to_data

    address = "#/check"
    if grade.exercise is not None:
        work = {"text": grade.document} if grade.document else {"answers": _answers(grade)}
        address += f"?x={pack(to_data(grade.exercise))}&a={pack(work)}"
    return Shown(f"Grade of {grade.name}", grade.render("html"), lambda: address)


def _answers(grade: Grade) -> dict[str, list[list[str]]]:
    """Return the cells that were filled in, in the form of the grids of the Check room."""
    made: dict[str, list[list[str]]] = {}
    for symbol in grade.symbols():
        cells = [cell for cell in grade.cells if cell.symbol == symbol]
        rows, columns = max(cell.row for cell in cells), max(cell.column for cell in cells)
        made[symbol] = [[""] * columns for _ in range(rows)]
        for cell in cells:
            made[symbol][cell.row - 1][cell.column - 1] = cell.given or ""
    return made


def _run(x: Any, tokens: Sequence[str] | None) -> Shown:
    from glassformer.lens import Run
    from glassformer.report import Report

    if isinstance(x, Run):
        from glassformer.report.recorded_run import RecordedRun

        recorded = RecordedRun(x, tokens)
        report = recorded.report()
        return Shown(report.title, report.html(), lambda: _opened("trace", recorded, None))
    if not isinstance(x, Report):
        kinds = "an exercise, a Solution, a Grade, a Report or a trace"
        raise InputError(f"a {type(x).__name__} cannot be shown", f"give {kinds}")

    def address() -> str:
        from glassformer.report.model import Look, given_from

        if x.run is None:
            return "#/model"
        model, inputs = x.run
        name = type(model).__name__
        return _opened(name, Look(name, model, given_from(inputs)), model)

    return Shown(x.title, x.html(), address)


def _opened(name: str, look: Any, model: Any) -> str:
    from glassformer.widget.engine import engine

    return f"#/model/{name}?look={engine().models.add(name, look, model)}"


def pack(data: Any) -> str:
    """Encode data as deflated JSON in base64url, as in the addresses of the page."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = squeeze.compress(json.dumps(data, ensure_ascii=False).encode()) + squeeze.flush()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")
