"""Every example of README.md and docs/*.md runs, and its values are those on the page.

The blocks of a page share a namespace and run in an empty folder, as users run them. `value  # → text` is compared with
repr(value). A block that begins with `# not run` needs data that is fetched, and says which.
"""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.exists()]


def blocks(text: str) -> Iterator[str]:
    """Yield the Python blocks of a page, each padded with empty lines so that errors have the right line number."""
    lines, start = text.splitlines(), None
    for n, line in enumerate(lines):
        if start is None and line.strip() == "```python":
            start = n + 1
        elif start is not None and line.strip() == "```":
            yield "\n" * start + "\n".join(lines[start:n])
            start = None
    assert start is None, f"the block at line {start} does not end"


class Comparing(ast.NodeTransformer):
    """`value  # → text` becomes `expect(value, text)`."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        _, arrow, text = self.lines[(node.end_lineno or node.lineno) - 1].partition("# → ")
        if arrow:
            node.value = ast.Call(ast.Name("expect", ast.Load()), [node.value, ast.Constant(text.strip())], [])
        return node


def expect(value: object, text: str) -> None:
    assert repr(value) == text


def run(text: str, name: str) -> int:
    """Run a page and return the number of its blocks."""
    namespace: dict[str, Any] = {"__name__": "example", "expect": expect}
    count = 0
    for count, block in enumerate(blocks(text), 1):  # noqa: B007
        if block.lstrip().startswith("# not run"):
            assert len(block.lstrip().splitlines()[0]) > len("# not run: "), f"{name} does not say what it needs"
            continue
        tree = Comparing(block.splitlines()).visit(ast.parse(block, name))
        exec(compile(ast.fix_missing_locations(tree), name, "exec"), namespace)
    return count


@pytest.fixture
def desk(unchecked: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, with the examples of the repository if it has some; one thread."""
    monkeypatch.chdir(tmp_path)
    if (ROOT / "examples").is_dir():
        (tmp_path / "examples").symlink_to(ROOT / "examples")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_runs(page: Path) -> None:
    run(page.read_text(encoding="utf-8"), str(page))


@pytest.mark.parametrize("page", ["core", "nn", "models", "decoding"])
def test_these_pages_begin_with_an_example(page: str) -> None:
    title, _, first, *_ = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert first == "```python"


def test_blocks_share_what_they_define_and_wrong_values_are_found() -> None:
    page = "```python\nx = 2\n```\ntext\n```python\nwith open(__file__):\n    x + 1  # → {}\n```\n"
    page = page.replace("__file__", repr(__file__))
    assert run(page.format("3"), "page") == 2
    with pytest.raises(AssertionError, match="assert '3' == '4'"):
        run(page.format("4"), "page")
    with pytest.raises(SyntaxError) as caught:
        run("\n\n```python\nx = = 1\n```", "page")
    assert caught.value.lineno == 4
    assert run("```python\n# not run: needs a published model\n1 / 0\n```", "page") == 1
    with pytest.raises(AssertionError, match="does not say what it needs"):
        run("```python\n# not run\n1 / 0\n```", "page")
    with pytest.raises(AssertionError, match="does not end"):
        run("```python\nx = 1\n", "page")


def test_measurements_in_scale_md_are_those_in_the_results() -> None:
    """No number of that part of docs/scale.md is typed by hand: `benchmarks/training.py --update` writes both."""
    spec = importlib.util.spec_from_file_location("training_benchmark", ROOT / "benchmarks/training.py")
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    results = json.loads((ROOT / "results/training.json").read_text(encoding="utf-8"))
    page = benchmark.PAGE.read_text(encoding="utf-8")
    written = page.partition(f"{benchmark.BEGIN}\n")[2].partition(f"\n{benchmark.END}")[0]
    assert written == benchmark.measured_section(results["card"], results["measured"])
