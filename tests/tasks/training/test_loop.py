from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.tasks.training import Plan, Progress, train
from glassformer.tasks.training import state as states


def stops(at: int) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        if progress.step == at:
            os.kill(os.getpid(), signal.SIGINT)

    return show


@pytest.fixture
def plan(child: ModuleType) -> Plan:
    return replace(child.PLAN, patience=None)


def test_it_learns(child: ModuleType, plan: Plan) -> None:
    plan = replace(plan, steps=40, accumulate=1, measure_every=40, average=None)
    done = train(child.model(), child.Made(24, 8), plan)
    assert done.stopped == "done"
    assert done.history[-1]["held_out"]["accuracy"] > 0.9, "24 images are learned by heart"
    assert done.history[-1]["loss"] < 0.5 * done.history[0]["loss"]


def test_the_log_says_how_it_went(child: ModuleType, plan: Plan, tmp_path: Path) -> None:
    shown: list[Progress] = []
    done = train(child.model(), child.Made(), plan, tmp_path, show=shown.append)
    assert [line["step"] for line in done.history] == [3, 4, 6, 8, 9, 12]
    line = done.history[-1]
    assert line.keys() >= {"epoch", "loss", "rate", "gradient", "seconds", "examples_per_second", "held_out"}
    assert [told.step for told in shown] == list(range(1, 13))
    assert shown[-1].left == 0
    assert shown[3].held_out == done.history[1]["held_out"]
    lines = [json.loads(text) for text in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == done.history


def test_stopped_and_resumed_is_the_same_to_the_bit(child: ModuleType, plan: Plan, tmp_path: Path) -> None:
    """With a process that reads the data, or without."""
    calm, broken = child.model(dropout=0.3), child.model(dropout=0.3)
    plan = replace(plan, patience=4)
    train(calm, child.Made(), plan)
    first = train(broken, child.Made(), plan, tmp_path, show=stops(5))
    assert first.stopped == "interrupted"
    assert states.steps(tmp_path)[-1].name == "step-00000006", "the step that was under way is finished"
    again = child.model(dropout=0.3)
    last = train(again, child.Made(), replace(plan, workers=1), tmp_path, resume=True)
    assert last.stopped == "done"
    assert child.same(again, calm)
    assert [line["step"] for line in last.history] == [3, 4, 6, 8, 9, 12]
    finished = child.model(dropout=0.3)
    assert train(finished, child.Made(), plan, tmp_path, resume=True).stopped == "done"
    assert child.same(finished, calm), "a finished run gives its weights again"


def test_whoever_draws_random_numbers_is_not_disturbed(child: ModuleType, plan: Plan) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    train(child.model(dropout=0.1), child.Made(), plan)
    assert torch.equal(torch.get_rng_state(), before)


def test_averaged_weights_are_what_is_measured_and_given(child: ModuleType, plan: Plan) -> None:
    lesson = child.Made()
    plain, averaged = child.model(), child.model()
    train(plain, lesson, replace(plan, average=None))
    done = train(averaged, lesson, plan)
    assert not child.same(plain, averaged)
    averaged.eval()
    assert lesson.measure(averaged) == done.history[-1]["held_out"]


class Falling:
    """A lesson whose held-out number falls from the third measurement on."""

    def __init__(self, lesson: Any) -> None:
        self.lesson, self.seen = lesson, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lesson, name)

    def measure(self, model: torch.nn.Module) -> dict[str, float]:
        self.seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {"score": 10 - abs(len(self.seen) - 2)}


@pytest.mark.parametrize("average", [None, 0.9])
def test_patience_ends_it_and_the_best_is_given(
    child: ModuleType, plan: Plan, tmp_path: Path, average: float | None
) -> None:
    lesson, model = Falling(child.Made()), child.model()
    plan = replace(plan, steps=20, measure_every=2, patience=3, average=average)
    done = train(model, lesson, plan, tmp_path)
    assert (done.stopped, done.history[-1]["step"], done.best_step) == ("early", 10, 4)
    assert all(torch.equal(tensor, lesson.seen[1][name]) for name, tensor in model.state_dict().items())
    again = child.model()
    resumed = train(again, lesson, plan, tmp_path, resume=True)
    assert (resumed.stopped, resumed.best_step) == ("early", 4)
    assert child.same(again, model)


