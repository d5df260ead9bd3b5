"""Homework in the forms that students use, made for any exercise with one head, with known right and wrong cells.

Each form is a function that writes a document through a `Paper`, which hands out the numbers and remembers which cells
were written. `measure` grades a document and compares every cell with what was written. Run it as a script for a table
of all forms: python tests/exercises/homework.py
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from glassformer.errors import GlassError
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.grade import Cell, Grade, grade
from glassformer.exercises.numbers import Masked
from glassformer.exercises.reader import read
from glassformer.exercises.solution import Solution, solve

ORDINALS = ("first", "second", "third", "fourth", "fifth")
Place = tuple[str, int, int]


@cache
def solutions() -> dict[str, Solution]:
    """The exercises that the forms are written for: three and four tokens, negative entries, a causal mask."""
    small = {
        "labels": ["the", "cat", "sat"],
        "X": [[1, 0, 2], [0, 1, 1], [2, 1, 0]],
        "heads": [{"WQ": [[1, 0], [0, 1], [1, 0]], "WK": [[0, 1], [1, 0], [1, 1]], "WV": [[1, 2], [0, 1], [1, 0]]}],
    }
    four = {
        "labels": ["we", "saw", "the", "sea"],
        "X": [[1, 2], [0, -1], [1, 1], [2, 0]],
        "heads": [{"WQ": [[1, 0, 1], [0, 1, 0]], "WK": [[0, 1, 0], [1, -1, 1]], "WV": [[1, 0, 2], [-1, 1, 0]]}],
    }
    masked = {
        "labels": ["go", "slow", "home"],
        "X": [[1, 0], [0, 1], [1, 1]],
        "heads": [{"WQ": [[1, 0], [0, 2]], "WK": [[1, 1], [0, 1]], "WV": [[2, 0], [0, 1]]}],
        "scale": "1/sqrt(dk)",
        "mask": "causal",
    }
    return {name: solve(from_data(data)) for name, data in (("small", small), ("four", four), ("masked", masked))}


@dataclass
class Paper:
    """The numbers of a solution as a student writes them; every number handed out is remembered."""

    solution: Solution
    digits: int = 3
    mistakes: int = 0
    seed: int = 0
    written: dict[Place, float] = field(default_factory=dict)
    wrong: set[Place] = field(default_factory=set)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        cells = ((s, *cell) for s in "SAO" for cell in self.solution[s].cells())
        places = [(s, i, j) for s, i, j, x in cells if not isinstance(x, Masked)]
        self.wrong = set(rng.sample(places, self.mistakes))

    @property
    def exercise(self) -> Exercise:
        return self.solution.exercise

    @property
    def labels(self) -> tuple[str, ...]:
        return self.exercise.labels

    @property
    def tokens(self) -> range:
        return range(len(self.labels))

    def cell(self, symbol: str, i: int, j: int) -> str:
        x = self.solution[symbol][i, j]
        if isinstance(x, Masked):
            self.written[symbol, i, j] = float("-inf")
            return "-inf"
        whole = all(isinstance(y, Masked) or _whole(y) for _, _, y in self.solution[symbol].cells())
        text = x.decimal(0) if whole else x.decimal(self.digits)
        if (symbol, i, j) in self.wrong:
            text = f"{float(text) + (0.21 if float(text) < 0.5 else -0.32):.{self.digits}f}"
        self.written[symbol, i, j] = float(text)
        return text

    def row(self, symbol: str, i: int) -> list[str]:
        return [self.cell(symbol, i, j) for j in range(self.solution[symbol].shape[1])]

    def all(self, symbol: str) -> list[list[str]]:
        return [self.row(symbol, i) for i in range(self.solution[symbol].shape[0])]


def _whole(x: object) -> bool:
    q = x.rational()  # type: ignore[attr-defined]
    return q is not None and q.q == 1


Form = Callable[[Paper], str | bytes]
FORMS: dict[str, tuple[str, Form]] = {}


def form(extension: str) -> Callable[[Form], Form]:
    """Register a form under its function's name, with the extension of its file."""

    def register(write: Form) -> Form:
        FORMS[write.__name__] = (extension, write)
        return write

    return register


# -- LaTeX and Markdown ------------------------------------------------------------------------------------------------


