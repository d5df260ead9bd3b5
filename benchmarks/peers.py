"""Speed beside the libraries that people pick for speed, as ratios, every contender in turn in one run.

    .venv/bin/python benchmarks/peers.py [--only NAME ...] [--minutes N] [--rounds N] [--threads N] [--cpu-time]
                                         [--again] [--short] [--profile] [--output FILE] [--update] [--tables FILE]
                                         [--list]

Installs its peers (the extra `peers`) into an environment of its own, wheels only, and names those that cannot be
installed. Every contender runs in a process of its own and waits for its turn; the best of its turns counts. Finished
workloads are kept in results/peers-DATE.json, each with the commit and the limits of its run, so an interrupted run
continues there; --again measures anew and tries to install missing peers. --update rewrites the tables in README.md and
docs/runtime.md, and --tables FILE does so from a results file without measuring. Results are reliable on an idle
machine only; on a busy one use --threads 1 --cpu-time. --short runs every contender once on a small input, to see that
it works. --profile prints which operators take our time, on one thread: the source of the column "where the time goes".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- speed -->\n", "<!-- /speed -->"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer" / "peers"
PEERS = tuple(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["peers"])
# Versions of what Glassformer itself uses stay as they are.
SAME = ("torch", "transformers", "tokenizers", "onnxruntime", "numpy", "onnx", "onnxscript", "safetensors")
FETCHED = ("all-minilm-l6-v2", "whisper-tiny.en", "stories15m", "smollm2-135m")
INSTALL_SECONDS = 400
MINUTES = 25.0
OPERATORS = 10  # that --profile prints


# ---- the peers' environment ------------------------------------------------------------------------------------------


def environment(again: bool) -> tuple[Path, dict[str, str]]:
    """The interpreter that has the peers, and a reason for every one that it has not.

    Installed once, then kept; `again` tries to install those that are missing.
    """
    from importlib.metadata import PackageNotFoundError, version

    place = CACHE / "venv"
    python, log = place / "bin" / "python", CACHE / "missing.json"
    wanted: Iterable[str] = PEERS
    if python.exists() and log.exists():
        missing = json.loads(log.read_text(encoding="utf-8"))
        if not (missing and again):
            return python, missing
        wanted = missing
    else:
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        site = next((place / "lib").glob("python*")) / "site-packages"
        inherited = [str(Path(path).resolve()) for path in sys.path if path.endswith("site-packages")]
        (site / "inherited.pth").write_text("\n".join(inherited) + "\n", encoding="utf-8")
    same = []
    for name in SAME:
        try:
            same.append(f"{name}=={version(name)}")
        except PackageNotFoundError:
            continue
    missing = {}
    for name in wanted:
        print(f"installing {name} …", flush=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            done = subprocess.run(
                [*command, "--only-binary=:all:", name, *same], capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
        except subprocess.TimeoutExpired:
            missing[name] = f"not installed within {INSTALL_SECONDS} s"
            continue
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
            missing[name] = errors[0].removeprefix("ERROR: ")[:200]
    log.write_text(json.dumps(missing, indent=1), encoding="utf-8")
    return python, missing


def versions(python: Path) -> dict[str, str]:
    """Versions of the peers, as their environment has them."""
    code = (
        "import json, importlib.metadata as m; found = {}\n"
        f"for name in {PEERS + SAME!r}:\n"
        "    try: found[name] = m.version(name)\n    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def worker_environment() -> dict[str, str]:
    """Variables of a contender's process."""
    parallel = "false" if os.environ["OMP_NUM_THREADS"] == "1" else "true"
    source = str(ROOT / "src")
    return {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "PYTHONPATH": source, "TOKENIZERS_PARALLELISM": parallel}


# ---- contenders ------------------------------------------------------------------------------------------------------


