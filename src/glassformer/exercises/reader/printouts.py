"""Arrays as programs print them, rewritten as assignments: torch, NumPy, pandas, SymPy, MATLAB, R, Julia, Mathematica.

`>>> Q` over `tensor([[3., 0.]])` becomes Q = [[3., 0.]]. Matrices drawn with bars or brackets on several lines become
one line. The number of lines is preserved, so that reports name the learner's own lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_ARRAY = re.compile(
    r"(?:\b(?:np|numpy|jnp|torch|sp|sympy)\.)?(?:tensor|array|[mM]atrix|Tensor|Array|Immutable\w*Matrix)\((?=\s*\[)"
)
_DETAILS = re.compile(r",\s*(?:dtype|device|grad_fn|requires_grad|shape|names)\s*=\s*(?:<[^<>]*>|\([^()]*\)|[^,()]+)")
_PROMPT = re.compile(
    r"^[ \t]*(?:>>>|>>|>|julia>|octave:\d+>|sage:|In\s*\[\d*\]:=?|Out\s*\[\d*\](?://MatrixForm)?[:=])[ \t]?", re.M
)
_IN, _OUT = re.compile(r"^\s*In\s*\[\d*\]:(.*)$"), re.compile(r"^\s*Out\s*\[\d*\]:(.*)$")
SHOWN = re.compile(
    r"^[ \t]*(?:(?:print|display|disp|show)\(\s*)?([A-Za-z]\w{0,20})(?:\.(?:round|evalf|n)\(\d*\))?"
    r"(?:(?<=\w),[^\n()]{1,80}(?=\)))?[ \t]*\)?[ \t]*;?[ \t]*$"
)
_MATLAB = re.compile(
    r"^[ \t]*([A-Za-z]\w{0,20})[ \t]*=[ \t]*\n[ \t]*\n((?:[ \t]*1\.0e[+-]\d+[ \t]*\*[ \t]*\n[ \t]*\n)?)(?=[ \t]*[-\d])",
    re.M,
)
_NESTED = re.compile(r"^[ \t]*([A-Za-z]\w{0,20})[ \t]*[:=][ \t]*\n(?=[ \t]*\[\s?\[)", re.M)
_NUMBER = r"(?:[-+−]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?:/\d+|%)?|[-−]∞)"
_ELEMENTWISE = re.compile(r"(?<=[)\w'])\s*\.([*/^])(?=\s*[A-Za-z(])")  # exp(S)./sum(exp(S), 2)
_BRACES = re.compile(rf"(?<=[=:≈])(\s*)(\{{[\s{{]*{_NUMBER}(?:[\s,{{}}]+{_NUMBER})*[\s}}]*\}})")
_ROW = re.compile(rf"^[ \t]*{_NUMBER}(?:[ \t]+{_NUMBER})*[ \t]*$")
_R_MATRIX = re.compile(
    r"(?<![\w.])([A-Za-z]\w{0,20})[ \t]*(?:<-|=)[ \t]*matrix\(c\(([-\d., \t\n]{1,2000})\),\s*"
    r"(?:(ncol|nrow)\s*=\s*)?(\d{1,3})(,\s*byrow\s*=\s*T(?:RUE)?)?"
    r"(?:,\s*dimnames\s*=\s*list\((?:c\([^()\n]{0,200}\)|[^()\n]){0,20}\))?\)"
)
_R_HEAD = re.compile(r"^[ \t]+(?:\[,\d+\][ \t]*)+$")
# matrices with names of rows and columns: the header, and a row of it
_R_NAMED_HEAD = re.compile(r"^[ \t]+(?:(?:\[,\d+\]|[^\W\d][\w.]{0,19})(?:[ \t]+|$))+$")
_R_NAMED_ROW = re.compile(rf"^(?:\[\d+,\]|[^\W\d][\w.]{{0,19}})[ \t]+({_NUMBER}(?:[ \t]+{_NUMBER})*)[ \t]*$")
_R_ROW = re.compile(rf"^[ \t]*\[\d+,?\][ \t]+({_NUMBER}(?:[ \t]+{_NUMBER})*)[ \t]*$")
_JULIA = re.compile(r"^\s*(?:\d+[×x]\d+|\d+-element) \w*(?:Matrix|Array|Vector|Adjoint|Transpose)\b.*:\s*$")
_VARIABLE = r"([A-Z]\w{0,20}|[a-z]\w{1,20})"  # one small letter may be any quantity
_JULIA_SHOWN = re.compile(rf"[ \t]*(?:round\.?\([ \t]*{_VARIABLE}[ \t]*(?:,[^()]*)?\)|{_VARIABLE}[ \t]*(?:=[^=].*)?)")
_FRAME_ROW = re.compile(
    rf"^[ \t]*([^\W\d_]{{2,15}} \d{{1,2}}(?=\s{{2}})|[^\s|]{{1,20}})[ \t]+({_NUMBER}(?:[ \t]+{_NUMBER})*)[ \t]*$"
)
_COUNTED = re.compile(r"bin|token|pos(?:ition)?|index|i|j|k|n|#|no\.?", re.I)  # a header
_QUANTITY = re.compile(r"[A-Z]|\|[A-Z]\w? ?[-−–] ?[A-Z]\w?\|")  # a header: F, |F − G|
_RULE = re.compile(r"^[ \t]*\|[-:| \t]+\|[ \t]*$")  # of a Markdown table
_ROW_NAME = re.compile(r"[xtpiXTP]\d{1,2}")  # t1, not q1, which is a vector of the exercise
_DRAWN = re.compile(rf"^(?P<lead>[^|\[(/\\]*?)(?P<left>[|\[(/\\])[ \t]*(?P<cells>{_NUMBER}(?:[ \t,&]+{_NUMBER})*)[ \t]*(?P<right>[|\])/\\])[ \t]*[.,]?$")  # noqa: E501
_BESIDE = re.compile(
    rf"(?P<lead>[^|\[(/\\\n]*?)[|\[(/\\][ \t]*(?P<cells>{_NUMBER}(?:[ \t,&]+{_NUMBER})*)[ \t]*[|\])/\\]"
)
_NAME = re.compile(r"[\s,;]*\**([A-Za-z]\S{0,12}?)\**\s*[=≈:]\s*")
_BRACKET = re.compile(r"\s*(?:(?:tensor|array|Matrix)\()?\s*\[")
_COMMENT = re.compile(r"^[ \t]*(?:#|//|%)(?=[ \t]*[\[ta])[ \t]?(.*)$")
# O = A V: over a matrix
_ANNOUNCED = re.compile(
    r"(?<![:\w])(\w{1,4}(?:_\{\w+\})?[ \t]*=(?:[^=\n:\w$]|\b\w\b|\b[A-Z]\w\b|_|softmax|sqrt){1,40})"
    rf"[ \t]*:[ \t]*\n(?=\s{{0,20}}(?:\[|{_NUMBER}(?:[ \t]+{_NUMBER})+[ \t]*$))", re.M
)  # fmt: skip
_VECTOR_NAMES = {"query": "q", "key": "k", "value": "v", "q": "q", "k": "k", "v": "v"}
_VECTOR_CELL = rf"{_NUMBER}(?: {_NUMBER})+"
# q [[1., 2.], …, as print("q", q) writes it; also q @ k.T [[… and logits (/ sqrt 3) [[…
_PRINTED_NAME = re.compile(
    r"^([A-Za-z]\w{0,20}(?: ?@ ?[A-Za-z]\w{0,9}(?:\.T)?)?)(?: \([^()\n]{1,30}\))?[ \t]+(?=\[\s?\[)", re.M
)
_R_SHOWN = re.compile(
    r"^[ \t]*>?[ \t]*(?:(?:round|print|signif)\()?([A-Za-z][\w.]{0,20}|row(?:Sums|Means)\(\w+\))(?:,[^()]*)?\)?[ \t]*$"
)
_R_IN_PARENTHESES = re.compile(r"^[ \t]*>?[ \t]*\(([A-Za-z][\w.]{0,20})[ \t]*<-.*\)[ \t]*$")  # (Q <- X %*% WQ)
_R_VECTOR = re.compile(rf"^[ \t]*\[1\][ \t]+({_NUMBER}(?:[ \t]+{_NUMBER})+)[ \t]*$")
_R_ASSIGNED = re.compile(r"^[ \t]*>?[ \t]*([A-Za-z][\w.]{0,20})[ \t]*(?:<-|=)(.*)$")
_R_KINDS = {r"rowSums\(\w+\)": "sum", r"rowMeans\(\w+\)": "mean", r"apply\(\w+, ?1, ?var\)": "variance"}
TOTAL = re.compile(  # a header
    r"(?:row[ _]|column[ _]|exp[ _])?(?:sums?|totals?)(?: of (?:the )?(?:row|column))?|[Σ∑]|\$\\(?:sum|Sigma)\$"
    r"|(?:zeilen|spalten)?summe|somme|somma|suma|check|kontrolle|probe", re.I
)  # fmt: skip
_METHODS = re.compile(r"(?<=[\])])\.(?:float|double|long|int|numpy|tolist|round)\(\d*\)")
_BETWEEN = re.compile(r"[ \t,&]+")


def printouts(text: str) -> str:
    """Rewrite printed and drawn arrays as assignments."""
    text = _ELEMENTWISE.sub(r"\1", text)
    text = _BRACES.sub(lambda found: found[1] + found[2].replace("{", "[").replace("}", "]"), text)
    text = _R_MATRIX.sub(_r_matrix, commented(_METHODS.sub("", text)))
    if _PROMPT.search(text) or _ARRAY.search(text):
        text = _python(text)
    text = _PRINTED_NAME.sub(lambda found: f"{found[1].replace('@', '').replace('.T', '^T')} = ", text)
    text = _NESTED.sub(lambda found: f"\n{found[1]} = ", _MATLAB.sub(_matlab, text))
    lines = text.split("\n")
    _r(lines)
    _julia(lines)
    _columns(lines)
    _quantities(lines)
    _vectors(lines)
    _frames(lines)
    _beside(lines)
    _drawn(lines)
    return _ANNOUNCED.sub(r"\1 =\n", "\n".join(lines))


# -- torch, NumPy, SymPy, MATLAB ---------------------------------------------------------------------------------------


def _python(text: str) -> str:
    lines = _ipython(text.split("\n"))
    for at, line in enumerate(lines[:-1]):
        prompt = _PROMPT.match(line)
        shown = SHOWN.match(line[prompt.end() :]) if prompt else None
        after = _PROMPT.sub("", lines[at + 1])
        if shown and _BRACKET.match(after) and not _R_ROW.match(after) and not _R_HEAD.match(after):
            lines[at], lines[at + 1] = "", f"{shown[1]} = {after.lstrip()}"
    return bare("\n".join(_PROMPT.sub("", line) if _is_session(line) else line for line in lines))


def _ipython(lines: list[str]) -> list[str]:
    """Put `In [1]: A = …; A` directly over the array that `Out[1]:` shows, as a line that only names it."""
    for at, line in enumerate(lines[:-2]):
        code, out = _IN.match(line), _OUT.match(lines[at + 1])
        shown = SHOWN.match(code[1].rpartition(";")[2]) if code and out else None
        if shown and out and not out[1].strip():
            lines[at], lines[at + 1] = "", f">>> {shown[1]}"
    return lines


def commented(text: str) -> str:
    """Read an output that was pasted below its `print(A)` as a comment."""
    lines = text.split("\n")
    for at, line in enumerate(lines[:-1]):
        shown = SHOWN.match(line) if "(" in line else None
        found = list(_while(_COMMENT, lines, at + 1)) if shown else []
        if shown and found and _BRACKET.match(found[0][1]):
            lines[at] = ""
            rest = [one[1] for one in found[1:]]
            lines[at + 1 : at + 1 + len(found)] = [f"{shown[1]} = {found[0][1].lstrip()}", *rest]
    return "\n".join(lines)


def _r_matrix(found: re.Match[str]) -> str:
    """Rewrite R's matrix(c(1, 2, 3, 4), ncol = 2, byrow = TRUE) as [[1, 2], [3, 4]]."""
    cells = [cell.strip() for cell in found[2].split(",") if cell.strip()]
    count = int(found[4])
    if not count or len(cells) % count:
        return found[0]
    width = count if found[3] == "ncol" else len(cells) // count
    height = len(cells) // width
    at = (lambda i, j: i * width + j) if found[5] else (lambda i, j: j * height + i)
    rows = (", ".join(cells[at(i, j)] for j in range(width)) for i in range(height))
    return f"{found[1]} = [[{'], ['.join(rows)}]]"


