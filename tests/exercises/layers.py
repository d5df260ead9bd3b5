"""Homework about whole layers: rows and columns, one and two heads, masks, blocks; every document with its truth.

The numbers come from NumPy, not from the package, and the wrong ones are planted: one entry of V is changed, and
everything after it is computed with the changed entry.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.reader import read

Matrix = npt.NDArray[np.float64]
Cells = list[list[str]]

_SMALL = {"WQ": [[1, 0], [1, 1]], "WK": [[0, 1], [1, 0]], "WV": [[1, 1], [1, -1]]}
_FIRST = {
    "WQ": [[1, 0], [0, 1], [1, 0], [0, 0]],
    "WK": [[0, 1], [1, 0], [0, 0], [1, 1]],
    "WV": [[1, 0], [0, 1], [0, 1], [1, 0]],
}
_SECOND = {
    "WQ": [[0, 1], [1, 1], [0, 0], [1, 0]],
    "WK": [[1, 0], [0, 0], [0, 1], [0, 1]],
    "WV": [[0, 2], [1, 0], [1, 1], [0, 0]],
}
_HEADS = [_FIRST, _SECOND]
_WO = [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]]
_X = [[1, 0, 2, 1], [0, 1, 1, 0], [1, 1, 0, 2]]
_FFN = {"W1": [[1, 0, -1], [0, 1, 1], [1, -1, 0], [0, 1, 0]], "W2": [[1, 0, 0, 1], [0, 1, -1, 0], [1, 0, 1, 0]]}


def _turned(matrix: Any) -> Any:
    return np.transpose(matrix).tolist()


_TURNED = [{name: _turned(matrix) for name, matrix in head.items()} for head in _HEADS]
EXERCISES: dict[str, dict[str, Any]] = {
    "columns": {"layout": "columns", "X": [[1, 0, 2], [0, 1, 1]], "heads": [_SMALL]},
    "causal heads": {"X": _X, "heads": _HEADS, "WO": _WO, "mask": "causal"},
    "heads in columns": {"layout": "columns", "X": _turned(_X), "heads": _TURNED, "WO": _turned(_WO)},
    "block": {"X": _X, "heads": _HEADS, "WO": _WO, "residual": True, "layernorm": {"eps": 0.01}, "ffn": _FFN},
    "block in columns": {
        "layout": "columns", "X": [[1, 0, 2], [0, 1, 1]], "heads": [_SMALL], "mask": "causal", "scale": "none",
        "residual": True, "layernorm": {"eps": 0.01},
        "ffn": {"W1": [[1, -1], [0, 1], [1, 1]], "W2": [[1, 0, 1], [0, 1, -1]]},
    },
}  # fmt: skip
TITLES = {
    "Q": "Queries", "K": "Keys", "V": "Values", "S": "Scaled scores", "A": "Attention weights", "H": "Head output",
    "O": "Output of the attention layer", "R": "With the residual", "N": "Normalised", "F1": "First layer of the FFN",
    "G": "After ReLU", "F": "Second layer of the FFN", "RF": "Second residual", "NF": "Normalised again",
}  # fmt: skip


def solved(data: dict[str, Any], mistake: float = 0) -> dict[str, Matrix]:
    """Solve an exercise in NumPy; `mistake` is added to the first entry of the first head's values."""
    columns = data.get("layout") == "columns"

    def turn(matrix: Any) -> Matrix:
        made = np.array(matrix, dtype=float)
        return made.T if columns else made

    tokens, found, outputs = turn(data["X"]), {}, []
    for number, head in enumerate(data["heads"], 1):
        suffix = str(number) if len(data["heads"]) > 1 else ""
        Q, K, V = (tokens @ turn(head[name]) for name in ("WQ", "WK", "WV"))
        V[0, 0] += mistake if number == 1 else 0
        S = Q @ K.T * (1 if data.get("scale") == "none" else Q.shape[1] ** -0.5)
        S = np.where(np.tril(np.ones_like(S)) > 0, S, -np.inf) if data.get("mask") == "causal" else S
        A = np.exp(S - S.max(axis=1, keepdims=True))
        A /= A.sum(axis=1, keepdims=True)
        outputs.append(A @ V)
        found |= {symbol + suffix: matrix for symbol, matrix in zip("QKVSAH", (Q, K, V, S, A, A @ V), strict=True)}
    O = np.concatenate(outputs, axis=1)
    found["O"] = O = O @ turn(data["WO"]) if "WO" in data else O
    if "ffn" in data:
        eps = data["layernorm"]["eps"]
        found["R"] = tokens + O
        found["N"] = _normalised(found["R"], eps)
        found["F1"] = found["N"] @ turn(data["ffn"]["W1"])
        found["G"] = np.maximum(found["F1"], 0)
        found["F"] = found["G"] @ turn(data["ffn"]["W2"])
        found["RF"] = found["N"] + found["F"]
        found["NF"] = _normalised(found["RF"], eps)
    if len(outputs) == 1:
        del found["H"]  # it is O
    return {symbol: turn(matrix) for symbol, matrix in found.items()}