def test_gradient_checkpointing_changes_nothing_but_the_memory(child: ModuleType, plan: Plan) -> None:
    one, two = child.model(dropout=0.2), child.model(dropout=0.2)
    train(one, child.Made(), plan)
    train(two, child.Made(), replace(plan, checkpointing=True))
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    assert not any(getattr(module, "checkpointing", False) for module in two.modules())


def test_checkpointing_of_nothing_is_told(child: ModuleType, plan: Plan, refused) -> None:  # type: ignore[no-untyped-def]
    run = lambda: train(torch.nn.Linear(2, 2), child.Made(), replace(plan, checkpointing=True))
    refused(ConfigError, "a Linear has no blocks to compute again: leave out checkpointing", run)


def test_other_data_is_told(child: ModuleType, plan: Plan, tmp_path: Path, refused) -> None:  # type: ignore[no-untyped-def]
    train(child.model(), child.Made(), plan, tmp_path, show=stops(2))
    said = "epoch 1 has 3 batches and had 5 when the run was saved"
    refused(InputError, said, lambda: train(child.model(), child.Made(60), plan, tmp_path, resume=True))


def test_another_plan_or_folder_is_told(child: ModuleType, plan: Plan, tmp_path: Path, refused) -> None:  # type: ignore[no-untyped-def]
    train(child.model(), child.Made(), plan, tmp_path, show=stops(2))
    lesson, other = child.Made(), replace(plan, seed=1)
    said = f"{tmp_path} was started with another plan: seed was 0 and is now 1"
    refused(ConfigError, said, lambda: train(child.model(), lesson, other, tmp_path, resume=True))
    refused(ConfigError, f"{tmp_path} has a run", lambda: train(child.model(), lesson, plan, tmp_path))


def test_a_log_that_cannot_be_written(child: ModuleType, plan: Plan, tmp_path: Path) -> None:
    """The disk takes no more in the middle of the run."""

    def show(progress: Progress) -> None:
        if progress.step == 5:
            (tmp_path / "log.jsonl").unlink()
            (tmp_path / "log.jsonl").mkdir()

    with pytest.raises(CheckpointError, match=r"step 6 could not be written .*last good state is .*step-00000004"):
        train(child.model(), child.Made(), plan, tmp_path, show=show)


@pytest.mark.slow
def test_killed_again_and_again(launch: Callable[..., str], tmp_path: Path) -> None:
    """On real digits, with augmentation, dropout, accumulation, average: SIGKILL 24 times, the same bits in the end."""
    said = json.loads(launch("killed", str(tmp_path), "24", "1", GLASSFORMER_DATA=str(tmp_path / "data")))
    assert said["codes"].count(-signal.SIGKILL) >= 20, said
    assert said["last"] == 0
    calm, killed = (torch.load(tmp_path / name / "out.pt") for name in ("calm", "killed"))
    assert calm.keys() == killed.keys()
    assert all(torch.equal(tensor, killed[name]) for name, tensor in calm.items())


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_scheduler_ends_the_whole_group_and_nothing_is_lost(child: ModuleType, tmp_path: Path, workers: int) -> None:
    """SIGTERM to every process of the job, those that read data too, as Slurm sends it: saved, and exit 0."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import child
from dataclasses import replace
from pathlib import Path
import torch
torch.set_num_threads(1)
plan = replace(child.PLAN, steps=100000, save_every=None, measure_every=None, patience=None, workers={workers})
show = lambda told: print(told.step, flush=True)
done = child.train(child.model(), child.Made(), plan, Path({str(tmp_path)!r}), show=show)
print(done.stopped)
"""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True, **pipes)
    try:
        assert process.stdout is not None
        while (line := process.stdout.readline()).strip() != "20":
            assert line, "it ended before its 20th step"
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "interrupted"
    assert err == ""
    assert len(states.steps(tmp_path)) == 1
