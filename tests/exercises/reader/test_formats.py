"""What students hand in: notebooks, PDF, DOCX, XLSX, HTML, Typst, printed arrays, decimal commas."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import docx
import nbformat
import openpyxl
import pytest
from docx.oxml import parse_xml
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from glassformer.errors import GlassError, InputError
from glassformer.exercises import library
from glassformer.exercises.grade import grade
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import Reading, read, read_file
from glassformer.exercises.reader.formats import IMAGES, convert
from glassformer.exercises.reader.printouts import printouts
from glassformer.exercises.solution import render, solve


def said(reading: Reading) -> dict[str, str]:
    """The last side of every statement that has a target."""
    return {s.target.label: label(s.terms[-1].term) for s in reading.statements if s.target and s.terms}


def test_notebooks() -> None:
    v4 = nbformat.v4
    cells = [
        v4.new_markdown_cell(r"The queries are $Q = \begin{bmatrix} 1 & 2 \end{bmatrix}$."),
        v4.new_code_cell("K = np.array([[3, 4]])"),
        v4.new_code_cell("V", outputs=[v4.new_output("execute_result", {"text/plain": "tensor([[5.0],\n  [7.0]])"})]),
        v4.new_code_cell("print(S)\nprint(A)", outputs=[v4.new_output("stream", text="[[1.5 2.5]]\n[[0.3 0.7]]\n")]),
        v4.new_raw_cell("X = 9"),
    ]
    found = said(read(nbformat.writes(v4.new_notebook(cells=cells)), "work.ipynb"))
    assert found == {"Q": "[1, 2]", "K": "[3, 4]", "V": "[5.0; 7.0]", "S": "[1.5, 2.5]", "A": "[0.3, 0.7]"}


def test_pdf_with_a_text_layer(tmp_path: Path) -> None:
    figure = Figure()
    figure.text(0.1, 0.8, "Q = [[1, 2], [3, 4]]")
    figure.text(0.1, 0.6, "w12 = 0.5344")
    figure.savefig(tmp_path / "work.pdf")
    found = said(read_file(tmp_path / "work.pdf"))
    assert found["Q"] == "[1, 2; 3, 4]"
    assert "0.5344" in found.values()


def test_matrices_without_brackets_on_one_line_of_a_pdf(tmp_path: Path) -> None:
    """The names stand between the rows, and no bracket has a character of its own."""
    figure = Figure()
    for name, left, rows in (("Q", 0.1, ((1, 0), (4, 2))), ("K", 0.4, ((0, 3), (1, 5)))):
        figure.text(left, 0.8, f"{name} =")
        for i, row in enumerate(rows):
            for j, number in enumerate(row):
                figure.text(left + 0.08 + 0.05 * j, 0.815 - 0.03 * i, str(number))
    figure.savefig(tmp_path / "work.pdf")
    assert said(read_file(tmp_path / "work.pdf")) == {"Q": "[1, 0; 4, 2]", "K": "[0, 3; 1, 5]"}


def test_thousands_and_masked_scores_in_a_pdf(tmp_path: Path) -> None:
    figure = Figure()
    for row, text in enumerate(("S =  1,234.5    -infinity", "         12.25      3,000.75")):
        figure.text(0.1, 0.9 - 0.05 * row, text, family="monospace")
    figure.savefig(tmp_path / "work.pdf")
    assert said(read_file(tmp_path / "work.pdf")) == {"S": "[1234.5, -∞; 12.25, 3000.75]"}


def test_matrices_of_a_pdf_made_with_latex() -> None:
    """samples/matrices.pdf is samples/matrices.tex: tall brackets, matrices side by side, column vectors, fractions."""
    found = said(read_file(Path(__file__).parent.parent / "samples" / "matrices.pdf"))
    assert found["Q"] == "[3, 0; 1, 1; 2, 1]"
    assert found["K"] == "[2, 3; 2, 1; 1, 2]"
    assert [found[f"v_{i}"] for i in (1, 2, 3)] == ["[3; 2]", "[1; 1]", "[2; 5]"]
    assert found["S"] == "[4.243, 4.243, 2.121; 3.536, 2.121, 2.121; 4.950, 3.536, 2.828]"
    assert found["a_{13}"] == "0.057"


def test_a_pdf_without_text_is_a_scan(tmp_path: Path) -> None:
    Figure().savefig(tmp_path / "scan.pdf")
    with pytest.raises(InputError, match=r"no text layer.*text recognition"):
        read_file(tmp_path / "scan.pdf")


OMML = (
    '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">'
    "<m:sSub><m:e><m:r><m:t>A</m:t></m:r></m:e><m:sub><m:r><m:t>1</m:t></m:r></m:sub></m:sSub><m:r><m:t>=</m:t></m:r>"
    "<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath>"
)


def test_word_documents(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("First Q = [[1, 2], [3, 4]].")
    document.add_paragraph("Then ")._p.append(parse_xml(OMML))
    table = document.add_table(rows=3, cols=2)
    for row, texts in zip(table.rows, (("name", "value"), ("w_{1,2}", "0.5344"), ("w_{1,3}", "0.2")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    document.save(str(tmp_path / "work.docx"))
    found = said(read_file(tmp_path / "work.docx"))
    assert found == {"Q": "[1, 2; 3, 4]", "A_1": "1/2", "w_{1,2}": "0.5344", "w_{1,3}": "0.2"}


def test_workbooks_with_blocks_side_by_side(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Q", None, None, "K"], [1, 2, None, 5.5, 6], [3, 4, None, 7, 8], [], ["S"], [0.25, 0.75]):
        book.active.append(row)
    book.save(tmp_path / "work.xlsx")
    assert said(read_file(tmp_path / "work.xlsx")) == {"Q": "[1, 2; 3, 4]", "K": "[5.5, 6; 7, 8]", "S": "[0.25, 0.75]"}
    text = "Q,,,K\n1,2,,5.5,6\n3,4,,7,8\n"
    assert said(read(text, "work.csv")) == {"Q": "[1, 2; 3, 4]", "K": "[5.5, 6; 7, 8]"}


def test_html() -> None:
    page = (
        "<html><head><title>x = 9</title><style>a {b: 7}</style></head><body><h1>Work</h1><p>Q = [[1, 2]]</p>"
        "<p>K<sub>1</sub> = [3, 4]</p><table><tr><th>name</th><th>value</th></tr><tr><td>w_{1,2}</td><td>0.5</td></tr>"
        "<tr><td>w_{1,3}</td><td>0.2</td></tr></table>"
        "<math><mi>A</mi><mo>=</mo><mrow><mo>[</mo><mtable><mtr><mtd><mfrac><mn>1</mn><mn>4</mn></mfrac></mtd>"
        "<mtd><msup><mi>e</mi><mn>2</mn></msup></mtd></mtr></mtable><mo>]</mo></mrow></math>"
        '<math><annotation encoding="application/x-tex">H = \\sqrt{2}</annotation></math></body></html>'
    )
    assert said(read(page, "work.html")) == {
        "Q": "[1, 2]", "K_1": "[3, 4]", "w_{1,2}": "0.5", "w_{1,3}": "0.2", "A": "[1/4, e^2]", "H": "√(2)",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["four-tokens", "two-heads", "positions", "transport"])
def test_the_page_of_a_solution_is_graded_as_right(name: str) -> None:
    graded = grade(library.get(name), read(render(solve(name), "html"), "solution.html"))
    assert graded.score == 1
    assert not graded.unread


def test_typst() -> None:
    text = (
        "#set page(margin: 2cm)\n= Work\n$ Q = mat(1, 2; 3, 4) $\n"
        "$ k_(1) = vec(3, 4) $ and $alpha_(1,2) approx 0.5344$\n"
        '$ S = frac(1, sqrt(2)) dot mat(delim: "[", 2, 4) $\n'
    )
    found = said(read(text, "work.typ"))
    assert found["Q"] == "[1, 2; 3, 4]"
    assert found["k_1"] == "[3; 4]"
    assert found["α_{1,2}"] == "0.5344"
    assert found["S"] == "1/√(2)[2, 4]"


def test_printed_arrays() -> None:
    torch = ">>> Q\ntensor([[3.5, 0.0],\n        [1.0, 1.0]], dtype=torch.float64, grad_fn=<MmBackward0>)\n"
    torch += ">>> A\ntensor([[0.25, 0.75]])\n"
    assert said(read(torch)) == {"Q": "[3.5, 0.0; 1.0, 1.0]", "A": "[0.25, 0.75]"}
    ipython = "In [3]: S\nOut[3]: \narray([[1.5, 2.5]])\n"
    assert "[[1.5, 2.5]]" in printouts(ipython)
    matlab = "Q =\n\n     3     0\n     1     1\n\nA =\n\n    0.2500    0.7500\n"
    assert said(read(matlab)) == {"Q": "[3, 0; 1, 1]", "A": "[0.2500, 0.7500]"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"$A = \begin{bmatrix} 0,47 & -0,53 \\ 0,1 & 2,5 \end{bmatrix}$", "[0.47, -0.53; 0.1, 2.5]"),
        ("A = [0,472; 0,057]", "[0.472, 0.057]"),
        ("A = [0,47; 0,53]", "[0.47, 0.53]"),
        ("A = [1,2; 3,4]", "[1, 2; 3, 4]"),
        ("A = [10,20; 30,40]", "[10, 20; 30, 40]"),
        ("A = 0.47 ± 0.01", "0.47"),
    ],
)
def test_decimal_commas_where_they_cannot_be_separators(text: str, shown: str) -> None:
    reading = read(text)
    assert said(reading) == {"A": shown}
    assert reading.notes  # what was assumed is said


def test_decimal_commas_on_request() -> None:
    reading = read("o_1 = (0,5; 1,25) and w_{1,2} = 0,33", decimal_comma=True)
    assert said(reading) == {"o_1": "[0.5; 1.25]", "w_{1,2}": "0.33"}


@pytest.mark.parametrize("environment", ["cases", "array}{l", "aligned"])
def test_systems_of_equations(environment: str) -> None:
    name = environment.partition("}")[0]
    text = rf"$$\left\{{ \begin{{{environment}}} q_1 = (1, 2) \\ q_2 = (3, 4) \end{{{name}}} \right.$$"
    assert said(read(text)) == {"q_1": "[1, 2]", "q_2": "[3, 4]"}


@pytest.mark.parametrize("suffix", sorted(IMAGES))
def test_images_are_refused_with_what_to_do(suffix: str) -> None:
    with pytest.raises(InputError, match="text recognition"):
        read(b"\x89PNG", f"photo{suffix}")


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.xlsx", "a.ipynb", "a.doc", "a.zip"])
def test_broken_and_other_files_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(InputError) as caught:
        read(b"not what it says", name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_archives_that_unpack_to_too_much_are_refused() -> None:
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"0" * 60_000_000)
    with pytest.raises(InputError, match="unpacks to 60 MB"):
        read(packed.getvalue(), "bomb.docx")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pdfminer", None)
    with pytest.raises(InputError, match=r"pdfminer.six is needed.*glassformer\[documents\]"):
        read(b"%PDF-1.4", "a.pdf")


@given(st.binary(max_size=200), st.sampled_from([".html", ".typ", ".ipynb", ".pdf", ".docx", ".xlsx", ".md"]))
def test_any_bytes_are_converted_or_refused(data: bytes, suffix: str) -> None:
    try:
        converted = convert(data, f"a{suffix}")
    except GlassError:
        return
    assert converted is None or isinstance(converted[0], str)