def _is_session(line: str) -> bool:
    """Return whether a prompt is that of a program; "> text" is a quotation in an e-mail."""
    return not line.lstrip().startswith("> ") or SHOWN.match(line.lstrip()[2:]) is not None


def bare(text: str) -> str:
    """Reduce `tensor([[1., 2.]], dtype=torch.float64)` to its numbers."""
    found = _ARRAY.search(text)
    while found is not None:
        depth, end = 1, found.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        inside = _DETAILS.sub("", text[found.end() : end - (depth == 0)])
        text = text[: found.start()] + inside.strip() + text[end:]
        found = _ARRAY.search(text, found.start() + len(inside.strip()))
    return text


def _matlab(found: re.Match[str]) -> str:
    """Put the name directly over its rows; a common factor such as 1.0e+03 * is left to stand, and then not read."""
    return f"\n{found[1]} =\n" if not found[2].strip() else found.group()


# -- R, Julia and pandas -----------------------------------------------------------------------------------------------


def _named(lines: list[str], at: int) -> str:
    """Return the name printed above the line `at`, and clear its line."""
    for above in range(at - 1, max(-1, at - 3), -1):
        found = re.match(r"^[ \t]*([A-Za-z]\w{0,20})[ \t]*[=:]?[ \t]*$", lines[above])
        if found:
            lines[above] = ""
            return f"{found[1]} = "
        if lines[above].strip():
            break
    return ""