def tex(rows: list[list[str]], environment: str = "bmatrix") -> str:
    body = r" \\ ".join(" & ".join(cell.replace("-inf", r"-\infty") for cell in row) for row in rows)
    return rf"\begin{{{environment}}} {body} \end{{{environment}}}"


@form("md")
def markdown_matrices(p: Paper) -> str:
    lines = [f"$${s} = {tex(p.all(s))}$$" for s in "QKVSAO"]
    return "# Homework 3\n\nJane Doe, 12 May 2026\n\n" + "\n\n".join(lines) + "\n"


@form("tex")
def latex_article(p: Paper) -> str:
    table = " \\\\\n".join(f"$x_{i + 1}$ & " + " & ".join(p.row("A", i)) for i in p.tokens)
    columns = "c" * (len(p.labels) + 1)
    head = " & ".join(f"$x_{j + 1}$" for j in p.tokens)
    return rf"""\documentclass[11pt]{{article}}
\usepackage{{amsmath}}
\begin{{document}}
\section{{Projections}}
\begin{{align}}
Q &= XW_Q = {tex(p.all("Q"), "pmatrix")} \\
K &= XW_K = {tex(p.all("K"), "pmatrix")} \\
V &= XW_V = {tex(p.all("V"), "pmatrix")}
\end{{align}}
\section{{Scores}}
With $d_k$ the width of a key,
\[ S = \frac{{QK^\top}}{{\sqrt{{d_k}}}} = {tex(p.all("S"), "pmatrix")}. \]
The attention weights are in table 1.
\begin{{tabular}}{{{columns}}}
 & {head} \\ \hline
{table} \\
\end{{tabular}}

\section{{Output}}
\[ O = AV = {tex(p.all("O"), "pmatrix")} \]
\end{{document}}
"""


@form("md")
def column_vectors(p: Paper) -> str:
    lines = []
    for s in "QKV":
        lines.append("$" + r",\quad ".join(f"{s.lower()}_{i + 1} = {tex([[c] for c in p.row(s, i)], 'pmatrix')}"
                                          for i in p.tokens) + "$")  # fmt: skip
    for i in p.tokens:
        lines.append(rf"$s_{i + 1} = ({', '.join(p.row('S', i))})$ and $a_{i + 1} = ({', '.join(p.row('A', i))})$")
        lines.append(rf"$$o_{i + 1} = \sum_j a_{{{i + 1}j}} v_j = ({', '.join(p.row('O', i))})^\top$$")
    return "\n\n".join(lines).replace("-inf", r"-\infty") + "\n"


@form("md")
def energies(p: Paper) -> str:
    lines = [r"Let $e_{ij} = q_i^T k_j/\sqrt{d_k}$ be the energies and $\alpha_{ij}$ the weights.", ""]
    for i in p.tokens:
        lines.append(r"$$" + r",\quad ".join(f"e_{{{i + 1}{j + 1}}} = {p.cell('S', i, j)}" for j in p.tokens) + "$$")
        lines.append(r"$$" + r",\ ".join(rf"\alpha_{{{i + 1},{j + 1}}} = {p.cell('A', i, j)}" for j in p.tokens) + "$$")
        lines.append(rf"$$c_{i + 1} = ({', '.join(p.row('O', i))})$$")
    return "\n\n".join(lines).replace("-inf", r"-\infty") + "\n"


