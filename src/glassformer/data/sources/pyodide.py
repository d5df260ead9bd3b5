"""Pyodide and the packages of the exercise engine: what `glassformer site` puts into a browser."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from glassformer.data.packages import Package, extract
from glassformer.data.registry import Item

FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
WASM = {"platform": "pyemscripten_2026_0_wasm32", "python": "3.14"}
LINUX = {"platform": "manylinux2014_x86_64"}


def _pyodide(files: list[Path], folder: Path) -> None:
    extract(files[0], {f"package/{name}": name for name in FILES}, folder)
    names = []
    for wheel in files[1:]:
        names.append(f"{wheel.name.split('-')[0]}.whl")
        _repack(wheel, folder / names[-1])
    (folder / "wheels.json").write_text(json.dumps(names), encoding="utf-8")


def _repack(wheel: Path, target: Path) -> None:
    """Copy a wheel without its Linux binaries, which PyYAML and MarkupSafe do not need."""
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name in whole.namelist():
            if "linux" not in name:
                made.writestr(name, whole.read(name))


def _wheel(name: str, version: str, sha256: str, megabytes: float = 0.1, **options: str) -> Package:
    return Package(registry="pip", name=name, version=version, sha256=sha256, megabytes=megabytes, **options)  # type: ignore[arg-type]


PYODIDE: dict[str, Item] = {
    "pyodide": Item(
        about="Python in the browser, for glassformer site",
        licence="MPL-2.0",
        origin="The Pyodide project, MPL-2.0; python-flint and FLINT, MIT and LGPL-3.0; the other packages MIT, "
        "BSD-3-Clause, PSF-2.0 or Apache-2.0. Unchanged, except that machine code for other platforms is left out.",
        packages=(
            Package(
                registry="npm",
                name="pyodide",
                version="314.0.7",
                sha256="66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0",
                megabytes=6.5,
            ),
            _wheel(
                "python-flint", "0.9.0", "b31f5c00e0e36040ab58d00b3025156e20869b990d776e4bf90f870b1ee11ad3", 7.1, **WASM
            ),
            _wheel(
                "pydantic-core",
                "2.50.4",
                "e6da138a1ecc1341c8b788a5ee822670b03788e1f5decf7af9d461de6e508b8e",
                1.5,
                **WASM,
            ),
            _wheel("pydantic", "2.14.3", "3f7b347782ab7e4cf4c798496ae3a82787d9f21ec12676a9c564355eeef8daa8", 0.5),
            _wheel("pyyaml", "6.0.3", "ba1cc08a7ccde2d2ec775841541641e4548226580ab850948cbfda66a1befcdc", 0.8, **LINUX),
            _wheel(
                "markupsafe", "3.0.4", "8e124f974786f831d6043728e38296969d3579db8896fe004682f5758e613581", 0.1, **LINUX
            ),
            _wheel("jinja2", "3.1.6", "85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67"),
            _wheel("fastapi", "0.162.4", "f093bc306d3958278d30ffd14f3834ca3d9b144fbb898ab5c9b652cf6e75f869", 0.2),
            _wheel("starlette", "1.10.0", "478c0ab3b4ced6e82719849c118fa406f0278a3499c1a898cd15cd31bdc38ce4"),
            _wheel("anyio", "4.16.0", "c66ae634e0b8228396b801741beb3294326d4b6102f7bba4041c0dfb58c29026"),
            _wheel("idna", "3.20", "ab7ae7122974553370f0bdb919e1a960b2cd1bc1ef0276416d896db81c14582c"),
            _wheel("annotated-types", "0.8.0", "f072f4d804ea359e4eaf198b1af7a8b0943881a87f31bb764f8bf219bb9419e0"),
            _wheel("annotated-doc", "0.0.6", "361ca0950cc7082f53fa69e9328409f40a62c61e57e0a47e1825a08078a58a53"),
            _wheel("typing-inspection", "0.4.5", "bc210535442b39e1bf2805e0c7a17dfd6a4ace760c84c7f7d16245d23a6b1c39"),
            _wheel("typing-extensions", "4.16.0", "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8"),
            _wheel("opentelemetry-api", "1.45.2", "2cbd737377e710ee740d261c94e93fa0f08e6d037c18f17513cc0a2d94479a34"),
        ),
        make=_pyodide,
    ),
}