def _normalised(rows: Matrix, eps: float) -> Matrix:
    centred = rows - rows.mean(axis=1, keepdims=True)
    made: Matrix = centred / np.sqrt(rows.var(axis=1, keepdims=True) + eps)
    return made


def text(matrix: Matrix, digits: int) -> Cells:
    """Write a matrix as a student does: whole numbers without decimals, everything else to so many digits."""
    whole = all(np.isinf(x) or abs(x - round(x)) < 1e-9 for x in matrix.flat)

    def cell(x: float) -> str:
        return "-inf" if np.isinf(x) else str(round(x)) if whole else f"{x:.{digits}f}"

    return [[cell(x) for x in row] for row in matrix]


@dataclass
class Work:
    """The cells of a solution by symbol, and the layout and heads of the exercise."""

    cells: dict[str, Cells]
    columns: bool
    heads: int

    def head(self, number: int) -> dict[str, Cells]:
        suffix = str(number) if self.heads > 1 else ""
        return {symbol: self.cells[symbol + suffix] for symbol in "QKVSAH" if symbol + suffix in self.cells}

    @property
    def rest(self) -> dict[str, Cells]:
        return {symbol: cells for symbol, cells in self.cells.items() if symbol in TITLES and symbol not in "QKVSAH"}

    def sections(self) -> Iterator[tuple[str, dict[str, Cells]]]:
        """Yield a title for each head and for what comes after the heads."""
        for number in range(1, self.heads + 1):
            yield (f"Head {number}" if self.heads > 1 else "Attention"), self.head(number)
        yield "The whole layer", self.rest


FORMS: dict[str, Callable[[Work], str | bytes]] = {}


def form(name: str) -> Callable[[Callable[[Work], str | bytes]], Callable[[Work], str | bytes]]:
    """Register a form under the name of its file."""

    def register(function: Callable[[Work], str | bytes]) -> Callable[[Work], str | bytes]:
        FORMS[name] = function
        return function

    return register


def latex(cells: Cells, environment: str = "bmatrix") -> str:
    rows = r" \\ ".join(" & ".join(cell.replace("-inf", r"-\infty") for cell in row) for row in cells)
    return rf"\begin{{{environment}}} {rows} \end{{{environment}}}"


def indexed(symbol: str) -> str:
    if symbol in ("RF", "NF"):
        return f"{symbol[0]}_F"
    return f"{symbol[0]}_{symbol[1]}" if len(symbol) == 2 and symbol[1].isdigit() else symbol


@form("display.md")
def _display(work: Work) -> str:
    return "\n\n".join(f"$${indexed(symbol)} = {latex(cells)}$$" for symbol, cells in work.cells.items())


@form("align.tex")
def _align(work: Work) -> str:
    out = ""
    for title, part in work.sections():
        rows = " \\\\\n".join(f"{indexed(symbol)} &= {latex(cells, 'pmatrix')}" for symbol, cells in part.items())
        out += f"\\paragraph{{{title}}}\n\\begin{{align}}\n{rows}\n\\end{{align}}\n"
    return out


