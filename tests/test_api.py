"""The public API: exactly these names, typed, and documented with examples that run (docs/api.md)."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import glassformer as gf

ROOT = Path(__file__).parent.parent
VERBS = (
    "solve", "check", "load", "save", "generate", "classify", "translate", "embed", "transcribe", "train", "evaluate",
    "trace", "edit", "look", "show",
)  # fmt: skip


def typed_names() -> dict[str, str]:
    """Name → module of the imports that type checkers and editors see."""
    tree = ast.parse(Path(gf.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return {alias.name: node.module for node in block.body for alias in node.names}  # type: ignore[attr-defined]


def test_the_functions_and_nothing_else() -> None:
    others = {name for name in gf.__all__ if name not in VERBS and not inspect.ismodule(getattr(gf, name))}
    assert others == {"GlassError", "__version__"}
    assert set(VERBS) <= set(gf.__all__)
    assert dir(gf) == sorted(gf.__all__)


@pytest.mark.parametrize("name", VERBS)
def test_every_function_says_what_it_does(name: str) -> None:
    found = getattr(gf, name)
    found = found.train if inspect.ismodule(found) else found
    assert callable(found)
    assert re.match(r"[A-Z].*\.$", (found.__doc__ or "").partition("\n")[0]), found.__doc__


def test_editors_see_what_there_is() -> None:
    typed = typed_names()
    assert set(typed) | {"__version__"} == set(gf.__all__)
    for name, module in typed.items():
        found = getattr(importlib.import_module(module), name, None)
        assert found is getattr(gf, name) or name == "train"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "train" else n for n in VERBS])
def test_the_example_in_the_docstring_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = inspect.getdoc(gf.train.train if name == "train" else getattr(gf, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {"gf": gf, "torch": torch}, name, None, 0)
    assert f"gf.{name}(" in "".join(step.source for step in example.examples)
    out: list[str] = []
    assert doctest.DocTestRunner().run(example, out=out.append).failed == 0, "".join(out)


@pytest.mark.parametrize("name", VERBS)
def test_parameters_are_explicit(name: str) -> None:
    """No `**options`: a notebook completes every keyword, and a misspelt one is an error."""
    parameters = inspect.signature(getattr(gf, name)).parameters.values()
    assert [p.name for p in parameters if p.kind is p.VAR_KEYWORD or p.annotation is p.empty] == []


def test_every_function_has_an_example_in_the_documentation() -> None:
    """The blocks of docs/api.md are run by tests/test_docs.py."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.S)
    used = {name for block in blocks if "# not run" not in block for name in re.findall(r"\bgf\.(\w+)\(", block)}
    assert set(VERBS) <= used


SNIPPET = """
from pathlib import Path
import glassformer as gf
from glassformer.exercises import Exercise

page: Path = gf.solve("four-tokens").save("x.tex")
model = gf.load("writer", precision="int8")
text: str = str(gf.generate(model, "Once upon a time", max_new_tokens=40))
saved: Path = gf.look(model, "The whale").save("report.html")
with gf.trace(model, "*.A") as trace:
    pass
gf.load("writer", precison="int8")
gf.generat
"""


@pytest.mark.slow
def test_mypy_strict_knows_the_api(tmp_path: Path) -> None:
    from mypy import api

    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET, encoding="utf-8")
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    out, error, code = api.run([*options, str(snippet)])
    assert code == 1, error
    found = [line.partition("error: ")[2] for line in out.splitlines() if "snippet.py" in line and "error: " in line]
    assert found == [
        'Unexpected keyword argument "precison" for "load"; did you mean "precision"?  [call-arg]',
        'Module has no attribute "generat"; maybe "generate"?  [attr-defined]',
    ]
