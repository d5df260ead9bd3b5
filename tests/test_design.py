"""What every change keeps true of the tree: imports point one way, public names are pinned."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "glassformer"

# Lowest first: a module imports its own package and those before it.
LAYERS = (
    "errors", "files", "lazy", "malloc", "progress", "templates", "core", "exercises", "testing", "pytest_plugin",
    "nn", "models", "decoding", "checkpoints", "runtime", "data", "pipelines", "figures", "train", "lens", "lab",
    "report", "server", "widget", "cli",
)  # fmt: skip
HEIGHT = {package: height for height, package in enumerate(LAYERS)}
MODULES = sorted(path for path in SRC.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def package_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module of ours that a file imports, wherever in the file the import stands."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            module = node.module or ""
            if module == "glassformer":
                yield from ((f"glassformer.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield module, node.lineno


def test_imports_point_one_way() -> None:
    wrong = []
    for path in MODULES:
        here = package_of(path)
        if here in ("__init__", "__main__"):
            continue
        assert here in HEIGHT, f"{here} has no place in the layers"
        for module, line in imports(path):
            parts = module.split(".")
            if parts[0] == "torch" and here == "exercises":
                wrong.append(f"{path}:{line}: exercises never imports torch")
            if parts[0] != "glassformer" or len(parts) == 1 or parts[1] in (here, "__version__"):
                continue
            there = parts[1]
            if HEIGHT[there] >= HEIGHT[here] or {here, there} == {"core", "exercises"}:
                wrong.append(f"{path}:{line}: {here} imports {there}")
    assert not wrong, "\n".join(wrong)


def test_no_import_cycles() -> None:
    """Imports inside functions count, too; imports under `if TYPE_CHECKING` do not."""
    names = {module_name(path): path for path in MODULES}
    graph = {name: {found for found in run_time_imports(path, names) if found != name} for name, path in names.items()}
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> None:
        assert name not in trail, f"import cycle: {' → '.join([*trail[trail.index(name) :], name])}"
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, [*trail, name])
            done.add(name)

    for name in graph:
        visit(name, [])


def module_name(path: Path) -> str:
    parts = ("glassformer", *path.relative_to(SRC).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def run_time_imports(path: Path, names: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of ours that a file imports when it runs; `from package import module` is the module."""
    queue: list[ast.AST] = [tree(path)]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        queue += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in names:
                    yield name
                elif node.module in names:
                    yield str(node.module)


def test_every_file_and_name_in_the_architecture_exists() -> None:
    """A file is named by the end of its path; `file.py: name` is defined there."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    wrong = []
    for path, name in re.findall(r"`([\w/]+\.(?:py|html|js))(?::\s+([\w.]+))?[^`]*`", text):
        found = [ROOT / path] if (ROOT / path).exists() else sorted(SRC.glob(f"**/{path}"))
        defined = rf"^\s*(?:def|class) {name.rpartition('.')[2]}\b|^{name}\b"
        if not any(not name or re.search(defined, file.read_text(encoding="utf-8"), re.M) for file in found):
            wrong.append(f"{path} {name}")
    assert not wrong, wrong


def test_every_name_in_the_paths_of_the_architecture_is_defined() -> None:
    """A name without a file, such as `evaluate_plan`, is that of a function, class or constant somewhere."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = text.partition("## One input through")[2].partition("## Glossary")[0]
    names = re.findall(r"`(?:gf\.)?([a-z]\w{2,}|[A-Z]\w{3,})(?:\(.*?\))?`", paths)
    assert {"evaluate_plan", "Solution", "Objective", "View", "session"} <= set(names)
    code = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    packages = {package_of(path) for path in MODULES}
    missing = {name for name in names if not re.search(rf"^\s*(?:def|class) {name}\b|^{name} = ", code, re.M)}
    assert not missing - packages - {"check", "train", "trace"}, missing


