"""A fuzzer of exercises, answers, documents and files: python tests/fuzz.py --inputs 100000 --seed 0

Hypothesis makes the inputs, mostly from pieces that mean something, with numbers exchanged and characters deleted,
doubled or swapped. They are tried in shards of 500, each in a process of its own with 2 GB of memory. An input fails if
anything but a GlassError is raised, if it takes more than two seconds of processor time, or if it ends the process.

Finished shards are kept in a file that is named after a digest of the code, so an interrupted run continues, and every
count belongs to one state of the code. Inputs are counted once, however often they occur.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import io
import json
import logging
import multiprocessing
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from glassformer.errors import GlassError
from glassformer.exercises import library
from glassformer.exercises.exercise import load_exercise
from glassformer.exercises.grade import grade
from glassformer.exercises.grade.view import FORMATS
from glassformer.exercises.reader import read
from glassformer.exercises.solution import FORMATS as SOLUTIONS
from glassformer.exercises.solution import render, solve

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests/exercises/samples"
SECONDS = 2.0  # of processor time for one input, as in glassformer.exercises.grade.workers
MEGABYTES = 2048
SHARD = 500  # inputs
NUMBERS = ["0", "1", "-3", "0.25", "1e-320", "99999999999999999999", "1/2", "1/0", "sqrt(2)", "e^50", "e^{30}", "10^9", "-inf", "nan", "7/2", "0,47", "2.5e3", "±0.1"]  # noqa: E501
EXACT = ("0", "1", "-3", "0.25", "1e-320", "99999999999999999999", "1/2", "sqrt(2)", "e^50", "7/2", "e", "-1e-5", "40", "sqrt(8)/3")  # noqa: E501
SYMBOLS = ["Q", "K", "V", "S", "A", "O", "H", "X", "WQ", "q_1", "a_{12}", "e_{11}", "w_{1,j}", "QK^T", "out_2", "heads", "z1"]  # noqa: E501
WORDS = ("For token 2:", "softmax ->", "Head 1", "If", "the weights sum to", "for example", "row 1 and 2", "context")
WRAPS = ("$$%s$$", "$%s$", "%s", "\\[%s\\]", "`%s`", "| %s | 2 |", "\\cancel{%s}", "\\frac{%s}{2}", "((%s", "%s = ")
GRADED = ("one-query", "four-tokens", "columns", "causal", "cross", "two-heads", "layernorm", "block", "transport")
FIELDS = ["Q", "K", "V", "X", "WO", "scale", "mask", "layout", "layernorm", "memory", "transport", "patches"]
SETTINGS = ("causal", "none", "1/sqrt(dk)", "columns", "{eps: 1e-5}", "{p: [1/2, 1/2], q: [1, 0]}")
EDITS = ("number", "number", "number", "cut", "double", "swap", "put")
RELATIONS = ("=", "≈", "->", ":=", "= 2 \\cdot")
ODD = "\0\x1b\u200b\u0301\u2028\ufeff\ud800𝑄∞√²₁ᵀ⎡⎤·×−–½%&\\{}[]()$|`~#^_=<>:;,.'\"*-+/ \n\t"
NUMBER = re.compile(r"\d+(?:\.\d+)?")
SOLVED = [render(solve(library.get(name)), form) for name in GRADED for form in ("text", "markdown", "latex")]

Edit = tuple[int, str, str]
number = st.sampled_from(NUMBERS)
row = st.lists(number, min_size=1, max_size=4)
matrix = st.lists(row, min_size=1, max_size=4)
latex = matrix.map(lambda m: r"\begin{bmatrix}" + r" \\ ".join(" & ".join(r) for r in m) + r"\end{bmatrix}")
value = st.one_of(number, row.map(lambda r: f"({', '.join(r)})"), matrix.map(lambda m: str(m).replace("'", "")), latex)
equation = st.tuples(st.sampled_from(SYMBOLS), st.sampled_from(RELATIONS), value).map(" ".join)
piece = st.one_of(
    st.tuples(st.sampled_from(WRAPS), equation).map(lambda pair: pair[0] % pair[1]),
    st.sampled_from(WORDS),
    st.text(max_size=12),
    st.tuples(st.sampled_from(SOLVED), st.integers(0, 4000)).map(lambda pair: pair[0][pair[1] : pair[1] + 400]),
)
edits = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(EDITS), st.sampled_from(ODD)), min_size=1, max_size=6
)


def mutated(text: str, changes: list[Edit], numbers: Sequence[str] = NUMBERS) -> str:
    for place, kind, char in changes:
        k = place % (len(text) + 1)
        if kind == "number":
            found = list(NUMBER.finditer(text))
            if found:
                start, end = found[place % len(found)].span()
                text = text[:start] + numbers[place // len(found) % len(numbers)] + text[end:]
        elif kind == "cut":
            text = text[:k] + text[k + 1 :]
        elif kind == "double":
            text = text[:k] + text[k : k + 20] * 2 + text[k + 20 :]
        elif kind == "swap":
            text = text[:k] + text[k + 1 : k + 2] + text[k : k + 1] + text[k + 2 :]
        else:
            text = text[:k] + char + text[k:]
    return text


def as_yaml(mapping: dict[str, str]) -> str:
    return "\n".join(f"{key}: {item}" for key, item in mapping.items()) + "\n"


# -- the kinds of input, and what is done with one ---------------------------------------------------------------------

names = st.sampled_from(GRADED)
documents = st.tuples(
    st.tuples(st.lists(piece, max_size=6).map("\n\n".join), edits).map(lambda pair: mutated(*pair)),
    names, st.sampled_from(FORMATS),
)  # fmt: skip
answers = st.tuples(st.dictionaries(st.sampled_from(SYMBOLS), value, max_size=4).map(as_yaml), names)
fields = st.dictionaries(st.sampled_from(FIELDS), st.one_of(value, st.sampled_from(SETTINGS)), max_size=5).map(as_yaml)
known = st.sampled_from(library.names()).map(library.text)
broken = st.tuples(st.one_of(fields, known), edits).map(lambda pair: mutated(*pair))
other = st.tuples(known, st.lists(st.integers(0, 10**6), min_size=1, max_size=4)).map(
    lambda pair: mutated(pair[0], [(place, "number", "") for place in pair[1]], EXACT)
)
exercises = st.tuples(st.one_of(broken, other), st.sampled_from(SOLUTIONS))


def files() -> dict[str, bytes]:
    """One small file of every format that is read, from which others are made."""
    import docx
    import nbformat
    import openpyxl

    text = (SAMPLES / "four-tokens.md").read_text(encoding="utf-8")[:2000]
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell("S = [[1, 2], [3, 4]]")]
    word, sheet = docx.Document(), openpyxl.Workbook()
    for line in text.splitlines()[:20]:
        word.add_paragraph(line)
        sheet.worksheets[0].append(["Q", 1, 2.5, line[:20]])
    saved = {"a.docx": io.BytesIO(), "a.xlsx": io.BytesIO()}
    word.save(saved["a.docx"])
    sheet.save(saved["a.xlsx"])
    page = f"<html><body><p>{text}</p><table><tr><td>S</td><td>0.5</td></tr></table></body></html>"
    return {
        **{name: repacked(data.getvalue()) for name, data in saved.items()},
        "a.ipynb": nbformat.writes(notebook).encode(),
        "a.pdf": (SAMPLES / "matrices.pdf").read_bytes(),
        "a.html": page.encode(),
        "a.typ": b"$ Q = mat(1, 2; 3, 4) $\n$ A = mat(0.5, 0.5; 1, 0) $\n",
        "a.csv": b"Q,,,K,,\n1,2,,0,1,\n3,4,,2,2,\n\nA,1,1,0.5\n",
    }


def repacked(data: bytes) -> bytes:
    """The same archive without compression, so that a change of one byte changes the text inside."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return out.getvalue()