@form("md")
def markdown_tables(p: Paper) -> str:
    def table(corner: str, s: str) -> str:
        heads = [f"k{j + 1}" for j in p.tokens]
        lines = [f"| {corner} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        return "\n".join([*lines, *(f"| q{i + 1} | " + " | ".join(p.row(s, i)) + " |" for i in p.tokens)])

    outputs = "\n".join(f"| {i + 1} | ({', '.join(p.row('O', i))}) |" for i in p.tokens)
    return (
        f"## Scaled scores\n\n{table('', 'S')}\n\n## Attention weights (softmax of every row)\n\n{table('', 'A')}\n\n"
        f"## Outputs\n\n| token | output |\n|---|---|\n{outputs}\n"
    )


@form("md")
def projections_table(p: Paper) -> str:
    rows = [f"| {i + 1} | " + " | ".join(f"({', '.join(p.row(s, i))})" for s in "QKV") + " |" for i in p.tokens]
    return (
        "| token | q | k | v |\n|---|---|---|---|\n" + "\n".join(rows)
        + "\n\nThe scores are\n\n$$" + tex(p.all("S")) + "$$\n\nand after softmax\n\n$$" + tex(p.all("A"))
        + "$$\n\nso that finally\n\n$$" + tex(p.all("O")) + "$$\n"
    )  # fmt: skip


@form("md")
def decimal_comma_latex(p: Paper) -> str:
    return "\n\n".join(f"$${s} = {tex(p.all(s), 'pmatrix').replace('.', ',')}$$" for s in "SAO") + "\n"


@form("tex")
def decimal_comma_braces(p: Paper) -> str:
    return "\n\n".join(rf"\[{s} = {tex(p.all(s), 'pmatrix').replace('.', '{,}')}\]" for s in "SAO") + "\n"


@form("md")
def cases(p: Paper) -> str:
    lines = []
    for i in p.tokens:
        body = r" \\ ".join(f"{p.cell('A', i, j)} & j = {j + 1}" for j in p.tokens)
        lines.append(rf"$$a_{{{i + 1}j}} = \begin{{cases}} {body} \end{{cases}}$$")
        lines.append(rf"$$o_{i + 1} = ({', '.join(p.row('O', i))})$$")
    return "\n\n".join(lines) + "\n"


@form("md")
def weighted_sums(p: Paper) -> str:
    lines = []
    for i in p.tokens:
        terms = " + ".join(f"{p.cell('A', i, j)} \\cdot ({', '.join(p.row('V', j))})" for j in p.tokens)
        lines.append(f"$$z_{i + 1} = {terms} = ({', '.join(p.row('O', i))})$$")
    return "\n\n".join(lines) + "\n"


# -- plain text --------------------------------------------------------------------------------------------------------


def vector(cells: list[str], brackets: str = "()") -> str:
    return brackets[0] + ", ".join(cells) + brackets[1]


@form("txt")
def email(p: Paper) -> str:
    lines = ["Dear Prof. Miller,", "", "sorry for the delay, my working for sheet 2 is below.", ""]
    for s in "QKV":
        lines.append(", ".join(f"{s.lower()}{i + 1} = {vector(p.row(s, i))}" for i in p.tokens))
    lines += ["", "Scores (scaled):"] + [f"  token {i + 1}: {vector(p.row('S', i))}" for i in p.tokens]
    lines += ["", "Attention:"] + [f"  token {i + 1}: {vector(p.row('A', i))}" for i in p.tokens]
    lines += ["", "Results:"] + [f"  token {i + 1}: {vector(p.row('O', i))}" for i in p.tokens]
    return "\n".join([*lines, "", "Kind regards,", "Ann-Sophie (12345678)", ""])


@form("txt")
def per_token_prose(p: Paper) -> str:
    lines = []
    for i in p.tokens:
        lines.append(
            f"For token {i + 1} the scores are {listed(p.row('S', i))}. After the softmax they become "
            f"{listed(p.row('A', i))}. The output of token {i + 1} is therefore {vector(p.row('O', i))}."
        )
    return "\n\n".join(lines) + "\n"


def listed(cells: list[str]) -> str:
    return ", ".join(cells[:-1]) + " and " + cells[-1]


@form("txt")
def ordinal_words(p: Paper) -> str:
    lines = []
    for s, noun in (("Q", "query"), ("K", "key"), ("V", "value")):
        parts = [f"the {noun} of the {ORDINALS[i]} token is {vector(p.row(s, i))}" for i in p.tokens]
        lines.append(parts[0][0].upper() + listed(parts)[1:] + ".")
    for i in p.tokens:
        parts = [f"{p.cell('A', i, j)} to the {ORDINALS[j]} token" for j in p.tokens]
        lines.append(f"The {ORDINALS[i]} token gives {listed(parts)}.")
    parts = [f"the output of the {ORDINALS[i]} token is {vector(p.row('O', i))}" for i in p.tokens]
    return "\n".join([*lines, f"Hence {listed(parts)}."]) + "\n"


@form("txt")
def token_names(p: Paper) -> str:
    lines = [f"Tokens: {', '.join(p.labels)}."]
    for i, name in enumerate(p.labels):
        lines += [f'"{name}" attends to "{other}" with {p.cell("A", i, j)}.' for j, other in enumerate(p.labels)]
    lines += [f'The output for "{name}" is {vector(p.row("O", i), "[]")}.' for i, name in enumerate(p.labels)]
    return "\n".join(lines) + "\n"


@form("txt")
def token_names_plain(p: Paper) -> str:
    lines = []
    for i, name in enumerate(p.labels):
        parts = [f"{other} with {p.cell('A', i, j)}" for j, other in enumerate(p.labels)]
        lines.append(f"Token {name} attends to {listed(parts)}.")
        lines.append(f"Output of {name}: {vector(p.row('O', i))}")
    return "\n".join(lines) + "\n"


@form("txt")
def token_arrows(p: Paper) -> str:
    lines = ["attention weights:"]
    for i, name in enumerate(p.labels):
        lines += [f"{name} -> {other}: {p.cell('A', i, j)}" for j, other in enumerate(p.labels)]
    lines += ["outputs:", *(f"{name}: {vector(p.row('O', i))}" for i, name in enumerate(p.labels))]
    return "\n".join(lines) + "\n"


@form("txt")
def score_calls(p: Paper) -> str:
    lines = []
    for i in p.tokens:
        lines += [f"score(q{i + 1}, k{j + 1}) = {p.cell('S', i, j)}" for j in p.tokens]
        lines.append(f"softmax -> {vector(p.row('A', i), '[]')}")
        lines += [f"z{i + 1} = {vector(p.row('O', i), '[]')}", ""]
    return "\n".join(lines)


@form("txt")
def score_words(p: Paper) -> str:
    lines = []
    for i in p.tokens:
        lines += [f"Score between query {i + 1} and key {j + 1}: {p.cell('S', i, j)}" for j in p.tokens]
    for i in p.tokens:
        lines.append(f"Weights of query {i + 1}: " + ", ".join(p.row("A", i)))
    lines += [f"Context vector {i + 1}: {vector(p.row('O', i), '[]')}" for i in p.tokens]
    return "\n".join(lines) + "\n"


@form("txt")
def dot_products(p: Paper) -> str:
    lines = []
    for i in p.tokens:
        lines += [f"q{i + 1} . k{j + 1} / sqrt(d_k) = {p.cell('S', i, j)}" for j in p.tokens]
        lines.append(f"softmax(s{i + 1}) = {vector(p.row('A', i), '[]')}")
        lines.append(f"out{i + 1} = {vector(p.row('O', i), '[]')}")
    return "\n".join(lines) + "\n"


@form("txt")
def softmax_of_lists(p: Paper) -> str:
    lines = [f"softmax({vector(p.row('S', i), '[]')}) = {vector(p.row('A', i), '[]')}" for i in p.tokens]
    return "\n".join(lines) + "\n"


@form("txt")
def softmax_arrows(p: Paper) -> str:
    lines = [f"token {i + 1}: softmax{vector(p.row('S', i))} -> {vector(p.row('A', i))} -> output "
             f"{vector(p.row('O', i))}" for i in p.tokens]  # fmt: skip
    return "\n".join(lines) + "\n"


@form("txt")
def italian(p: Paper) -> str:
    def line(cells: list[str]) -> str:
        return "[" + "; ".join(cells).replace(".", ",") + "]"

    lines = ["Esercizio 2", ""]
    lines += [f"Punteggi del token {i + 1}: {line(p.row('S', i))}" for i in p.tokens]
    lines += [f"Pesi di attenzione del token {i + 1}: {line(p.row('A', i))}" for i in p.tokens]
    lines += [f"Uscita del token {i + 1}: {line(p.row('O', i))}" for i in p.tokens]
    return "\n".join(lines) + "\n"


@form("txt")
def german(p: Paper) -> str:
    def line(cells: list[str]) -> str:
        return "(" + " | ".join(cells).replace(".", ",") + ")"

    lines = ["Aufgabe 2, Übung 5"]
    for i in p.tokens:
        lines.append(f"Gewichte für Token {i + 1}: {line(p.row('A', i))}")
        lines.append(f"Ausgabe für Token {i + 1}: {line(p.row('O', i))}")
    return "\n".join(lines) + "\n"


@form("txt")
def french(p: Paper) -> str:
    lines = ["Exercice 2"]
    for i in p.tokens:
        cells = " ; ".join(p.row("A", i)).replace(".", ",")
        lines.append(f"Poids d'attention du token {i + 1} : ({cells})")
        cells = " ; ".join(p.row("O", i)).replace(".", ",")
        lines.append(f"Sortie du token {i + 1} : ({cells})")
    return "\n".join(lines) + "\n"


@form("txt")
def spanish(p: Paper) -> str:
    lines = ["Ejercicio 2"]
    for i in p.tokens:
        lines.append(f"Pesos de atención del token {i + 1}: {vector(p.row('A', i), '[]')}")
        lines.append(f"Salida del token {i + 1}: {vector(p.row('O', i), '[]')}")
    return "\n".join(lines) + "\n"


@form("txt")
def percentages(p: Paper) -> str:
    lines = []
    for i in p.tokens:
        cells = [f"{100 * float(c):.{max(0, p.digits - 2)}f} %" for c in p.row("A", i)]
        lines.append(f"Attention weights of token {i + 1}: {', '.join(cells)}")
        lines.append(f"Output of token {i + 1}: {vector(p.row('O', i))}")
    return "\n".join(lines) + "\n"


@form("txt")
def tolerances(p: Paper) -> str:
    unit = f"{10.0**-p.digits:.{p.digits}f}"
    lines = []
    for i in p.tokens:
        lines += [f"a_{i + 1}{j + 1} = {p.cell('A', i, j)} ± {unit}" for j in p.tokens]
        lines.append(f"o_{i + 1} = {vector(p.row('O', i))}")
    return "\n".join(lines) + "\n"


@form("txt")
def unicode_subscripts(p: Paper) -> str:
    sub = str.maketrans("123456789", "₁₂₃₄₅₆₇₈₉")
    lines = []
    for s in "QKV":
        lines += [f"{s.lower()}{i + 1}".translate(sub) + f" = {vector(p.row(s, i))}ᵀ" for i in p.tokens]
    for i in p.tokens:
        lines += [f"α{i + 1}{j + 1}".translate(sub) + f" = {p.cell('A', i, j)}" for j in p.tokens]
        lines.append(f"z{i + 1}".translate(sub) + f" = {vector(p.row('O', i))}")
    return "\n".join(lines) + "\n"


@form("txt")
def ascii_brackets(p: Paper) -> str:
    blocks = []
    for s in "QKVSAO":
        rows = p.all(s)
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        middle = (len(rows) - 1) // 2
        for i, row in enumerate(rows):
            lead = f"{s} = " if i == middle else "    "
            blocks.append(lead + "| " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) + " |")
        blocks.append("")
    return "\n".join(blocks)