@form("superscripts.tex")
def _superscripts(work: Work) -> str:
    names = {s: f"{s[0]}^{{({s[1]})}}" if s[1:].isdigit() and s != "F1" else indexed(s) for s in work.cells}
    return "\n".join(rf"\[ {names[symbol]} = {latex(cells)} \]" for symbol, cells in work.cells.items())


@form("tables.md")
def _tables(work: Work) -> str:
    out = "# Homework 4\n\nAda Okafor, TU Delft, 12 March 2025, page 1 of 2\n\n"
    for title, part in work.sections():
        out += f"## {title}\n\n"
        for symbol, cells in part.items():
            head = "|" + "  |" * len(cells[0]) + "\n|" + "---|" * len(cells[0])
            rows = "\n".join("| " + " | ".join(row) + " |" for row in cells)
            out += f"{TITLES[symbol]} {indexed(symbol)}:\n\n{head}\n{rows}\n\n"
    return out


@form("plain.txt")
def _plain(work: Work) -> str:
    out = "Hi,\n\nmy solution:\n\n"
    for title, part in work.sections():
        out += f"--- {title.upper()} ---\n"
        out += "".join(f"{symbol} = [{'; '.join(' '.join(row) for row in cells)}]\n" for symbol, cells in part.items())
    return out + "\nThanks!\nSam\n"


@form("german.txt")
def _german(work: Work) -> str:
    out = "Übungsblatt 5, Aufgabe 3 (Abgabe 21.11.2024)\n\n"
    for symbol, cells in work.cells.items():
        rows = "\n".join("( " + " ; ".join(row).replace(".", ",") + " )" for row in cells)
        out += f"{symbol}:\n{rows}\n\n"
    return out


@form("numpy.txt")
def _numpy(work: Work) -> str:
    return "\n".join(
        f">>> {symbol}\n[[" + "]\n [".join(" ".join(row) for row in cells) + "]]"
        for symbol, cells in work.cells.items()
    )


@form("matlab.txt")
def _matlab(work: Work) -> str:
    return "".join(
        f">> {symbol}\n\n{symbol} =\n\n" + "\n".join("".join(f"{cell:>10}" for cell in row) for row in cells) + "\n\n"
        for symbol, cells in work.cells.items()
    )


@form("julia.txt")
def _julia(work: Work) -> str:
    out = ""
    for symbol, cells in work.cells.items():
        kind = "Float64" if "." in cells[0][0] else "Int64"
        rows = "\n".join(" " + "  ".join(f"{cell:>7}" for cell in row) for row in cells)
        out += f"julia> {symbol}\n{len(cells)}×{len(cells[0])} Matrix{{{kind}}}:\n{rows}\n\n"
    return out


@form("r.txt")
def _r(work: Work) -> str:
    out = ""
    for symbol, cells in work.cells.items():
        head = "     " + "".join(f"{f'[,{k + 1}]':>8}" for k in range(len(cells[0])))
        rows = "\n".join(f"[{k + 1},] " + "".join(f"{cell:>8}" for cell in row) for k, row in enumerate(cells))
        out += f"> {symbol}\n{head}\n{rows}\n"
    return out


@form("mathematica.txt")
def _mathematica(work: Work) -> str:
    return "\n".join(
        f"In[{k}]:= {symbol}\nOut[{k}]= {{{', '.join('{' + ', '.join(row) + '}' for row in cells)}}}\n".replace(
            "-inf", "-Infinity"
        )
        for k, (symbol, cells) in enumerate(work.cells.items(), 1)
    )


@form("word.txt")
def _linear_format(work: Work) -> str:
    return "\n".join(
        f"{indexed(symbol)}=[■({'@'.join('&'.join(row) for row in cells)})]".replace("-inf", "-∞")
        for symbol, cells in work.cells.items()
    )


@form("source.typ")
def _typst(work: Work) -> str:
    return "= Homework\n" + "".join(
        f'$ {indexed(symbol)} = mat(delim: "[", {"; ".join(", ".join(row) for row in cells)}) $\n\n'.replace(
            "-inf", "-infinity"
        )
        for symbol, cells in work.cells.items()
    )