def _put(lines: list[str], start: int, stop: int, rows: list[str], lead: str) -> None:
    lines[start:stop] = [""] * (stop - start)
    lines[start] = lead + "[" + ", ".join(f"[{', '.join(row.split())}]" for row in rows) + "]"


def _r(lines: list[str]) -> None:
    kinds: dict[str, str] = {}  # quantities by the names of variables
    for at, line in enumerate(lines):
        assigned, vector = _R_ASSIGNED.match(line[:2000]), _R_VECTOR.match(line[:2000])
        if assigned:
            kinds[assigned[1]] = _r_kind(assigned[2])
        rows = [row[1] for row in _while(_R_ROW, lines, at + 1)] if _R_HEAD.match(line) else []
        if rows:
            lead = _named(lines, at) or _r_name(lines, at, kinds)
            _put(lines, at, at + 1 + len(rows), rows, lead)
        elif at and _R_SHOWN.match(lines[at - 1][:200]) and lines[at - 1].lstrip().startswith(">") and (
            rows := _r_named_rows(lines, at)
        ):
            _put(lines, at, at + 1 + len(rows), rows, _r_name(lines, at, kinds))
        elif vector and (lead := _r_name(lines, at, kinds)):
            lines[at] = f"{lead}({', '.join(vector[1].split())})"


