"""benchmarks/peers.py: what it refuses, and that a resumed run keeps the circumstances of each workload."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers.py"


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GLASSFORMER_PEERS", str(tmp_path))
    monkeypatch.syspath_prepend(str(PEERS.parent))
    spec = importlib.util.spec_from_file_location("peers", PEERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "peers", module)
    spec.loader.exec_module(module)
    return module


def card(commit: str) -> dict[str, object]:
    return {"processor": "P", "threads": 2, "date": "2026-01-02", "commit": commit}


def speeds(gigabytes: float) -> dict[str, float]:
    return {"bytes_per_second": gigabytes * 1e9, "fp32_operations_per_second": 2e9, "int8_operations_per_second": 3e9}


def test_each_workload_keeps_the_circumstances_of_its_run(
    peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {"seconds": {"glassformer int8": 2.0, "llama.cpp q8_0": 1.0}, "facts": {}, "errors": {}, "load": 0.5}
    everywhere = {"card": card("aaa"), "clock": "clock", "limits": speeds(1)}
    old = {"workloads": {"gpt2-int8": measured}, "missing": {}, **everywhere}
    path = tmp_path / "results.json"
    path.write_text(json.dumps(old), encoding="utf-8")
    results = peers.read_results(path)
    monkeypatch.setattr(peers, "limits", lambda: speeds(7))
    first = peers.run_of(results, card("aaa"), "clock", again=False)
    assert first["limits"] == speeds(1), "the same circumstances: not measured again"
    second = peers.run_of(results, card("bbb"), "clock", again=False)
    assert second == {"card": card("bbb"), "clock": "clock", "limits": speeds(7)}
    results["workloads"]["gpt2-fp32"] = {**measured, "run": second}
    path.write_text(json.dumps(results), encoding="utf-8")
    said = peers.circumstances(peers.read_results(path))
    assert "Measured on P, 2 threads, clock, load average up to 0.5:\n" in said
    assert "- GPT-2 small, 32 + 64 tokens, fp32: 2026-01-02, commit bbb; memory is read at 7 GB/s" in said
    assert "- all other workloads: 2026-01-02, commit aaa; memory is read at 1 GB/s" in said


def test_a_limit_is_known_wherever_operations_or_bytes_are(peers: ModuleType) -> None:
    from workloads import every  # type: ignore[import-not-found]

    unknown = {name for name, workload in every().items() if not workload.operations and not workload.bytes_read}
    assert unknown == {"embed"}  # which counts its own operations
    (embed,) = (every()[name] for name in unknown)
    machine = {"bytes_per_second": 1e9, "fp32_operations_per_second": 1e9}
    assert peers.limit_of(embed, "glassformer fp32", machine, {"operations": 2e9}) == 2.0
    assert peers.limit_of(embed, "glassformer fp32", machine, {}) is None
    for workload in every().values():
        assert {*workload.operations, *workload.bytes_read} <= set(workload.contenders), workload.name


def test_an_unknown_workload_is_refused() -> None:
    done = subprocess.run([sys.executable, PEERS, "--only", "nosuch", "--list"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no workload starts with nosuch; --list shows them" in done.stderr


def test_missing_peers_are_installed_again(peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (tmp_path / "missing.json").write_text('{"fastembed": "no network"}', encoding="utf-8")
    monkeypatch.setattr(peers, "CACHE", tmp_path)
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert peers.environment(False)[1] == {"fastembed": "no network"}
    assert commands == []
    assert peers.environment(True)[1] == {}
    assert [command[command.index("--only-binary=:all:") + 1] for command in commands] == ["fastembed"]
    assert json.loads((tmp_path / "missing.json").read_text("utf-8")) == {}