@form("txt")
def headings_and_rows(p: Paper) -> str:
    titles = {"Q": "Queries", "K": "Keys", "V": "Values", "S": "Scaled scores", "A": "Attention weights", "O": "Output"}
    return "\n\n".join(f"{titles[s]}:\n" + "\n".join("  ".join(row) for row in p.all(s)) for s in titles) + "\n"


@form("txt")
def semicolon_rows(p: Paper) -> str:
    return "\n".join(f"{s} = [" + "; ".join(" ".join(row) for row in p.all(s)) + "]" for s in "QKVSAO") + "\n"


@form("txt")
def cell_by_cell(p: Paper) -> str:
    lines = [f"A[{i + 1}][{j + 1}] = {p.cell('A', i, j)}" for i in p.tokens for j in p.tokens]
    lines += [f"O[{i + 1}] = {vector(p.row('O', i), '[]')}" for i in p.tokens]
    return "\n".join(lines) + "\n"


@form("txt")
def bullets(p: Paper) -> str:
    lines = []
    for i in p.tokens:
        lines += [f"{i + 1}) Token {i + 1}", f"   - scores: {', '.join(p.row('S', i))}"]
        lines += [f"   - weights: {', '.join(p.row('A', i))}", f"   - output: {', '.join(p.row('O', i))}"]
    return "\n".join(lines) + "\n"