def work(name: str, contender: str) -> None:
    """The child process: load, do the work once, then once for each line of stdin; answers are lines of JSON."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not look like an answer

    def answer(**facts: Any) -> None:
        print(json.dumps(facts), file=answers, flush=True)

    try:
        import torch
        from workloads import CPU_TIME, THREADS, every

        torch.set_num_threads(THREADS)
        clock = time.process_time if CPU_TIME else time.perf_counter
        ready = every()[name].contenders[contender]()
        (ready.warm or ready.run)()
        answer(facts=dict(ready.facts))
        for _ in sys.stdin:
            start = clock()
            own = ready.run()
            took = clock() - start
            answer(seconds=own if isinstance(own, float) else took)
    except Exception as error:
        traceback.print_exc()
        answer(error=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}")
    answers.flush()
    os._exit(0)  # some peers hang when their threads are torn down


def profile(name: str, contender: str) -> None:
    """The child process of --profile: print the operators that take the most time of one run, on one thread."""
    import torch
    from workloads import every

    torch.set_num_threads(1)
    ready = every()[name].contenders[contender]()
    (ready.warm or ready.run)()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as run:
        start = time.perf_counter()
        ready.run()
        total = time.perf_counter() - start
    print(f"{name}, {contender}: {1e3 * total:,.1f} ms with the profiler")
    for event in sorted(run.key_averages(), key=lambda event: -event.self_cpu_time_total)[:OPERATORS]:
        share = event.self_cpu_time_total / 1e6 / total
        print(f"  {share:6.1%}  {event.count:7,} ×  {event.key}")
    sys.stdout.flush()
    os._exit(0)


@dataclass
class Child:
    """One contender's process."""

    process: subprocess.Popen[str]
    facts: dict[str, Any]
    times: list[float]
    error: str | None = None

    @classmethod
    def start(cls, python: Path, name: str, contender: str, log: IO[str]) -> Child:
        """Start loading; the first answer says that it is done."""
        command = [str(python), __file__, "--worker", name, contender]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
        process = subprocess.Popen(command, env={**os.environ, **worker_environment()}, **pipes)
        return cls(process, {}, [])

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        said: dict[str, Any] = json.loads(line) if line else {"error": f"ended with {self.process.wait()}"}
        self.error = self.error or said.get("error")
        return said

    def turn(self) -> None:
        if self.error is None:
            assert self.process.stdin is not None
            print(file=self.process.stdin, flush=True)
            said = self.hear()
            if "seconds" in said:
                self.times.append(said["seconds"])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(python: Path, name: str, rounds: int | None, until: float) -> dict[str, Any]:
    """The best time of each contender of a workload, and why others have none.

    Contenders load side by side and then take turns, at least one each, until the clock shows `until`.
    """
    from workloads import every

    workload = every()[name]
    children: dict[str, Child] = {}
    with (CACHE / "log.txt").open("a", encoding="utf-8") as log:
        try:
            for contender in workload.contenders:
                children[contender] = Child.start(python, name, contender, log)
            for child in children.values():
                child.facts = child.hear().get("facts", {})
            for turn in range(rounds or workload.rounds):
                start = time.perf_counter()
                for child in list(children.values())[:: 1 if turn % 2 == 0 else -1]:
                    time.sleep(0.05)  # threads of the one before stop spinning
                    child.turn()
                if 2 * time.perf_counter() - start > until:  # another round would take too long
                    break
        finally:
            for child in children.values():
                child.stop()
    return {
        "seconds": {name: min(child.times) for name, child in children.items() if child.times},
        "turns": {name: len(child.times) for name, child in children.items()},
        "facts": {name: child.facts for name, child in children.items() if child.facts},
        "errors": {name: child.error for name, child in children.items() if child.error},
        "load": os.getloadavg()[0],
    }


def limits() -> dict[str, float]:
    """What the machine can do at most, by torch: bytes read per second, and operations per second of large products."""
    import torch

    from glassformer.runtime import interleaved, machine
    from glassformer.runtime.kernels import BFloat16Kernel, Float32Kernel, Int8Kernel

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    n = 2048
    block, a, b = torch.ones(1 << 27), torch.randn(n, n), torch.randn(n, n)
    kernels = {"fp32": Float32Kernel(), "int8": Int8Kernel()}
    kernels |= {"bf16": BFloat16Kernel()} if "bf16" in machine().chosen else {}
    with torch.no_grad():
        times = interleaved(
            {
                "bytes": lambda: block.sum(),
                "torch": lambda: a @ b,
                **{name: (lambda kernel=kernel: kernel(a, b, None)) for name, kernel in kernels.items()},
            },
            rounds=5,
            clock=time.process_time if os.environ.get("GLASSFORMER_CPU_TIME") else time.perf_counter,
        )
    return {
        "bytes_per_second": 4 * block.numel() / times["bytes"],
        "fp32_operations_per_second": 2 * n**3 / min(times["torch"], times["fp32"]),
        **{f"{name}_operations_per_second": 2 * n**3 / times[name] for name in kernels if name != "fp32"},
    }