def _r_named_rows(lines: list[str], at: int) -> list[str]:
    """Return the rows of a matrix with named rows below the header on the line `at`; none if it is no such matrix."""
    if not _R_NAMED_HEAD.match(lines[at][:500]):
        return []
    rows = [row[1] for row in _while(_R_NAMED_ROW, lines, at + 1)]
    return rows if all(len(row.split()) == len(lines[at].split()) for row in rows) else []


def _r_name(lines: list[str], at: int, kinds: Mapping[str, str]) -> str:
    """Return the name of what `> round(m, 4)` or `> rowSums(E)` prints on the line `at`, and clear its line.

    An assignment prints its value in parentheses, and may be followed by what is printed: `> S <- Q; round(S, 4)`.
    """
    code = lines[at - 1][:200] if at else ""
    found = _R_SHOWN.match(code.rpartition(";")[2]) or _R_IN_PARENTHESES.match(code)
    if found is None:
        return ""
    lines[at - 1] = ""
    return f"{_r_kind(found[1]) or kinds.get(found[1]) or found[1]} = "


def _r_kind(code: str) -> str:
    """Return the quantity that a call of R computes for each row; "" for anything else."""
    return next((kind for call, kind in _R_KINDS.items() if re.fullmatch(call, code.strip())), "")


def _julia(lines: list[str]) -> None:
    for at, line in enumerate(lines):
        if _JULIA.match(line):
            rows = list(_while(_ROW, lines, at + 1))
            if rows:
                lead = _named(lines, at) or _julia_name(lines[at - 1] if at else "")
                _put(lines, at, at + 1 + len(rows), [row[0] for row in rows], lead)


