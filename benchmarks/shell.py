"""How long commands take from the shell, beside the limits they are built for: best of several, wall time.

    .venv/bin/python benchmarks/shell.py [--tries 5]

Only an idle machine tells the truth here.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from glassformer.checkpoints import save
from glassformer.models import ViT, vit

COMMAND = [sys.executable, "-c", "from glassformer.cli.main import main; main()"]


def eight_tokens() -> str:
    """Eight tokens of width 8 with four heads."""
    draw = random.Random(0)

    def matrix(rows: int, columns: int) -> list[list[int]]:
        return [[draw.randint(-2, 2) for _ in range(columns)] for _ in range(rows)]

    heads = [{name: matrix(8, 2) for name in ("WQ", "WK", "WV")} for _ in range(4)]
    return f"X: {matrix(8, 8)}\nheads: {heads}\nWO: {matrix(8, 8)}\n"


def best(words: list[str], tries: int) -> float:
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        subprocess.run([*COMMAND, *words], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tries", type=int, default=5)
    tries = options.parse_args().tries
    with tempfile.TemporaryDirectory() as folder:
        sheet, picture, model = Path(folder, "eight.yaml"), Path(folder, "picture.png"), Path(folder, "vit")
        sheet.write_text(eight_tokens(), encoding="utf-8")
        Image.effect_noise((224, 224), 60).convert("RGB").save(picture)
        save(ViT(vit.base_16()), model)
        rows = [
            ("glassformer --help", ["--help"], 0.5),
            ("solve, four tokens", ["solve", "four-tokens"], 0.5),
            ("solve, eight tokens × 8, four heads", ["solve", str(sheet)], 3.0),
            ("look, ViT-B/16, one picture", ["look", str(model), str(picture), "-o", f"{folder}/r.html"], 10.0),
        ]
        for name, words, limit in rows:
            print(f"{name:40} {best(words, tries):6.2f} s of {limit} s")


if __name__ == "__main__":
    main()