@form("txt")
def colon_vectors(p: Paper) -> str:
    lines = []
    for s in "QKV":
        lines += [f"{s.lower()}{i + 1}: {' '.join(p.row(s, i))}" for i in p.tokens]
    lines += [f"attention weights row {i + 1}: {' '.join(p.row('A', i))}" for i in p.tokens]
    lines += [f"output row {i + 1}: {' '.join(p.row('O', i))}" for i in p.tokens]
    return "\n".join(lines) + "\n"


# -- programs ----------------------------------------------------------------------------------------------------------


def padded(rows: list[list[str]]) -> list[str]:
    width = max(len(cell) for row in rows for cell in row)
    return [" ".join(cell.rjust(width) for cell in row) for row in rows]


@form("txt")
def numpy_printout(p: Paper) -> str:
    return "\n".join(f"{s}:\n[[" + "]\n [".join(padded(p.all(s))) + "]]" for s in "QKVSAO") + "\n"


@form("md")
def torch_session(p: Paper) -> str:
    names = {"Q": "Q", "K": "K", "V": "V", "S": "scores", "A": "weights", "O": "out"}
    blocks = [f">>> {n}\ntensor([[" + "],\n        [".join(", ".join(row) for row in p.all(s)) + "]])"
              for s, n in names.items()]  # fmt: skip
    return "```\n" + "\n".join(blocks) + "\n```\n"


