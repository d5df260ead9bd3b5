"""Converts files that are not plain text into text that `read` accepts: notebooks, PDF, DOCX, XLSX, HTML and Typst.

Formulas become LaTeX, tables Markdown or CSV, printed arrays assignments. Scans and photos are rejected; the
error suggests what to send instead. PDF, DOCX, XLSX and notebooks require the extra `documents`.
"""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from glassformer.errors import InputError
from glassformer.exercises.reader.encoding import decode_text
from glassformer.exercises.reader.pdf import join_pages, page_text
from glassformer.exercises.reader.printouts import SHOWN, bare, commented

MAX_UNPACKED = 50_000_000  # maximum unpacked size of a DOCX or XLSX, in bytes
MAX_PAGES = 200
MAX_DEPTH = 200  # maximum nesting of elements in HTML
MAX_CELLS = 200_000
IMAGES = frozenset((".png", ".jpg", ".jpeg", ".heic", ".heif", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg"))
_OTHERS = {
    ".doc": "save it as DOCX or PDF", ".odt": "save it as DOCX or PDF", ".rtf": "save it as DOCX or PDF",
    ".pages": "export it as PDF", ".ods": "save it as XLSX or CSV", ".xls": "save it as XLSX or CSV",
    ".numbers": "export it as XLSX or CSV", ".zip": "unpack it and give the folder",
}  # fmt: skip


def convert(data: bytes, name: str) -> tuple[str, str] | None:
    """Return (text, kind) of a file by its extension; None for plain text. Raises InputError if it is unreadable."""
    suffix = Path(name).suffix.lower()
    if suffix in IMAGES:
        raise InputError(
            f"{name} is an image, which cannot be read",
            "type the working, or scan it with text recognition and send the text or a PDF that has a text layer",
        )
    if suffix in _OTHERS:
        raise InputError(f"the format of {name} is not supported", _OTHERS[suffix])
    readers: dict[str, tuple[Callable[[bytes, str], str], str]] = {
        ".ipynb": (_notebook, "markdown"), ".pdf": (_pdf, "markdown"), ".docx": (_docx, "markdown"),
        ".xlsx": (_xlsx, "csv"), ".html": (_html, "markdown"), ".htm": (_html, "markdown"),
        ".typ": (_typst, "markdown"),
    }  # fmt: skip
    if suffix not in readers:
        return None
    reader, kind = readers[suffix]
    return reader(data, name), kind


_COMMENT = {".py": "#", ".r": "#", ".jl": "#", ".m": "%"}


def plain(text: str, name: str) -> str:
    """Return a program or an Org file as Markdown: lines of comments, where learners write results, as plain lines."""
    suffix = Path(name).suffix.lower()
    if suffix == ".org":
        text = re.sub(r"^[ \t]*\|[-+]+\|[ \t]*$", lambda rule: rule.group().replace("+", "|"), text, flags=re.M)
        text = re.sub(r"^#\+\w+:", "", re.sub(r"^\*(?=\**\s)", "#", text, flags=re.M), flags=re.M)
        return re.sub(r"(?<!\S)([~=])(\S[^~\n]{0,200}?)\1(?!\S)", r"`\2`", text)
    mark = _COMMENT.get(suffix)
    return text if mark is None else re.sub(rf"^[ \t]*{mark}+", "", commented(text), flags=re.M)


def _library(module: str, package: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        remedy = "install it with pip install 'glassformer[documents]'"
        raise InputError(f"{package} is needed to read {name}", remedy) from None


def _broken(name: str, what: str, remedy: str) -> InputError:
    return InputError(f"{name} is not {what} that can be read", remedy)


# -- notebooks ------------------------------------------------------------------------------------

def _notebook(data: bytes, name: str) -> str:
    nbformat = _library("nbformat", "nbformat", name)
    try:
        notebook = nbformat.reads(data.decode("utf-8"), as_version=4)
        return "\n\n".join(part for cell in notebook.cells for part in _cell(cell))
    except InputError:
        raise
    except Exception:  # nbformat raises exceptions of many libraries
        raise _broken(name, "a notebook", "save it again in Jupyter") from None


_TRANSPOSED = re.compile(r"\s*(\w+)\s*=\s*(\w+)\s*@\s*(\w+)\.(?:T|mT|t\(\))\s*(?:#.*)?$")  # scores = Q @ K.T


def _cell(cell: Any) -> Iterator[str]:
    """Yield Markdown unchanged; from code, the assignments and the output under the names that were printed."""
    source = str(cell.source)
    if cell.cell_type == "markdown":
        yield source
        return
    if cell.cell_type != "code":
        return
    yield f"```python\n{source}\n```"
    lines = source.rstrip().split("\n")
    lines[-1] = lines[-1].rstrip("; ").rpartition(";")[2]  # Q = X*WQ; Q
    names = [found[1] for line in lines if (found := SHOWN.match(line))]
    outputs = [text for output in cell.get("outputs", ()) if (text := _output(output))]
    printed = "\n".join(outputs)
    arrays = _arrays(printed)
    if names and len(arrays) == len(names):
        products = {found[1]: f"{found[2]} {found[3]}^T = " for line in lines if (found := _TRANSPOSED.match(line))}
        shown = zip(names, arrays, strict=True)
        printed = "\n".join(f"{symbol} = {products.get(symbol, '')}{array}" for symbol, array in shown)
    elif len(names) == 1 and not arrays and (printed[:1] == " " or "⎡" in printed):  # a table has a header
        printed = f"{names[0]} =\n{printed}"
    if printed:
        yield f"```\n{bare(printed)}\n```"


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type in ("execute_result", "display_data"):
        return str(output.data.get("text/plain", ""))
    return ""


def _arrays(text: str) -> list[str]:
    """Return the bracketed arrays of an output, in order."""
    plain, found, depth, start = bare(text), [], 0, 0
    for at, char in enumerate(plain):
        if char == "[":
            start = at if depth == 0 else start
            depth += 1
        elif char == "]" and depth:
            depth -= 1
            if depth == 0:
                found.append(plain[start : at + 1])
    return found


# -- PDF, DOCX, XLSX -------------------------------------------------------------------------------------------------


def _pdf(data: bytes, name: str) -> str:
    _library("pdfminer", "pdfminer.six", name)
    from pdfminer.high_level import extract_pages
    from pdfminer.layout import LTChar

    def characters(item: Any) -> Iterator[Any]:
        if isinstance(item, LTChar):
            yield item
        elif isinstance(item, Iterable):
            for part in item:
                yield from characters(part)

    pages: list[str] = []
    try:
        for page in extract_pages(io.BytesIO(data), laparams=None):
            if len(pages) == MAX_PAGES:
                raise InputError(f"{name} has more than {MAX_PAGES} pages", f"send at most {MAX_PAGES}")
            pages.append(page_text(characters(page)))
    except InputError:
        raise
    except Exception:  # pdfminer raises many kinds of exceptions on broken files
        raise _broken(name, "a PDF", "export it again, without a password") from None
    if not any(char.isalnum() for page in pages for char in page):
        remedy = "scan it with text recognition, or export the PDF from the program it was written in"
        raise InputError(f"{name} has no text layer: it is a scan or a photo", remedy)
    return join_pages(pages)


def _unpackable(data: bytes, name: str, what: str) -> None:
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            size = sum(item.file_size for item in archive.infolist())
    except BadZipFile:
        raise _broken(name, what, "save it again") from None
    if size > MAX_UNPACKED:
        raise InputError(f"{name} unpacks to {size / 1e6:.0f} MB", f"send at most {MAX_UNPACKED // 1_000_000} MB")


def _docx(data: bytes, name: str) -> str:
    docx = _library("docx", "python-docx", name)
    _unpackable(data, name, "a Word document")
    try:
        body = docx.Document(io.BytesIO(data)).element.body
    except Exception:  # python-docx raises KeyError, ValueError and lxml errors
        raise _broken(name, "a Word document", "save it again as DOCX") from None
    return "\n\n".join(_word(element) for element in body)


def _word(element: Any) -> str:
    tag = _local(element.tag)
    if tag == "tbl":
        rows = [[" ".join(map(_word, cell)) for cell in row if _local(cell.tag) == "tc"]
                for row in element if _local(row.tag) == "tr"]  # fmt: skip
        return _markdown_table(rows)
    return "".join(_word_parts(element))


def _word_parts(element: Any) -> Iterator[str]:
    for part in element:
        tag = _local(part.tag)
        if tag in ("oMath", "oMathPara"):
            yield f" ${_latex(_from_xml(part))}$ "
        elif tag == "t":
            yield part.text or ""
        elif tag in ("br", "tab"):
            yield "\n" if tag == "br" else "\t"
        elif tag not in ("pPr", "rPr"):
            yield from _word_parts(part)


def _markdown_table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(" ".join(cell.replace("|", "∣").split()) for cell in row) + " |" for row in rows]
    return "\n".join([*lines[:1], "|" + "---|" * len(rows[0]), *lines[1:]]) if rows else ""


def _xlsx(data: bytes, name: str) -> str:
    """Convert every sheet to CSV, one below the other."""
    openpyxl = _library("openpyxl", "openpyxl", name)
    _unpackable(data, name, "an Excel workbook")
    out, cells = io.StringIO(), 0
    writer = csv.writer(out)
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        for sheet in book.worksheets:
            if len(book.worksheets) > 1:
                writer.writerows([[sheet.title], []])
            for row in sheet.iter_rows(values_only=True):
                cells += len(row)
                if cells > MAX_CELLS:
                    raise InputError(f"{name} has more than {MAX_CELLS:,} cells", "send fewer")
                writer.writerow(["" if value is None else value for value in row])
            writer.writerow([])
    except InputError:
        raise
    except Exception:  # openpyxl raises KeyError, ValueError and errors of its XML parser
        raise _broken(name, "an Excel workbook", "save it again as XLSX") from None
    return out.getvalue()


# -- HTML, and the formulas of HTML and Word -------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    tag: str
    children: list[_Node | str] = field(default_factory=list)
    attributes: dict[str, str | None] = field(default_factory=dict)

    @property
    def nodes(self) -> list[_Node]:
        return [child for child in self.children if isinstance(child, _Node)]

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def find(self, tag: str) -> _Node | None:
        return next((node for node in self.nodes if node.tag == tag), None)


_VOID = frozenset(("br", "hr", "img", "input", "link", "meta", "wbr", "col", "source", "mspace"))
_SKIPPED = frozenset(("script", "style", "head", "title", "nav", "button", "svg", "template"))
_BLOCKS = frozenset(("p", "div", "section", "li", "ul", "ol", "h1", "h2", "h3", "h4", "tr", "br", "body", "main",
                     "article", "details", "summary", "blockquote", "dl", "dt", "dd", "pre", "h5", "h6", "figure",
                     "figcaption", "caption", "header", "footer"))  # fmt: skip


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = _Node("html")
        self.stack = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = _Node(tag, attributes=dict(attrs))
        self.stack[-1].children.append(node)
        if tag not in _VOID and len(self.stack) < MAX_DEPTH:
            self.stack.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.stack[-1].children.append(_Node(tag, attributes=dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        for at in range(len(self.stack) - 1, 0, -1):
            if self.stack[at].tag == tag:
                del self.stack[at:]
                return

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(data)


def _html(data: bytes, name: str) -> str:
    tree = _Tree()
    tree.feed(decode_text(data, name)[0])
    return re.sub(r"\n\s*\n\s*", "\n\n", "".join(_flow(tree.root)))


def _is_tex(node: _Node) -> bool:
    """Return whether a node is the source of a formula that MathJax 2 renders: <script type="math/tex">."""
    return node.tag == "script" and (node.attributes.get("type") or "").startswith("math/tex")


def _flow(node: _Node) -> Iterator[str]:
    sourced = any(map(_is_tex, node.nodes))  # the rendering beside the source repeats it
    for child in node.children:
        if isinstance(child, str):
            yield re.sub(r"\s+", " ", child) if node.tag != "pre" else child
        elif _is_tex(child):
            display = "display" in (child.attributes["type"] or "")
            yield f"\n\n$${child.text}$$\n\n" if display else f" ${child.text.strip()}$ "
        elif sourced and (child.attributes.get("class") or "").startswith("MathJax"):
            continue
        elif child.tag == "math":
            yield f" ${_formula(child)}$ "
        elif child.tag in ("sub", "sup"):
            yield ("_" if child.tag == "sub" else "^") + "{" + child.text.strip() + "}"
        elif child.tag in ("del", "s", "strike"):
            yield f"~~{''.join(_flow(child))}~~"
        elif child.tag == "img":
            yield "![image](image)"
        elif child.tag == "table":
            rows = [[text for cell in row.nodes for text in _spanned(cell)] for row in _rows(child)]
            caption = child.find("caption")
            title = "".join(_flow(caption)).strip() if caption is not None else ""
            yield f"\n\n{title}{' =' if title and ' ' not in title else ''}\n\n{_markdown_table(rows)}\n\n"
        elif child.tag == "pre":
            yield f"\n\n```\n{''.join(_flow(child))}\n```\n\n"
        elif child.tag not in _SKIPPED:
            yield "\n\n" if child.tag in _BLOCKS else ""
            yield from _flow(child)
            yield "\n\n" if child.tag in _BLOCKS else ""


def _spanned(cell: _Node) -> list[str]:
    """Return the text of a cell; that of a header over several columns is numbered: query1, query2."""
    text, span = " ".join("".join(_flow(cell)).split()), cell.attributes.get("colspan") or "1"
    columns = int(span) if span.isdecimal() and int(span) <= MAX_DEPTH else 1
    if columns == 1 or not text.isalpha():
        return [text, *[""] * (columns - 1)]
    return [f"{text}{k}" for k in range(1, columns + 1)]


def _rows(table: _Node) -> Iterator[_Node]:
    for node in table.nodes:
        if node.tag == "tr":
            yield node
        elif node.tag in ("thead", "tbody", "tfoot"):
            yield from _rows(node)


def _formula(math: _Node) -> str:
    """Convert MathML to LaTeX, using the embedded LaTeX source (KaTeX, MathJax) if there is one."""
    waiting = list(math.nodes)
    while waiting:
        node = waiting.pop()
        if node.tag == "annotation" and "tex" in (node.attributes.get("encoding") or ""):
            return node.text.strip()
        waiting += node.nodes
    return _latex(math)


def _local(tag: Any) -> str:
    return str(tag).rpartition("}")[2]


def _from_xml(element: Any) -> _Node:
    """Build a node from Office Math XML, omitting its properties (fPr, …)."""
    node = _Node(_local(element.tag))
    for child in element:
        if not _local(child.tag).endswith("Pr"):
            node.children.append(_from_xml(child))
    if element.text and node.tag == "t":
        node.children.append(element.text)
    return node


_WORDS = {"softargmax", "softmax", "exp", "log", "ln", "max", "min", "sin", "cos", "tanh", "sqrt", "relu"}


def _latex(node: _Node | str) -> str:
    """Convert MathML and Office Math to LaTeX; an unknown element is replaced by its content."""
    if isinstance(node, str):
        return node
    parts = [_latex(child) for child in node.children if not isinstance(child, str) or child.strip()]
    match node.tag:
        case "mfrac" | "f" if len(parts) == 2:
            return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"
        case "msqrt":
            return rf"\sqrt{{{''.join(parts)}}}"
        case "mroot" if len(parts) == 2:
            return rf"\sqrt[{parts[1]}]{{{parts[0]}}}"
        case "rad" if parts:
            return rf"\sqrt{{{parts[-1]}}}"
        case "msup" | "sSup" if len(parts) == 2:
            return f"{parts[0]}^{{{_raised(parts[1])}}}"
        case "msub" | "sSub" if len(parts) == 2:
            return f"{parts[0]}_{{{parts[1]}}}"
        case "msubsup" | "sSubSup" if len(parts) == 3:
            return f"{parts[0]}_{{{parts[1]}}}^{{{_raised(parts[2])}}}"
        case "mover" if len(parts) == 2:
            return rf"\hat{{{parts[0]}}}" if parts[1] in "^ˆ" else parts[0]
        case "mtable" | "m":
            rows = [row for row in node.nodes if row.tag in ("mtr", "mr")]
            lines = r" \\ ".join(" & ".join(_latex(cell) for cell in row.nodes) for row in rows)
            return rf"\begin{{matrix}} {lines} \end{{matrix}}"
        case "d":
            return f"({', '.join(parts)})"
        case "mi" | "mtext" if "".join(parts).strip() in _WORDS:
            return rf"\operatorname{{{''.join(parts).strip()}}}"
        case "mi" if len("".join(parts)) > 1 and "".join(parts)[0].isalpha():
            return rf"\mathrm{{{''.join(parts)}}}"
        case "annotation" | "annotation-xml":
            return ""
        case "mrow" | "math":
            return _fenced(" ".join(parts))
    return (" " if node.tag in ("mrow", "math", "semantics") else "").join(parts)


def _raised(text: str) -> str:
    return r"\top" if text.strip() in ("⊤", "T", "ᵀ") else text


def _fenced(text: str) -> str:
    """Remove the brackets around a matrix, so that [ table ] is one matrix."""
    return re.sub(r"[\[(]\s*(\\begin\{matrix\}(?:(?!\\begin).)*?\\end\{matrix\})\s*[\])]", r"\1", text, flags=re.S)


# -- Typst -----------------------------------------------------------------------------------------------------------

_TYPST_WORDS = {
    "approx": r"\approx ", "dot": r"\cdot ", "times": r"\times ", "top": r"\top ", "oo": r"\infty ",
    "infinity": r"\infty ",
    "sum": r"\sum ", "quad": r"\quad ", "arrow.r": r"\to ", "=>": r"\Rightarrow ", "dots": r"\dots ",
}  # fmt: skip
_NEXT = r" \\ "
_GREEK = "alpha|beta|gamma|delta|epsilon|lambda|mu|sigma|tau|phi|omega|theta|pi"


def _typst(data: bytes, name: str) -> str:
    text = decode_text(data, name)[0]
    text = re.sub(r"^(=+) ", lambda found: "#" * len(found[1]) + " ", text, flags=re.M)
    text = re.sub(r"^#(?:set|import|let|show)\b[^\n]*$|(?<!:)//[^\n]*$", "", text, flags=re.M)
    return re.sub(r"\$([^$]+)\$", lambda found: f"${_typst_formula(found[1])}$", _typst_tables(text))


def _typst_tables(text: str) -> str:
    """Convert #table(columns: 2, [a], [b], …) to Markdown."""
    out, at = "", 0
    for found in re.finditer(r"#table\(", text):
        if found.start() < at:
            continue
        end = _closing(text, found.end())
        inside = re.sub(r"table\.header\(((?:\s*\[[^\[\]\n]{0,200}\](?:\s*,)?)*)\s*\)", r"\1", text[found.end() : end])
        cells = [part[1:-1] for part in _split(inside, ",") if part.startswith("[")]
        columns = re.search(r"columns:\s*(?:(\d{1,2})|\(([^()]{0,200})\)(?:\s*\*\s*(\d{1,2}))?)", inside)
        width = 1 if columns is None else int(columns[1] or columns[3] or columns[2].count(",") + 1)
        rows = [cells[k : k + width] for k in range(0, len(cells), max(1, width))]
        out += f"{text[at : found.start()]}\n{_markdown_table(rows)}\n"
        at = end + 1
    return out + text[at:]


def _typst_formula(text: str) -> str:
    """Convert a Typst formula: mat(1, 2; 3, 4), vec(1, 2), frac(a, b), x_(1,2), sqrt(x), alpha."""
    for _ in range(MAX_DEPTH):
        found = re.search(r"\b(mat|vec|frac|sqrt|op|upright|bold|hat|cases)\(|[_^]\(", text)
        if found is None:
            break
        end = _closing(text, found.end())
        inside = text[found.end() : end]
        text = text[: found.start()] + _typst_call(found, inside) + text[end + 1 :]
    text = re.sub(rf"(?<![\\A-Za-z.])({_GREEK})(?![A-Za-z.])", r"\\\1 ", text)
    for word, command in _TYPST_WORDS.items():
        text = re.sub(rf"(?<![\\\w.]){re.escape(word)}(?![\w.])", command.replace("\\", r"\\"), text)
    return text.replace("\\\n", r"\\" + "\n")


def _closing(text: str, start: int) -> int:
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def _typst_call(found: re.Match[str], inside: str) -> str:
    match found[1]:
        case "mat":
            inside = re.sub(r"^\s*delim:\s*\"[^\"]*\",", "", inside)
            rows = _NEXT.join(" & ".join(_split(row, ",")) for row in _split(inside, ";"))
            return rf"\begin{{bmatrix}} {rows} \end{{bmatrix}}"
        case "vec":
            return rf"\begin{{bmatrix}} {_NEXT.join(_split(inside, ','))} \end{{bmatrix}}"
        case "frac":
            top, *bottom = _split(inside, ",")
            return rf"\frac{{{top}}}{{{', '.join(bottom)}}}"
        case "sqrt":
            return rf"\sqrt{{{inside}}}"
        case "op":
            return rf"\operatorname{{{inside.strip().strip(chr(34))}}}"
        case "cases":
            return rf"\begin{{cases}} {_NEXT.join(_split(inside, ','))} \end{{cases}}"
        case "hat":
            return rf"\hat{{{inside}}}"
        case None:
            return f"{found[0][0]}{{{inside}}}"
    return inside


def _split(text: str, mark: str) -> list[str]:
    """Split at marks outside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(char, 0)
        if char == mark and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in [*parts, text[start:].strip()] if part]


# -- side by side ----------------------------------------------------------------------------------------------------


_DATE = re.compile(r"\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}-\d\d-\d\d(?: [\d:]+)?")


def side_by_side(rows: Iterable[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Rearrange blocks of cells that are side by side one below the other.

    A block begins after an empty column, or with a title to the right of one that spans several columns.
    """
    out: list[tuple[int, list[str]]] = []
    band: list[tuple[int, list[str]]] = []
    for line, row in [*rows, (0, [])]:
        if any(map(_DATE.fullmatch, row)):  # the author and the date
            continue
        if any(row):
            band.append((line, row))
            continue
        out += _unstacked(band)
        out.append((line, []))
        band = []
    return out


def _unstacked(band: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Split the rows between two empty ones; labels of the rows that stand beside the first block only are dropped."""
    title: list[tuple[int, list[str]]] = []
    empty = min((next(j for j, cell in enumerate(row) if cell) for _, row in band), default=0)  # columns to the left
    band = [(line, row[empty:]) for line, row in band]
    while len(band) > 2 and sum(map(bool, band[0][1])) == 1 < sum(map(bool, band[1][1])) and band[0][1][0]:
        title, band = [*title, band[0]], band[1:]  # "Head 1" above blocks side by side
    width = max((len(row) for _, row in band), default=0)
    body = [row for _, row in band[1:]]
    gaps = [j for j in range(width) if not any(j < len(row) and row[j] for row in body)]
    head = band[0][1] if band else []
    starts = [j for j in range(width) if j < len(head) and head[j] and (j == 0 or j - 1 in gaps or not head[j - 1])]
    shared = starts[:1] == [1] and sum(map(bool, head)) == len(starts)  # an empty corner, then titles
    if not body or not starts or (not shared and (len(starts) < 2 or starts[0] != 0)):
        return [*title, *band]
    out: list[tuple[int, list[str]]] = []
    for start, after in zip(starts, [*starts[1:], width], strict=True):
        stop = next((j for j in gaps if start < j < after), after)  # before the labels of the next block
        block = [(line, row[start:stop]) for line, row in band]
        out += [*title, *((line, row) for line, row in block if any(row))]
        out.append((0, []))
    return out