def _julia_name(code: str) -> str:
    """Return the name of what a line of code such as `N = R .- mu; round.(N, digits=4)` prints; "" if it has none."""
    found = _JULIA_SHOWN.fullmatch(code[:500].rpartition(";")[2])
    return f"{found[1] or found[2]} = " if found else ""


def _columns(lines: list[str]) -> None:
    """Rewrite a column of numbers below its name, as MATLAB prints it."""
    for at, line in enumerate(lines):
        found = re.match(r"^[ \t]*([A-Za-z]\w{0,20})[ \t]*=[ \t]*$", line)
        rows = [row[0] for row in _while(_ROW, lines, at + 1)] if found else []
        if len(rows) > 1 and all(len(row.split()) == 1 for row in rows):
            _put(lines, at + 1, at + 1 + len(rows), rows, _named(lines, at + 1))


def _quantities(lines: list[str]) -> None:
    """Rewrite a table of text with a quantity in each column, `bin  F  G` over `1  0.4  0.1`, as F = (0.4, …); G = …

    The first column counts. As many columns as rows, or the columns A, B, C, may be a matrix by tokens.
    """
    for at, line in enumerate(lines):
        heads = re.split(r"[ \t]{2,}", line[:200].strip())
        if len(heads) < 3 or not _COUNTED.fullmatch(heads[0]) or not all(map(_QUANTITY.fullmatch, heads[1:])):
            continue
        rows = [row[0].split() for row in _while(_ROW, lines, at + 1)]
        tokens = len(rows) == len(heads) - 1 or heads[1] == "A"
        if len(rows) < 2 or tokens or any(len(row) != len(heads) for row in rows):
            continue
        if _counted([row[0] for row in rows]):
            columns = [", ".join(row[k] for row in rows) for k in range(1, len(heads))]
            texts = [f"{name} = ({column})" for name, column in zip(heads[1:], columns, strict=True)]
            lines[at : at + 1 + len(rows)] = ["; ".join(texts), *[""] * len(rows)]


def _frames(lines: list[str]) -> None:
    """Rewrite tables of text, with or without a header of column names, whose rows begin with their name."""
    known: set[tuple[str, ...]] = set()  # the names of the rows of earlier tables
    for at, line in enumerate(lines[:-1]):
        heads = re.split(r"\s{2,}", line.strip()) if re.search(r"\S\s{2}", line) else line.split()
        titled = line.rstrip().endswith((":", "="))
        headed = len(heads) > 1 and (line[:1].isspace() or lines[at + 1].split()[:1] == heads[:1])
        if not titled and not headed and (not known or len(heads) > 3 or any(char.isdigit() for char in line)):
            continue
        if _FRAME_ROW.match(line[:2000]) and not line[:1].isspace():
            continue
        start = at + 1 + (titled and not lines[at + 1].strip())
        rows = list(_while(_FRAME_ROW, lines, start))
        names, cells = [row[1] for row in rows], [row[2] for row in rows]
        if len(rows) < 2 or len({len(row.split()) for row in cells}) > 1:
            continue
        numbered = all(_ROW_NAME.fullmatch(name) for name in names) and _counted([name[1:] for name in names])
        if (titled and numbered) or (not headed and tuple(names) in known):
            lines[start : start + len(rows)] = cells
            continue
        totals = len(heads) > 2 and TOTAL.fullmatch(heads[-1]) is not None  # a last column of sums
        columns = heads[:-1] if totals else heads
        if len(cells[0].split()) != len(heads) or not (line[:1].isspace() or columns == names):
            continue
        if totals:
            matrix = [" ".join(row.split()[:-1]) for row in cells]
            _put(lines, at, at + len(rows), matrix, "")
            lines[at + len(rows)] = f"sum = ({', '.join(row.split()[-1] for row in cells)})"
        elif (_counted(names) and names[0] == "0") or all(not re.fullmatch(_NUMBER, name) for name in names):
            title = lines[at - 1] if at and lines[at - 1].strip().endswith((":", "=")) else ""
            if title:
                lines[at - 1] = ""
            lines[at : at + 1 + len(rows)] = [title, *cells]
            known.add(tuple(names))