@form("txt")
def matlab_session(p: Paper) -> str:
    blocks = [f">> {s}\n\n{s} =\n\n" + "\n".join("    " + row for row in padded(p.all(s))) + "\n" for s in "QKVSAO"]
    return "\n".join(blocks).replace("-inf", "-Inf")


@form("txt")
def r_session(p: Paper) -> str:
    blocks = []
    for s in "QKVSAO":
        rows = p.all(s)
        head = "     " + " ".join(f"[,{j + 1}]".rjust(7) for j in range(len(rows[0])))
        body = [f"[{i + 1},] " + " ".join(c.rjust(7) for c in row) for i, row in enumerate(rows)]
        blocks.append("\n".join([f"> {s}", head, *body]))
    return "\n".join(blocks).replace("-inf", "-Inf") + "\n"


@form("txt")
def julia_session(p: Paper) -> str:
    blocks = []
    for s in "QKVSAO":
        rows = p.all(s)
        head = f"{len(rows)}×{len(rows[0])} Matrix{{Float64}}:"
        blocks.append(f"julia> {s}\n{head}\n" + "\n".join(" " + "  ".join(row) for row in rows))
    return "\n\n".join(blocks).replace("-inf", "-Inf") + "\n"


@form("txt")
def mathematica(p: Paper) -> str:
    lines = [f"{s} = {{" + ", ".join("{" + ", ".join(row) + "}" for row in p.all(s)) + "}" for s in "QKVSAO"]
    return "\n".join(lines).replace("-inf", "-Infinity") + "\n"


@form("txt")
def sympy_matrices(p: Paper) -> str:
    lines = [f"{s} = Matrix([" + ", ".join("[" + ", ".join(row) + "]" for row in p.all(s)) + "])" for s in "QKVSAO"]
    return "\n".join(lines).replace("-inf", "-oo") + "\n"


@form("txt")
def pandas_frames(p: Paper) -> str:
    blocks = []
    for s, title in (("S", "scores"), ("A", "weights"), ("O", "output")):
        rows = p.all(s)
        heads = list(p.labels) if s != "O" else [str(k) for k in range(len(rows[0]))]
        side = max(map(len, p.labels))
        head = " " * side + " " + " ".join(h.rjust(7) for h in heads)
        body = [name.ljust(side) + " " + " ".join(c.rjust(7) for c in row)
                for name, row in zip(p.labels, rows, strict=True)]  # fmt: skip
        blocks.append("\n".join([f"{title}:", head, *body]))
    return "\n\n".join(blocks) + "\n"


@form("md")
def python_code(p: Paper) -> str:
    lines = [f"{s} = np.array([" + ", ".join("[" + ", ".join(row) + "]" for row in p.all(s)) + "])" for s in "QKVSAO"]
    return "```python\nimport numpy as np\n" + "\n".join(lines).replace("-inf", "-np.inf") + "\n```\n"