def changed(pair: tuple[str, bytes], changes: list[Edit]) -> tuple[str, str]:
    """A file with some bytes changed, as (name, text) in which every character is a byte."""
    return pair[0], mutated(pair[1].decode("latin-1"), [(k, e, c if ord(c) < 256 else "\xff") for k, e, c in changes])


def grade_document(text: str, name: str, form: str) -> None:
    grade(library.get(name), read(text, "a.md")).render(form)


def grade_answers(text: str, name: str) -> None:
    grade(library.get(name), read(text, "a.yaml"))


def solve_exercise(text: str, form: str) -> None:
    render(solve(load_exercise(text + "\n")), form)


def grade_file(name: str, text: str) -> None:
    data = text.encode("latin-1")
    if zipfile.is_zipfile(io.BytesIO(data)):
        data = _checked(data)
    grade(library.get("four-tokens"), read(data, name))


def _checked(data: bytes) -> bytes:
    """The archive with checksums that fit its contents, so that the changes reach the reader."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            for info in old.infolist():
                info.CRC = 0
                old.NameToInfo[info.filename].CRC = 0
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as new:
                for info in old.infolist():
                    with old.open(info) as member:
                        member._expected_crc = None  # type: ignore[attr-defined]
                        new.writestr(info.filename, member.read())
        return out.getvalue()
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, OSError, UnicodeError, RuntimeError):
        return data


Target = Callable[..., None]
TARGETS: dict[str, tuple[Target, Callable[[], st.SearchStrategy[Any]], int]] = {  # with its share in percent
    "documents": (grade_document, lambda: documents, 42),
    "answers": (grade_answers, lambda: answers, 25),
    "exercises": (solve_exercise, lambda: exercises, 30),
    "files": (grade_file, lambda: st.builds(changed, st.sampled_from(sorted(files().items())), edits), 3),
}


# -- one shard ---------------------------------------------------------------------------------------------------------


def digest(kind: str, text: str) -> str:
    return hashlib.blake2b(f"{kind}\0{text}".encode(errors="surrogatepass"), digest_size=8).hexdigest()


def trial(kind: str, inputs: int, number: int, last: Path) -> dict[str, Any]:
    """Try the inputs of one shard; the result says how many worked or were refused, and what the slowest was."""
    target, strategy, _ = TARGETS[kind]
    counts: Counter[str] = Counter()
    seen: dict[str, None] = {}
    slowest = (0.0, "")
    failures: list[dict[str, str]] = []

    @seed(number)
    @settings(
        max_examples=inputs, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy())
    def one(parts: tuple[str, ...]) -> None:
        nonlocal slowest
        text = json.dumps(parts, ensure_ascii=False)
        last.write_text(f"{kind}\n{text}", encoding="utf-8", errors="surrogatepass")
        gc.collect(0)
        signal.setitimer(signal.ITIMER_PROF, 3 * SECONDS)  # SIGPROF ends the process
        began = time.process_time()
        try:
            target(*parts)
            counts["worked"] += 1
        except GlassError:
            counts["refused"] += 1
        except Exception:
            failures.append({"input": text, "failure": traceback.format_exc(limit=-4)})
        spent = time.process_time() - began
        signal.setitimer(signal.ITIMER_PROF, 0)
        if spent > SECONDS:
            failures.append({"input": text, "failure": f"{spent:.1f} s of processor time"})
        slowest = max(slowest, (spent, text))
        seen[digest(kind, text)] = None

    one()
    return {
        "kind": kind, "seed": number, **counts, "slowest": round(slowest[0], 3), "slowest_input": slowest[1],
        "failures": failures, "digests": list(seen),
    }  # fmt: skip


def child(kind: str, inputs: int, number: int, last: Path, state: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.freeze()
    found = trial(kind, inputs, number, last)
    with state.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found, ensure_ascii=True) + "\n")
    last.unlink()


# -- all of them -------------------------------------------------------------------------------------------------------


def fingerprint() -> str:
    """Return the digest of the code that is tried, and of this file."""
    package = ROOT / "src/glassformer"
    paths = [*package.glob("*.py"), *package.glob("exercises/**/*"), *package.glob("templates/*"), Path(__file__)]
    found = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file() and path.suffix in (".py", ".yaml", ".html", ".css")):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:12]


def shards(number: int) -> Iterator[tuple[str, int]]:
    """Yield (kind, seed) without end, the kinds in their shares."""
    turns = Counter[str]()
    for turn in count(1):
        kind = max(TARGETS, key=lambda kind: TARGETS[kind][2] * turn - 100 * turns[kind])
        turns[kind] += 1
        yield kind, number * 1_000_000 + turn


def results(state: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines()] if state.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="How many different inputs to try.")
    parser.add_argument("--seed", type=int, default=0, help="Random seed.")
    parser.add_argument("--jobs", type=int, default=1, help="Number of processes.")
    parser.add_argument("--state", type=Path, default=Path(".fuzz"), help="Folder of the finished shards.")
    args = parser.parse_args()
    logging.getLogger("pdfminer").setLevel(logging.CRITICAL)
    args.state.mkdir(parents=True, exist_ok=True)
    state = args.state / f"{fingerprint()}.jsonl"
    done = {(item["kind"], item["seed"]) for item in results(state)}
    seen = {each for item in results(state) for each in item["digests"]}
    fork = multiprocessing.get_context("fork")
    running: list[tuple[Any, Path]] = []
    died: list[str] = []

    def wait(most: int) -> None:
        while len(running) > most:
            process, last = running.pop(0)
            process.join()
            if process.exitcode != 0:
                died.append(f"ended with code {process.exitcode}: {last.read_text(encoding='utf-8', errors='replace')}")
        seen.update(each for item in results(state) for each in item["digests"])
        if sys.stderr.isatty():
            print(f"\r{len(seen):,} inputs", end="", file=sys.stderr)

    for kind, number in shards(args.seed):
        if len(seen) >= args.inputs or len(died) >= 5:
            break
        if (kind, number) in done:
            continue
        last = args.state / f"last-{kind}-{number}.txt"
        inputs = min(SHARD, args.inputs)
        process = fork.Process(target=child, args=(kind, inputs, number, last, state))
        process.start()
        running.append((process, last))
        wait(args.jobs - 1)
    wait(0)
    sys.exit(report(results(state), died))


def report(found: list[dict[str, Any]], died: list[str]) -> int:
    """Print the counts by kind and every failure; return the exit code."""
    everything = {each for item in found for each in item["digests"]}
    for kind in TARGETS:
        mine = [item for item in found if item["kind"] == kind]
        worked, refused = (sum(item.get(what, 0) for item in mine) for what in ("worked", "refused"))
        slowest = max((item["slowest"] for item in mine), default=0.0)
        print(f"{kind}: {worked:,} worked, {refused:,} refused, slowest {slowest:.2f} s")
    failures = [f"{item['kind']}: {each['failure']}\n{each['input']}" for item in found for each in item["failures"]]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout
    for said in (*failures, *died):
        print(said, end="\n\n")
    print(f"{len(everything):,} different inputs, {len(failures) + len(died)} failures, commit {commit.strip()}")
    return 1 if failures or died else 0


if __name__ == "__main__":
    main()
