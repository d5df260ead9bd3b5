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

from glassformer.data import Fault, Faults
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.train import Progress, TrainArgs, fit
from glassformer.train import state as states
from glassformer.train.run_folder import resumed_options


def stops(at: int) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        if progress.step == at:
            os.kill(os.getpid(), signal.SIGINT)

    return show


@pytest.fixture
def plan(child: ModuleType) -> TrainArgs:
    return replace(child.ARGS, patience=None)


def test_it_learns(child: ModuleType, plan: TrainArgs) -> None:
    plan = replace(plan, steps=40, grad_accum=1, eval_every=40, ema=None)
    done = fit(child.model(), child.Made(24, 8), plan)
    assert done.stopped == "finished"
    assert done.history[-1]["val"]["accuracy"] > 0.9, "24 images are learned by heart"
    assert done.history[-1]["loss"] < 0.5 * done.history[0]["loss"]


def test_the_log_says_how_it_went(child: ModuleType, plan: TrainArgs, tmp_path: Path) -> None:
    shown: list[Progress] = []
    done = fit(child.model(), child.Made(), plan, tmp_path, callbacks=[shown.append])
    assert [line["step"] for line in done.history] == [3, 4, 6, 8, 9, 12]
    line = done.history[-1]
    assert line.keys() >= {"epoch", "loss", "lr", "grad_norm", "seconds", "examples_per_second", "val"}
    assert [told.step for told in shown] == list(range(1, 13))
    assert shown[-1].seconds_left == 0
    assert shown[3].val == done.history[1]["val"]
    lines = [json.loads(text) for text in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == done.history


def test_stopped_and_resumed_is_the_same_to_the_bit(child: ModuleType, plan: TrainArgs, tmp_path: Path) -> None:
    """With a process that reads the data, or without."""
    calm, broken = child.model(dropout=0.3), child.model(dropout=0.3)
    plan = replace(plan, patience=4)
    fit(calm, child.Made(), plan)
    first = fit(broken, child.Made(), plan, tmp_path, callbacks=[stops(5)])
    assert first.stopped == "interrupted"
    assert states.saved(tmp_path)[-1].name == "step-00000006", "the step that was under way is finished"
    again = child.model(dropout=0.3)
    last = fit(again, child.Made(), replace(plan, num_workers=1), tmp_path, resume=True)
    assert last.stopped == "finished"
    assert child.same(again, calm)
    assert [line["step"] for line in last.history] == [3, 4, 6, 8, 9, 12]
    finished = child.model(dropout=0.3)
    assert fit(finished, child.Made(), plan, tmp_path, resume=True).stopped == "finished"
    assert child.same(finished, calm), "a finished run gives its weights again"


def test_whoever_draws_random_numbers_is_not_disturbed(child: ModuleType, plan: TrainArgs) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    fit(child.model(dropout=0.1), child.Made(), plan)
    assert torch.equal(torch.get_rng_state(), before)


def test_averaged_weights_are_what_is_measured_and_given(child: ModuleType, plan: TrainArgs) -> None:
    objective = child.Made()
    plain, averaged = child.model(), child.model()
    fit(plain, objective, replace(plan, ema=None))
    done = fit(averaged, objective, plan)
    assert not child.same(plain, averaged)
    averaged.eval()
    assert objective.evaluate(averaged) == done.history[-1]["val"]


class Falling:
    """A objective whose held-out number falls from the third measurement on."""

    def __init__(self, objective: Any) -> None:
        self.objective, self.seen = objective, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.objective, name)

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        self.seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {"score": 10 - abs(len(self.seen) - 2)}


@pytest.mark.parametrize("average", [None, 0.9])
def test_patience_ends_it_and_the_best_is_given(
    child: ModuleType, plan: TrainArgs, tmp_path: Path, average: float | None
) -> None:
    objective, model = Falling(child.Made()), child.model()
    plan = replace(plan, steps=20, eval_every=2, patience=3, ema=average)
    done = fit(model, objective, plan, tmp_path)
    assert (done.stopped, done.history[-1]["step"], done.best_step) == ("early", 10, 4)
    assert all(torch.equal(tensor, objective.seen[1][name]) for name, tensor in model.state_dict().items())
    again = child.model()
    resumed = fit(again, objective, plan, tmp_path, resume=True)
    assert (resumed.stopped, resumed.best_step) == ("early", 4)
    assert child.same(again, model)


def test_gradient_checkpointing_changes_nothing_but_the_memory(child: ModuleType, plan: TrainArgs) -> None:
    one, two = child.model(dropout=0.2), child.model(dropout=0.2)
    fit(one, child.Made(), plan)
    fit(two, child.Made(), replace(plan, grad_checkpointing=True))
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    assert not any(getattr(module, "checkpointing", False) for module in two.modules())


def test_grad_checkpointing_without_effect_is_an_error(child: ModuleType, plan: TrainArgs, refused) -> None:  # type: ignore[no-untyped-def]
    run = lambda: fit(torch.nn.Linear(2, 2), child.Made(), replace(plan, grad_checkpointing=True))
    refused(ConfigError, "--grad-checkpointing has no effect on a Linear: leave it out", run)


def test_resuming_with_other_data_is_an_error(child: ModuleType, plan: TrainArgs, tmp_path: Path, refused) -> None:  # type: ignore[no-untyped-def]
    fit(child.model(), child.Made(), plan, tmp_path, callbacks=[stops(2)])
    said = "epoch 1 has 3 batches and had 5 when the run was saved"
    refused(InputError, said, lambda: fit(child.model(), child.Made(60), plan, tmp_path, resume=True))