@form("ipynb")
def notebook(p: Paper) -> str:
    cells: list[dict[str, object]] = [{"cell_type": "markdown", "metadata": {}, "id": "a", "source": "# Homework 2"}]
    for k, s in enumerate("QKVSAO"):
        array = "array([[" + "],\n       [".join(", ".join(row) for row in p.all(s)) + "]])"
        output = {"output_type": "execute_result", "execution_count": k + 1, "metadata": {}}
        output["data"] = {"text/plain": array}
        cells.append({"cell_type": "code", "metadata": {}, "id": f"c{k}", "execution_count": k + 1,
                      "source": f"{s} = solve_step({k})\n{s}", "outputs": [output]})  # fmt: skip
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


# -- spreadsheets, pages, other formats --------------------------------------------------------------------------------


@form("csv")
def stacked_csv(p: Paper) -> str:
    return "\n".join(f"{s}\n" + "\n".join(",".join(row) for row in p.all(s)) + "\n" for s in "QKVSAO")


@form("csv")
def labelled_csv(p: Paper) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    for s, title in (("S", "Scores"), ("A", "Attention weights"), ("O", "Outputs")):
        rows = p.all(s)
        writer.writerow([title, *([f"key {j + 1}" for j in p.tokens] if s != "O" else ["x", "y", "z"][: len(rows[0])])])
        for i, row in enumerate(rows):
            writer.writerow([f"token {i + 1}", *row])
        writer.writerow([])
    return out.getvalue()


@form("csv")
def semicolon_csv(p: Paper) -> str:
    text = "\n".join(f"{s}\n" + "\n".join(";".join(row) for row in p.all(s)) + "\n" for s in "SAO")
    return text.replace(".", ",")


@form("html")
def html_page(p: Paper) -> str:
    def table(s: str) -> str:
        rows = ["".join(f"<td>{cell}</td>" for cell in row) for row in p.all(s)]
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"

    parts = [f"<p>q<sub>{i + 1}</sub> = {vector(p.row('Q', i))}</p>" for i in p.tokens]
    titles = {"S": "Scores", "A": "Attention weights", "O": "Output"}
    parts += [f"<h2>{title}</h2>{table(s)}" for s, title in titles.items()]
    return "<html><head><title>HW 1</title></head><body>" + "\n".join(parts) + "</body></html>"


@form("html")
def html_mathml(p: Paper) -> str:
    def matrix(s: str) -> str:
        rows = "".join("<mtr>" + "".join(f"<mtd><mn>{c}</mn></mtd>" for c in row) + "</mtr>" for row in p.all(s))
        return f"<math><mi>{s}</mi><mo>=</mo><mrow><mo>[</mo><mtable>{rows}</mtable><mo>]</mo></mrow></math>"

    return "<body>" + "".join(f"<p>{matrix(s)}</p>" for s in "QKVSAO").replace("-inf", "-∞") + "</body>"


@form("typ")
def typst(p: Paper) -> str:
    lines = [f"$ {s} = mat(" + "; ".join(", ".join(row) for row in p.all(s)) + ") $" for s in "QKVSAO"]
    return "= Homework\n\n" + "\n\n".join(lines).replace("-inf", "-oo") + "\n"


@form("org")
def org_tables(p: Paper) -> str:
    titles = {"S": "Scores", "A": "Attention weights", "O": "Output"}
    tables = {s: "\n".join("| " + " | ".join(row) + " |" for row in p.all(s)) for s in titles}
    return "\n\n".join(f"* {titles[s]}\n{table}" for s, table in tables.items())


@form("json")
def json_answers(p: Paper) -> str:
    body = ", ".join(f'"{s}": [' + ", ".join("[" + ", ".join(row) + "]" for row in p.all(s)) + "]" for s in "QKVSAO")
    return "{" + body.replace("-inf", '"-inf"') + "}"


@form("docx")
def word_document(p: Paper) -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Homework 2", 1)
    for i in p.tokens:
        document.add_paragraph(f"q{i + 1} = {vector(p.row('Q', i))}, k{i + 1} = {vector(p.row('K', i))}")
    for s, title in (("S", "Scores"), ("A", "Attention weights"), ("O", "Output")):
        document.add_paragraph(f"{title}:")
        rows = p.all(s)
        table = document.add_table(len(rows), len(rows[0]))
        for i, row in enumerate(rows):
            for j, cell in enumerate(row):
                table.cell(i, j).text = cell
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


