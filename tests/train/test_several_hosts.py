"""torchrun on several hosts: network namespaces of this machine, each with an address of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BRIDGE, PREFIX = "gfbridge", "10.77.0"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[str]]:
    """Two hosts that reach each other and nothing else."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need iproute2 and root")
    names = [f"gfhost{i}" for i in range(2)]
    try:
        try:
            ip("link", "add", BRIDGE, "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces ({error.stderr.decode().strip()[:80]})")
        ip("link", "set", BRIDGE, "up")
        for i, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", f"gfveth{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"gfveth{i}", "master", BRIDGE, "up")
            ip("-n", name, "addr", "add", f"{PREFIX}.{i + 1}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for i, name in enumerate(names):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            subprocess.run(["ip", "link", "del", f"gfveth{i}"], capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)


def start(host: str, number: int, port: int, processes: int, output: Path, log: Path) -> subprocess.Popen[bytes]:
    """The command of docs/scale.md on one host."""
    binaries = Path(sys.executable).parent
    command = ["ip", "netns", "exec", host, str(binaries / "torchrun"), "--nnodes", "2"]
    command += ["--nproc-per-node", str(processes), "--max-restarts", "3", "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", f"{PREFIX}.1:{port}", "--rdzv-id", output.name]
    # namespaces share one host name, by which torchrun would tell who is the first host
    command += ["--local-addr", f"{PREFIX}.{number + 1}", "--rdzv-conf", f"is_host={number == 0}"]
    command += ["--no-python", str(binaries / "glassformer"), "train", "classify", "uci-digits", "-o", str(output)]
    command += ["--arch", "mlp", "--steps", "600", "--batch-size", "64", "--save-every", "20", "--eval-every", "0"]
    command += ["--resume", "--report-to", "none"]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as file:
        return subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)


def losses(output: Path) -> dict[int, float]:
    lines = (output / "run" / "log.jsonl").read_text().splitlines()
    return {row["step"]: row["loss"] for row in map(json.loads, lines)}


def saved_step(output: Path) -> int:
    return max((int(path.name.split("-")[1]) for path in (output / "run" / "state").glob("step-*[0-9]")), default=0)


def workers(started: subprocess.Popen[bytes]) -> list[int]:
    """The training processes below a torchrun; `ip netns exec` became it."""
    return [int(pid) for pid in Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()]


def train(hosts: list[str], port: int, processes: int, output: Path, log: Path, kill_at: int | None = None) -> None:
    runs = [start(host, i, port, processes, output, log) for i, host in enumerate(hosts)]
    try:
        while kill_at is not None:
            assert all(run.poll() is None for run in runs), log.read_text()[-3000:]
            if saved_step(output) >= kill_at:
                os.kill(workers(runs[1])[0], signal.SIGKILL)
                break
            time.sleep(0.02)
        assert [run.wait(600) for run in runs] == [0, 0], log.read_text()[-3000:]
    finally:
        for run in runs:
            run.kill()
            run.wait()


def test_a_killed_process_is_restarted_and_the_job_ends_at_the_same_loss(hosts: list[str], tmp_path: Path) -> None:
    train(hosts, 29511, 1, tmp_path / "undisturbed", tmp_path / "log1")
    train(hosts, 29512, 1, tmp_path / "killed", tmp_path / "log2", kill_at=100)
    assert "resuming from step" in (tmp_path / "log2").read_text()
    before, after = losses(tmp_path / "undisturbed"), losses(tmp_path / "killed")
    assert max(before) == max(after) == 600
    assert after[600] == pytest.approx(before[600], rel=1e-6)


def test_two_processes_on_each_of_two_hosts(hosts: list[str], tmp_path: Path) -> None:
    train(hosts, 29513, 2, tmp_path / "four", tmp_path / "log")
    found = losses(tmp_path / "four")
    assert max(found) == 600
    assert found[600] < 0.5 * found[10]