def test_resuming_with_another_plan_or_folder_is_an_error(
    child: ModuleType, plan: TrainArgs, tmp_path: Path, refused
) -> None:  # type: ignore[no-untyped-def]
    fit(child.model(), child.Made(), plan, tmp_path, callbacks=[stops(2)])
    objective, other = child.Made(), replace(plan, seed=1)
    said = f"{tmp_path} was started with different options: --seed was 0 and is now 1"
    refused(ConfigError, said, lambda: fit(child.model(), objective, other, tmp_path, resume=True))
    refused(ConfigError, f"{tmp_path} contains a run", lambda: fit(child.model(), objective, plan, tmp_path))


def test_a_log_that_cannot_be_written(child: ModuleType, plan: TrainArgs, tmp_path: Path) -> None:
    """The disk takes no more in the middle of the run."""

    def show(progress: Progress) -> None:
        if progress.step == 5:
            (tmp_path / "log.jsonl").unlink()
            (tmp_path / "log.jsonl").mkdir()

    with pytest.raises(CheckpointError, match=r"step 6 could not be written .*last good checkpoint is .*step-00000004"):
        fit(child.model(), child.Made(), plan, tmp_path, callbacks=[show])


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
plan = replace(child.ARGS, steps=100000, save_every=None, eval_every=None, patience=None, num_workers={workers})
show = lambda told: print(told.step, flush=True)
done = child.fit(child.model(), child.Made(), plan, Path({str(tmp_path)!r}), callbacks=[show])
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
    assert err == "\nglassformer: stopping after this step and saving\n"
    assert len(states.saved(tmp_path)) == 1


def test_a_damaged_checkpoint_is_never_trained_on(
    child: ModuleType, plan: TrainArgs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Resumed from the checkpoint before it, with a message, and to the same bits."""
    calm, again = child.model(), child.model()
    fit(calm, child.Made(), plan)
    fit(child.model(), child.Made(), plan, tmp_path, callbacks=[stops(9)])
    newest = states.saved(tmp_path)[-1]
    weights = newest / "__0_0.distcp"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    fit(again, child.Made(), plan, tmp_path, resume=True)
    assert child.same(again, calm)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"glassformer: {newest} is damaged (the checksum of __0_0.distcp does not match)")
    assert said[1].startswith("glassformer: resuming from step 8 (")


def test_a_run_is_extended_or_cut_short(child: ModuleType, plan: TrainArgs, tmp_path: Path) -> None:
    constant = replace(plan, schedule="constant")
    whole, model = child.model(), child.model()
    fit(whole, child.Made(), replace(constant, steps=18))
    fit(model, child.Made(), constant, tmp_path)
    more = fit(model, child.Made(), replace(constant, steps=18), tmp_path, resume=True)
    assert more.history[-1]["step"] == 18
    assert child.same(model, whole), "with a constant learning rate it is the longer run"
    said: list[str] = []
    fewer = fit(child.model(), child.Made(), replace(constant, steps=5), tmp_path, resume=True, say=said.append)
    assert (fewer.stopped, fewer.history[-1]["step"]) == ("finished", 18)
    past = "the run is at step 18, past the 5 steps that were asked for: nothing is trained"
    assert said[-1] == f"{past}, and its length remains 18 steps"
    assert fewer.args == more.args, "what was run, and not what was asked for"
    assert child.same(fewer.model, whole)


def test_a_run_that_was_extended_is_resumed_to_its_new_length(
    child: ModuleType, plan: TrainArgs, tmp_path: Path
) -> None:
    fit(child.model(), child.Made(), plan, tmp_path)
    longer = replace(plan, steps=30)
    fit(child.model(), child.Made(), longer, tmp_path, resume=True, callbacks=[stops(20)])
    assert resumed_options(tmp_path, {})["steps"] == 30
    fewer = fit(child.model(), child.Made(), replace(plan, steps=20), tmp_path, resume=True)
    assert (fewer.stopped, fewer.args.steps) == ("interrupted", 30)
    assert resumed_options(tmp_path, {})["steps"] == 30


def test_rows_that_turn_out_to_be_unusable_are_named(child: ModuleType, plan: TrainArgs) -> None:
    """The first of every reason when it is met; a run in which no row can be used is an error."""

    class Faulty(child.Made):  # type: ignore[name-defined,misc]
        def __init__(self, usable: bool) -> None:
            super().__init__()
            self.usable, self.faults = usable, Faults()
            self.faults.note(Fault("broken", "known before"))

        def batch(self, rows: Any, seed: int) -> Any:
            for row in rows[:3]:
                self.faults.note(Fault("broken", f"row {row}"))
            return super().batch(rows, seed) if self.usable else None

    said: list[str] = []
    short = replace(plan, steps=2, warmup=0, eval_every=0)
    done = fit(child.model(), Faulty(True), short, say=said.append)
    assert [line.partition(": ")[2].partition(" ")[0] for line in said] == ["broken:"]
    assert said[0].endswith("; the run goes on, and others are counted at the end")
    assert done.faults is not None
    assert len(done.faults) > 3
    with pytest.raises(InputError, match="no row of these steps can be used"):
        fit(child.model(), Faulty(False), short)


def test_every_checkpoint_leaves_usable_weights(child: ModuleType, plan: TrainArgs, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    objective = child.Made()

    def export(model: torch.nn.Module, which: str) -> None:
        seen.append((which, objective.evaluate(model.eval())["accuracy"]))
        model.train()

    done = fit(child.model(), objective, plan, tmp_path, callbacks=[stops(6)], export=export)
    assert done.stopped == "interrupted"
    assert [which for which, _ in seen][:2] == ["last", "best"]
    best = [accuracy for which, accuracy in seen if which == "best"][-1]
    assert best == done.metrics["accuracy"] == objective.evaluate(done.model.eval())["accuracy"]