@form("tables.html")
def _html(work: Work) -> str:
    out = "<!doctype html><meta charset='utf-8'><h1>Homework</h1>"
    for title, part in work.sections():
        out += f"<h2>{title}</h2>"
        for symbol, cells in part.items():
            rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
            out += f"<h3>{TITLES[symbol]} {symbol}</h3><table>{rows}</table>".replace("-inf", "−∞")
    return out


@form("formulas.html")
def _mathml(work: Work) -> str:
    out = "<!doctype html><meta charset='utf-8'>"
    for symbol, cells in work.cells.items():
        name, _, index = indexed(symbol).partition("_")
        label = f"<msub><mi>{name}</mi><mi>{index}</mi></msub>" if index else f"<mi>{name}</mi>"
        rows = "".join("<mtr>" + "".join(f"<mtd>{_mn(cell)}</mtd>" for cell in row) + "</mtr>" for row in cells)
        out += f"<p><math>{label}<mo>=</mo><mrow><mo>[</mo><mtable>{rows}</mtable><mo>]</mo></mrow></math></p>"
    return out


def _mn(cell: str) -> str:
    sign = "<mo>−</mo>" if cell.startswith("-") else ""
    return sign + ("<mi>∞</mi>" if cell == "-inf" else f"<mn>{cell.lstrip('-')}</mn>")


@form("torch.ipynb")
def _notebook(work: Work) -> str:
    cells: list[dict[str, Any]] = []
    for title, part in work.sections():
        cells.append({"cell_type": "markdown", "metadata": {}, "source": f"## {title}"})
        for symbol, rows in part.items():
            inside = ",\n        ".join("[" + ", ".join(row) + "]" for row in rows)
            output = {"output_type": "execute_result", "execution_count": 1, "metadata": {},
                      "data": {"text/plain": f"tensor([{inside}])"}}  # fmt: skip
            code = {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": symbol, "outputs": [output]}
            cells.append(code)
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells})


@form("side.csv")
def _csv(work: Work) -> str:
    """Matrices with as many rows are side by side, an empty column between them."""
    bands: dict[int, list[str]] = {}
    for symbol, cells in work.cells.items():
        bands.setdefault(len(cells), []).append(symbol)
    out = ""
    for height, symbols in bands.items():
        for k in range(-1, height):
            parts = [[s, *[""] * (len(work.cells[s][0]) - 1)] if k < 0 else work.cells[s][k] for s in symbols]
            out += ",,".join(",".join(part) for part in parts) + "\n"
        out += "\n"
    return out


@form("sheets.xlsx")
def _xlsx(work: Work) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, part in work.sections():
        sheet = book.create_sheet(title)
        for symbol, cells in part.items():
            sheet.append([symbol])
            for row in cells:
                sheet.append([cell if cell == "-inf" else float(cell) if "." in cell else int(cell) for cell in row])
            sheet.append([])
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


@form("tables.docx")
def _docx(work: Work) -> bytes:
    import docx

    document = docx.Document()
    for title, part in work.sections():
        document.add_heading(title, 2)
        for symbol, cells in part.items():
            document.add_paragraph(f"{TITLES[symbol]} {symbol}:")
            table = document.add_table(len(cells), len(cells[0]))
            for row, written in zip(table.rows, cells, strict=True):
                for cell, number in zip(row.cells, written, strict=True):
                    cell.text = number.replace("-inf", "−∞")
    data = io.BytesIO()
    document.save(data)
    return data.getvalue()