@form("xlsx")
def workbook(p: Paper) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for s, title in (("Q", "Q"), ("K", "K"), ("V", "V"), ("S", "Scores"), ("A", "Weights"), ("O", "Output")):
        sheet.append([title])
        for row in p.all(s):
            sheet.append([float(c) if c != "-inf" else "-inf" for c in row])
        sheet.append([])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


# -- measuring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """One document: how many of its cells were found, and the verdicts that are not what was planted."""

    form: str
    cells: int
    found: int
    unread: int
    numbers: int
    false: tuple[str, ...]
    error: str = ""


def write(name: str, exercise: str, digits: int = 3, mistakes: int = 0, seed: int = 0) -> tuple[str | bytes, Paper]:
    paper = Paper(solutions()[exercise], digits, mistakes, seed)
    return FORMS[name][1](paper), paper


def measure(name: str, exercise: str, digits: int = 3, mistakes: int = 0, seed: int = 0) -> Measured:
    """Grade one document; percentages and decimal commas are compared as numbers."""
    text, paper = write(name, exercise, digits, mistakes, seed)
    try:
        graded = grade(paper.exercise, read(text, f"{name}.{FORMS[name][0]}"))
    except GlassError as error:
        return Measured(name, len(paper.written), 0, 0, 0, (), str(error))
    return compare(name, paper, graded)


def compare(name: str, paper: Paper, graded: Grade) -> Measured:
    cells = {(c.symbol, c.row - 1, c.column - 1): c for c in graded.cells if c.given is not None}
    if paper.solution.plan["O"].op == "copy":  # the only head's output is the output
        cells = {("O" if s == "H" else s, i, j): c for (s, i, j), c in cells.items()}
    given = {place: x for place, x in paper.written.items() if place[0] not in paper.solution.plan.given}
    found = sum(place in cells and close(cells[place].given or "", x) for place, x in given.items())
    return Measured(
        name, len(given), found, graded.accounting.unread, graded.accounting.total, tuple(_false(paper, cells, given))
    )


def close(text: str, value: float) -> bool:
    number = _number(text)
    return number == value or (number is not None and abs(number - value) < 1e-9)


def _number(text: str) -> float | None:
    text = text.replace("−", "-").replace("∞", "inf").replace(" ", "").replace(",", ".")
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def _false(paper: Paper, cells: dict[Place, Cell], given: dict[Place, float]) -> Iterator[str]:
    for place, cell in cells.items():
        at = f"{cell.symbol}[{cell.row},{cell.column}] {cell.given}: {cell.verdict}"
        if place in given and not close(cell.given or "", given[place]):
            yield f"{at}, but {given[place]} was written there"
        elif place in paper.wrong and place in given and cell.verdict != "wrong":
            yield f"{at}, but it is wrong"
        elif place not in paper.wrong and cell.verdict in ("wrong", "rounded"):
            yield f"{at}, but it is right"


def everything() -> Iterator[Measured]:
    """All forms for all exercises, to two, three and four digits, without and with two wrong numbers."""
    for name in FORMS:
        for exercise in solutions():
            for digits, mistakes in ((3, 0), (4, 2), (2, 0)):
                yield measure(name, exercise, digits, mistakes, seed=digits)


def main() -> None:
    totals: dict[str, list[Measured]] = {}
    for made in everything():
        totals.setdefault(made.form, []).append(made)
    print(f"{'form':24} {'cells':>6} {'found':>7} {'unread':>7}  false verdicts")
    for name, group in totals.items():
        cells, found = sum(m.cells for m in group), sum(m.found for m in group)
        said = [s for m in group for s in (*m.false, m.error) if s]
        unread = sum(m.unread for m in group) / max(1, sum(m.numbers for m in group))
        print(f"{name:24} {cells:6} {found / cells:7.1%} {unread:7.1%}  {len(said)} {'; '.join(said[:2])[:110]}")
    every = [m for group in totals.values() for m in group]
    share = sum(m.found for m in every) / sum(m.cells for m in every)
    print(f"{len(every)} documents in {len(totals)} forms: {share:.1%} found, {sum(len(m.false) for m in every)} false")


if __name__ == "__main__":
    main()