def _counted(names: list[str]) -> bool:
    """Return whether these are the numbers from 0 or 1 on."""
    return any(names == [str(k + first) for k in range(len(names))] for first in (0, 1))


def _while(pattern: re.Pattern[str], lines: list[str], start: int) -> Iterator[re.Match[str]]:
    for line in lines[start : start + 200]:
        found = pattern.match(line[:2000])
        if found is None:
            return
        yield found


# -- matrices drawn on several lines -----------------------------------------------------------------------------------


def _drawn(lines: list[str]) -> None:
    """Rewrite a matrix of which every line has its own brackets or bars, with the name beside one of them."""
    at = 0
    while at < len(lines):
        rows = list(_while(_DRAWN, lines, at)) if not at or not _RULE.match(lines[at - 1]) else []
        rows = rows[: _centred(rows)]
        named = [row["lead"] for row in rows if row["lead"].strip()]
        widths = {len(_BETWEEN.split(row["cells"])) for row in rows}
        bars = all(row["left"] in "|/\\" and row["right"] in "|/\\" for row in rows)
        lead = named[0] if named else ""
        if len(rows) > 1 and len(widths) == 1 and len(named) < 2 and (bars or (lead and not rows[0]["lead"].strip())):
            middle = next((k for k, row in enumerate(rows) if row["lead"].strip()), 0)
            text = "[" + ", ".join(f"[{', '.join(_BETWEEN.split(row['cells']))}]" for row in rows) + "]"
            lines[at : at + len(rows)] = [f"{lead}{text}" if k == middle else "" for k in range(len(rows))]
        at += max(1, len(rows))


def _vectors(lines: list[str]) -> None:
    """Rewrite rows of vectors below `token  query  key  value`, in the order of the tokens, as q1 = (1, 1); k1 = …"""
    names: list[str] = []
    token = 0
    for at, line in enumerate(lines):
        parts = re.split(r"[ \t]{2,}", line.strip())
        if len(parts) > 2 and all(part.lower() in _VECTOR_NAMES for part in parts[1:]):
            names, token = [_VECTOR_NAMES[part.lower()] for part in parts[1:]], 0
        elif names and len(parts) == len(names) + 1 and all(re.fullmatch(_VECTOR_CELL, part) for part in parts[1:]):
            token += 1
            columns = zip(names, parts[1:], strict=True)
            lines[at] = "; ".join(f"{name}{token} = ({', '.join(part.split())})" for name, part in columns)
        else:
            names = []


def _centred(rows: list[re.Match[str]]) -> int:
    """Return the length of the first of several matrices without lines between them, named in their middle rows.

    It is that of all rows if there is one name, or if the names are not in the middle.
    """
    named = [k for k, row in enumerate(rows) if row["lead"].strip()]
    start = 0
    for middle in named:
        start = 2 * middle - start + 1
    return 2 * named[0] + 1 if len(named) > 1 and start == len(rows) and named[0] else len(rows)


def _beside(lines: list[str]) -> None:
    """Rewrite named matrices that are drawn side by side: Q = | 3 -2 |   K = | 2 3 | over | 1 -1 |   | 1 1 |."""
    at = 0
    while at < len(lines):
        rows: list[list[re.Match[str]]] = []
        for line in lines[at : at + 200]:
            found = list(_BESIDE.finditer(line[:2000]))
            whole = bool(found) and not line[found[-1].end() :].strip(" \t.,;")
            if len(found) < 2 or not whole or (rows and len(found) != len(rows[0])):
                break
            rows.append(found)
        columns = list(zip(*rows, strict=True)) if len(rows) > 1 else []
        leads = [[part["lead"] for part in column if part["lead"].strip(" \t,;")] for column in columns]
        names = [_NAME.fullmatch(lead[0]) if len(lead) == 1 else None for lead in leads]
        widths = [{len(_BETWEEN.split(part["cells"])) for part in column} for column in columns]
        if columns and all(names) and all(len(width) == 1 for width in widths):
            matrices = [", ".join(f"[{', '.join(_BETWEEN.split(part['cells']))}]" for part in c) for c in columns]
            texts = [f"{name[1]} = [{matrix}]" for name, matrix in zip(names, matrices, strict=True) if name]
            lines[at : at + len(rows)] = ["; ".join(texts), *[""] * (len(rows) - 1)]
        at += max(1, len(rows))