@form("equations.docx")
def _equations(work: Work) -> bytes:
    import docx
    from docx.oxml import parse_xml

    namespace = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    document = docx.Document()
    for symbol, cells in work.cells.items():
        name, _, index = indexed(symbol).partition("_")
        label = f"<m:sSub><m:e>{_run(name)}</m:e><m:sub>{_run(index)}</m:sub></m:sSub>" if index else _run(name)
        rows = "".join("<m:mr>" + "".join(f"<m:e>{_run(cell)}</m:e>" for cell in row) + "</m:mr>" for row in cells)
        matrix = f'<m:d><m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr><m:e><m:m>{rows}</m:m></m:e></m:d>'
        paragraph = document.add_paragraph()
        paragraph._p.append(parse_xml(f"<m:oMath {namespace}>{label}{_run('=')}{matrix}</m:oMath>"))
    data = io.BytesIO()
    document.save(data)
    return data.getvalue()


def _run(words: str) -> str:
    return f"<m:r><m:t>{words.replace('-inf', '-∞')}</m:t></m:r>"


@form("vectors.md")
def _vectors(work: Work) -> str:
    """Queries, keys and values by token, then a line for each query with its scores, weights and output."""
    out = ""
    for title, part in work.sections():
        out += f"### {title}\n\n"
        vectors = {symbol: _vectors_of(cells, work.columns) for symbol, cells in part.items()}
        if title == "The whole layer":
            out += "\n\n".join(f"$${indexed(symbol)} = {latex(cells)}$$" for symbol, cells in part.items())
            continue
        for symbol in "QKV":
            shown = (f"${symbol.lower()}_{k} = ({', '.join(v)})$" for k, v in enumerate(vectors[symbol], 1))
            out += ", ".join(shown) + "\n\n"
        for k in range(len(vectors["S"])):
            scores, weights = (", ".join(vectors[s][k]).replace("-inf", r"-\infty") for s in "SA")
            out += f"Query {k + 1}: scaled scores $({scores})$, softmax $({weights})$"
            out += f", output $h_{k + 1} = ({', '.join(vectors['H'][k])})$.\n\n" if "H" in vectors else ".\n\n"
    return out


def _vectors_of(cells: Cells, columns: bool) -> Cells:
    return [list(column) for column in zip(*cells, strict=True)] if columns else cells


@dataclass
class Outcome:
    """One graded document: how many numbers were found, and every verdict or cell that is not the truth."""

    cells: int = 0
    found: int = 0
    false: list[str] = field(default_factory=list)
    graded: Grade | None = None


@cache
def exercise_of(name: str) -> Exercise:
    return from_data(EXERCISES[name])


def outcome(form_name: str, exercise: str, *, mistake: float = 0, digits: int = 4) -> Outcome:
    """Write the homework in a form, and grade it."""
    data = EXERCISES[exercise]
    cells = {symbol: text(matrix, digits) for symbol, matrix in solved(data, mistake).items()}
    document = FORMS[form_name](Work(cells, data.get("layout") == "columns", len(data["heads"])))
    return compare(exercise, document, form_name, mistake=mistake, digits=digits)


def compare(exercise: str, document: str | bytes, name: str, *, mistake: float = 0, digits: int = 4) -> Outcome:
    """Grade a document that has the whole solution, and compare every cell with the truth."""
    data = EXERCISES[exercise]
    cells = {symbol: text(matrix, digits) for symbol, matrix in solved(data, mistake).items()}
    graded = grade(exercise_of(exercise), read(document, name))
    made = Outcome(sum(len(rows) * len(rows[0]) for rows in cells.values()), graded=graded)
    planted = ("V1" if len(data["heads"]) > 1 else "V", 1, 1) if mistake else None
    truth = {
        (symbol, i, j): cell
        for symbol, rows in cells.items()
        for i, row in enumerate(rows, 1)
        for j, cell in enumerate(row, 1)
    }
    for cell in graded.cells:
        place = ("O" if cell.symbol == "H" and len(data["heads"]) == 1 else cell.symbol, cell.row, cell.column)
        if cell.given is None:
            continue
        right = cell.verdict == "wrong" if place == planted else cell.verdict in ("right", "follows")
        same = place in truth and _number(cell.given) == _number(truth[place])
        made.found += same
        if not right or not same:
            made.false.append(f"{place}: {cell.given} is {cell.verdict}, {truth.get(place)} was written")
    return made


def _number(written: str) -> float:
    return float(written.replace("−", "-").replace("∞", "inf"))