def test_an_input_takes_at_most_a_dozen_hops() -> None:
    """Arrows in parentheses are stages within a file."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = re.sub(r"\([^()]*\)", "", text.partition("## One input through")[2].partition("## Glossary")[0])
    hops = {name: path.count("→") for name, path in re.findall(r"^\*\*(.+?)\*\*: (.+?)(?=\n\n)", paths, re.M | re.S)}
    assert len(hops) == 6
    assert all(count <= 12 for count in hops.values()), hops


def test_editors_complete_every_training_option() -> None:
    """A field of TrainArgs is a key of TrainOptions, too: type checkers cannot derive one from the other."""
    classes = {node.name: node for node in tree(SRC / "train/args.py").body if isinstance(node, ast.ClassDef)}
    fields = {
        name: {
            ast.unparse(n.target): ast.unparse(n.annotation) for n in classes[name].body if isinstance(n, ast.AnnAssign)
        }
        for name in ("TrainArgs", "TrainOptions")
    }
    args = {name: kind for name, kind in fields["TrainArgs"].items() if name not in ("task", "data")}
    assert fields["TrainOptions"] == args, "add the field to TrainOptions in train/args.py, too"


def test_models_are_asked_for_capabilities_and_not_for_their_class() -> None:
    """Outside models and checkpoints, no isinstance, type comparison or case pattern names an architecture."""
    architectures = {
        node.name
        for path in (SRC / "models").glob("*.py")
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and "register" in map(ast.unparse, node.decorator_list)
    }
    assert {"ViT", "Decoder", "Whisper", "Hybrid"} <= architectures
    wrong = [
        f"{path}:{line}: {name}"
        for path in MODULES
        if package_of(path) not in ("models", "checkpoints")
        for name, line in classes_tested_for(path)
        if name in architectures
    ]
    assert not wrong, "\n".join(wrong)


def classes_tested_for(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the last part of every class name that a file tests for."""
    for node in ast.walk(tree(path)):
        tested: list[ast.expr] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            tested = node.args[1:]
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node.left):
            tested = node.comparators
        elif isinstance(node, ast.MatchClass):
            tested = [node.cls]
        for part in (each for one in tested for each in ast.walk(one)):
            if isinstance(part, ast.Name):
                yield part.id, part.lineno
            elif isinstance(part, ast.Attribute):
                yield part.attr, part.lineno


def test_a_class_name_means_one_thing() -> None:
    """Private classes may share a name, and so may what is the same on paper and in a model."""
    same = {"Cost", "FeedForward", "LayerNorm", "Transport"}
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in same:
                found.setdefault(node.name, []).append(f"{path.relative_to(SRC)}:{node.lineno}")
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_packages_export_what_they_name() -> None:
    for package in sorted(HEIGHT.keys() - {"errors", "templates", "cli"}):
        if (SRC / package).is_dir():
            module = importlib.import_module(f"glassformer.{package}")
            for name in module.__all__:
                assert getattr(module, name) is not None


@pytest.mark.golden
def test_public_names_are_pinned(golden) -> None:  # type: ignore[no-untyped-def]
    golden("public_names.json", json.dumps(sorted(importlib.import_module("glassformer").__all__), indent=1) + "\n")


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_heavy() -> None:
    heavy = "[m for m in ('torch', 'numpy', 'sympy', 'matplotlib', 'typer', 'pydantic') if m in sys.modules]"
    assert run_python(f"import sys, glassformer; print({heavy})").strip() == "[]"


def test_subpackages_load_when_first_used() -> None:
    ours = "sorted(m for m in sys.modules if m.startswith('glassformer.'))"
    used = "glassformer.core.softargmax.__name__, 'glassformer.core' in sys.modules, 'glassformer.nn' in sys.modules"
    before, after = run_python(f"import sys, glassformer; print({ours}); print({used})").splitlines()
    assert before == "['glassformer.lazy']"
    assert after.split() == ["softargmax", "True", "False"]


def test_exercises_never_loads_torch() -> None:
    assert run_python("import sys, glassformer.exercises; print('torch' in sys.modules)").strip() == "False"


def test_help_loads_nothing_heavy() -> None:
    """Why `glassformer --help` answers in well under half a second."""
    heavy = "[m for m in ('torch', 'numpy', 'sympy', 'matplotlib', 'flint') if m in sys.modules]"
    assert run_python(f"import sys, glassformer.cli.main as c; c.build_app(); print({heavy})").strip() == "[]"


def test_no_generator_suspends_in_a_gradient_mode() -> None:
    """What a generator yields to must not run in its inference mode, and an abandoned one must not leave it on."""
    modes = {"no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "inference", "in_eval_mode"}

    def called(item: ast.withitem) -> str:
        function = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
        return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")

    wrong = []
    for path in MODULES:
        for function in ast.walk(tree(path)):
            if not isinstance(function, ast.FunctionDef):
                continue
            if "contextmanager" in map(ast.unparse, function.decorator_list):
                continue
            for block in ast.walk(function):
                if isinstance(block, ast.With) and modes & set(map(called, block.items)):
                    yields = [node for node in ast.walk(block) if isinstance(node, ast.Yield | ast.YieldFrom)]
                    wrong += [f"{path}:{node.lineno}: yields inside {ast.unparse(block.items[0])}" for node in yields]
    assert not wrong, "\n".join(wrong)