# ---- the table -------------------------------------------------------------------------------------------------------


def limit_of(workload: Any, ours: str, machine: dict[str, float], facts: Mapping[str, Any]) -> float | None:
    """The least time that memory and products allow, in seconds. A contender may report its own `operations`."""
    named = f"{workload.name} {ours}"
    precision = next((one for one in ("int8", "bf16") if one in named), "fp32")
    parts = []
    if "operations" in facts:
        parts.append(facts["operations"] / machine[f"{precision}_operations_per_second"])
    if ours in workload.bytes_read:
        parts.append(workload.bytes_read[ours] / machine["bytes_per_second"])
    if ours in workload.operations:
        parts.append(workload.operations[ours] / machine[f"{precision}_operations_per_second"])
    return max(parts, default=None)


def rows(results: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each of our contenders that has a target: its time, and its ratio to each other one."""
    from workloads import every

    found = []
    for name, workload in every().items():
        measured = results["workloads"].get(name, {"seconds": {}, "facts": {}, "run": {}})
        seconds = measured["seconds"]
        peers = {peer: s for peer, s in seconds.items() if not peer.startswith("glassformer")}
        for ours in dict.fromkeys(target.ours for target in workload.targets):
            variant = ours.removeprefix("glassformer").strip(", ")
            wanted = [target for target in workload.targets if target.ours == ours]
            own = seconds.get(ours)
            ratios = {} if own is None else {peer: own / s for peer, s in peers.items()}
            if own is not None and workload.unit == "×":
                ratios["real time"] = own
            ratios["the best int8 peer"] = max((r for peer, r in ratios.items() if "int8" in peer), default=None)
            limit = (
                None
                if own is None
                else limit_of(workload, ours, measured["run"]["limits"], measured["facts"].get(ours, {}))
            )
            found.append(
                {
                    "workload": workload.title,
                    "title": workload.title + (f" ({variant})" if variant and variant not in workload.title else ""),
                    "seconds": own,
                    "unit": workload.unit,
                    "ratios": ratios,
                    "best": min(peers, key=lambda peer: peers[peer]) if own is not None and peers else None,
                    "today": workload.today if own is not None and workload.today in peers else None,
                    "limit": None if own is None or limit is None else own / limit,
                    "targets": [(t.peer, t.ratio, ratios.get(t.peer)) for t in wanted],
                    "cosines": {one: facts["cosine"] for one, facts in measured["facts"].items() if "cosine" in facts},
                    "ours": ours,
                    "limited_by": workload.limited_by,
                }
            )
    return found


def shown(seconds: float | None, unit: str) -> str:
    if seconds is None:
        return "not measured"
    return {"ms": f"{1e3 * seconds:,.1f} ms", "s": f"{seconds:,.1f} s", "×": f"{seconds:.3f} ×"}[unit]


def verdict(ratio: float | None, wanted: float) -> str:
    if ratio is None:
        return "not measured"
    return "met" if ratio <= wanted else f"missed by {100 * (ratio / wanted - 1):.0f} %"


def accuracy(row: dict[str, Any]) -> str:
    """Mean cosine to fp32 of our contender, then of every peer that was compared with it: speed at another accuracy."""
    cosines = dict(row["cosines"])
    own = cosines.pop(row["ours"], None)
    peers = "".join(f"; {peer} {cosine:.4f}" for peer, cosine in cosines.items() if not peer.startswith("glassformer"))
    return "" if own is None else f"{own:.4f}{peers}"


def markdown(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, ["---"] * len(columns), *lines))


def described(run: Mapping[str, Any]) -> str:
    """When a run was made, and the machine's limits then."""
    card, machine = run["card"], run["limits"]
    bf16 = machine.get("bf16_operations_per_second")
    return (
        f"{card['date']}, commit {card['commit']}; memory is read at {machine['bytes_per_second'] / 1e9:.0f} GB/s, and "
        f"matrix products reach {machine['fp32_operations_per_second'] / 1e9:.0f} GFLOP/s in fp32, "
        + ("" if bf16 is None else f"{bf16 / 1e9:.0f} GFLOP/s in bf16 ")
        + f"and {machine['int8_operations_per_second'] / 1e9:.0f} GOP/s in int8"
    )


def machines(results: dict[str, Any]) -> str:
    """The processor, the clock and the load of all runs in one sentence."""
    workloads = results["workloads"].values()
    used = {f"{m['run']['card']['processor']}, {m['run']['card']['threads']} threads" for m in workloads}
    clocks = {m["run"]["clock"] for m in workloads}
    load = max((m["load"] for m in workloads), default=0)
    return f"Measured on {' and '.join(sorted(used))}, {' and '.join(sorted(clocks))}, load average up to {load:.1f}"


def circumstances(results: dict[str, Any]) -> str:
    """The machine and the clock, the date, commit and limits of every run, and which peers are missing or failed."""
    from workloads import every

    runs: dict[str, list[str]] = {}
    for name, measured in results["workloads"].items():
        runs.setdefault(described(measured["run"]), []).append(every()[name].title)
    largest = max(runs, key=lambda run: len(runs[run]), default="")
    lines = [f"- {'; '.join(titles)}: {run}." for run, titles in runs.items() if run != largest]
    lines.append(f"- {'all other' if lines else 'all'} workloads: {largest}.")
    lines += [f"- Missing: {name} ({why})." for name, why in results["missing"].items()]
    lines += [
        f"- {contender} did not run in {every()[name].title} ({why})."
        for name, measured in results["workloads"].items()
        for contender, why in measured["errors"].items()
    ]
    return "\n".join([f"{machines(results)}:", *lines])


def read_results(path: Path) -> dict[str, Any]:
    """What was measured before. Each workload has the circumstances of its run; older files have one for all."""
    if not path.exists():
        return {"workloads": {}}
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    everywhere = {key: results.pop(key) for key in ("card", "clock", "limits") if key in results}
    for measured in results["workloads"].values():
        measured.setdefault("run", everywhere)
    return results


def run_of(results: dict[str, Any], card: dict[str, Any], clock: str, *, again: bool) -> dict[str, Any]:
    """The circumstances of this run, with the limits that were measured before in the same ones."""
    runs = [measured["run"] for measured in results["workloads"].values()]
    same = [run for run in runs if (run["card"], run["clock"]) == (card, clock)]
    return same[-1] if same and not again else {"card": card, "clock": clock, "limits": limits()}


def summary_table(results: dict[str, Any]) -> str:
    """For README.md: our time as a ratio to peers, to what people use today and to the machine's limit; the targets."""
    lines = []
    for row in rows(results):
        best, today, ratios = row["best"], row["today"], row["ratios"]
        lines.append(
            (
                row["title"],
                shown(row["seconds"], row["unit"]),
                "–" if best is None else f"{ratios[best]:.2f} ({best})",
                "–" if today is None else f"{ratios[today]:.2f} ({today})",
                "–" if row["limit"] is None else f"{row['limit']:.1f}",
                "; ".join(f"{wanted:g} × {peer}: {verdict(ratio, wanted)}" for peer, wanted, ratio in row["targets"]),
            )
        )
    columns = ("workload", "ours", "× fastest peer", "× what people use today", "× machine's limit", "target")
    runs = {f"{m['run']['card']['date']}, commit {m['run']['card']['commit']}" for m in results["workloads"].values()}
    note = f"{machines(results)} ({'; '.join(sorted(runs))}). Ratios below 1 mean that Glassformer is faster."
    return f"{markdown(columns, lines)}\n\n{note}"


def full_table(results: dict[str, Any]) -> str:
    """For docs/runtime.md: each target with its verdict, accuracy and the machine's limit; then what limits each."""
    lines = []
    for row in rows(results):
        targets = "; ".join(
            f"{'–' if ratio is None else f'{ratio:.2f}'} × {peer} (target {wanted:g}, {verdict(ratio, wanted)})"
            for peer, wanted, ratio in row["targets"]
        )
        limit = "–" if row["limit"] is None else f"{row['limit']:.1f}"
        lines.append((row["title"], shown(row["seconds"], row["unit"]), targets, limit, accuracy(row)))
    columns = ("workload", "time", "ratio to the target's peer", "× machine's limit", "cosine to fp32")
    reasons: dict[str, list[str]] = {}
    for row in rows(results):
        reasons.setdefault(row["limited_by"], []).append(row["workload"])
    limits = [("; ".join(dict.fromkeys(titles)), reason) for reason, titles in reasons.items()]
    return "\n\n".join(
        (markdown(columns, lines), circumstances(results), markdown(("workload", "where the time goes"), limits))
    )


def rewrite(path: Path, table: str) -> None:
    """Put the table between its marks in a file."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    path.write_text(f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="+", metavar="NAME", help="Workloads to measure; a prefix selects several.")
    options.add_argument("--minutes", type=float, default=MINUTES, help="Time for all workloads; each has its turn.")
    options.add_argument("--rounds", type=int, help="Turns of each contender. Defaults to the workload's own number.")
    options.add_argument("--threads", type=int, default=2, help="Threads of every contender.")
    options.add_argument("--cpu-time", action="store_true", help="Processor time instead of the clock's.")
    options.add_argument("--output", type=Path, help="Results. Defaults to results/peers-DATE.json.")
    options.add_argument("--again", action="store_true", help="Measure anew, and try to install missing peers.")
    options.add_argument("--short", action="store_true", help="Run every contender once on a small input.")
    options.add_argument("--profile", action="store_true", help="Print the operators of our own contenders.")
    options.add_argument("--update", action="store_true", help="Rewrite the tables in README.md and docs/runtime.md.")
    options.add_argument("--tables", type=Path, metavar="FILE", help="Rewrite the tables from this results file.")
    options.add_argument("--list", action="store_true", help="List the workloads and their contenders.")
    options.add_argument("--worker", nargs=2, metavar=("WORKLOAD", "CONTENDER"), help=argparse.SUPPRESS)
    wanted = options.parse_args()
    if wanted.worker:
        return (profile if wanted.profile else work)(*wanted.worker)
    os.environ |= {"OMP_NUM_THREADS": str(wanted.threads), "GLASSFORMER_PEERS": str(CACHE)}
    os.environ |= {"GLASSFORMER_CPU_TIME": "1"} if wanted.cpu_time else {}
    os.environ |= {"GLASSFORMER_SHORT": "1"} if wanted.short else {}
    if wanted.short and wanted.update:
        options.error("--short measures nothing that --update could write")
    from workloads import every

    unknown = [one for one in wanted.only or () if not any(name.startswith(one) for name in every())]
    if unknown:
        options.error(f"no workload starts with {', '.join(unknown)}; --list shows them")
    names = [name for name in every() if not wanted.only or any(name.startswith(one) for one in wanted.only)]
    if wanted.list:
        for name in names:
            print(f"{name:20} {', '.join(every()[name].contenders)}")
        return None
    if wanted.tables:
        results = read_results(wanted.tables)
        rewrite(ROOT / "README.md", summary_table(results))
        rewrite(ROOT / "docs" / "runtime.md", full_table(results))
        return None
    from glassformer.data.registry import fetch
    from glassformer.runtime import card

    python, missing = environment(wanted.again)
    for model in FETCHED:
        fetch(model)
    if wanted.profile:
        for name in names:
            for contender in (one for one in every()[name].contenders if one.startswith("glassformer")):
                command = [str(python), __file__, "--profile", "--worker", name, contender]
                subprocess.run(command, env={**os.environ, **worker_environment()}, check=True)
        return None
    name = f"peers-{'short' if wanted.short else time.strftime('%Y-%m-%d')}.json"
    path = wanted.output or (CACHE if wanted.short else ROOT / "results") / name
    results = read_results(path) | {"date": time.strftime("%Y-%m-%d"), "missing": missing, "versions": versions(python)}
    clock = "processor time" if wanted.cpu_time else "best wall-clock time"
    run = run_of(results, card() | {"threads": wanted.threads}, clock, again=wanted.again)
    left = [name for name in names if wanted.again or name not in results["workloads"]]
    end = time.perf_counter() + 60 * wanted.minutes
    for i, name in enumerate(left):
        start = time.perf_counter()
        until = start + (end - start) / (len(left) - i)
        found = measure(python, name, 1 if wanted.short else wanted.rounds, until)
        results["workloads"][name] = found | {"run": run}
        part = path.with_suffix(".part")
        part.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(part, path)
        seconds = ", ".join(f"{key} {1e3 * value:,.1f} ms" for key, value in found["seconds"].items())
        print(f"{name}: {seconds} [{time.perf_counter() - start:.0f} s]", *found["errors"].items(), flush=True)
    if not wanted.short:
        print(summary_table(results))
    if wanted.update:
        rewrite(ROOT / "README.md", summary_table(results))
        rewrite(ROOT / "docs" / "runtime.md", full_table(results))
    return None


if __name__ == "__main__":
    main()
