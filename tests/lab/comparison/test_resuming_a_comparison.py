from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import InputError
from glassformer.lab.comparison.plan import ComparisonPlan, relevant_settings
from glassformer.lab.comparison.results import load_results
from glassformer.lab.comparison.runner import RunProgress, carry_out, reuse
from glassformer.lab.comparison.tasks import units


@pytest.fixture
def cheap(plan: ComparisonPlan) -> ComparisonPlan:
    """Gradients, one-step trainings and streams: milliseconds each."""
    reach = replace(plan.reach, gradients=(2, 3), distances=(), steps=1, longer_steps=1, longer=(8,), rates=(1e-2,))
    return replace(plan, name="cheap", tasks=("reach", "streaming"), reach=reach)


@pytest.mark.slow
def test_everything_is_measured_once(cheap: ComparisonPlan, tmp_path: Path) -> None:
    seen: list[RunProgress] = []
    path = carry_out(cheap, tmp_path, show=seen.append)
    expected = [unit.key for unit in units(cheap)]
    assert [step.unit.key for step in seen] == expected
    assert [step.done for step in seen] == list(range(len(expected)))
    assert seen[-1].weight_done < seen[-1].weight
    assert path.name.startswith("compare-cheap-20")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]  # no half-made folder is left


def test_stopped_and_resumed(cheap: ComparisonPlan, tmp_path: Path) -> None:
    done: list[str] = []

    def stop(step: RunProgress) -> None:
        done.append(step.unit.key)
        if len(done) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(cheap, tmp_path, show=stop)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "compare-cheap.part" / "units").iterdir()}
    assert len(files) == 6
    again: list[str] = []
    path = carry_out(cheap, tmp_path, show=lambda step: again.append(step.unit.key))
    assert sorted(done[:6] + again) == sorted(unit.key for unit in units(cheap))  # nothing twice, nothing left out
    assert len(json.loads(path.read_text())["units"]) == len(done[:6]) + len(again)


@pytest.mark.slow
def test_a_part_is_measured_again_and_the_rest_is_kept(cheap: ComparisonPlan, tmp_path: Path) -> None:
    first = carry_out(cheap, tmp_path, command="first")
    measured = lambda path: {
        (one["task"], str(one["settings"]), one["part"], one["seed"]): one for one in load_results(path).units
    }
    before = measured(first)
    reuse(cheap, [first], tmp_path, again=["streaming"])
    seen: list[RunProgress] = []

    def stop(step: RunProgress) -> None:
        seen.append(step)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(cheap, tmp_path, show=stop)
    reuse(cheap, [first], tmp_path, again=["streaming"])  # the same again goes on
    path = carry_out(cheap, tmp_path, show=seen.append)
    keys = [step.unit.key for step in seen]
    assert keys[:1] + keys[2:] == [unit.key for unit in units(cheap) if unit.task == "streaming"]
    after = measured(path)
    assert after.keys() == before.keys()
    assert {key[0] for key in after if after[key] != before[key]} == {"streaming"}


@pytest.mark.slow
def test_a_unit_that_a_file_lacks_is_measured(cheap: ComparisonPlan, tmp_path: Path) -> None:
    done = carry_out(cheap, tmp_path)
    data = json.loads(done.read_text())
    whole = len(data["units"])
    del data["units"][0]
    done.write_text(json.dumps(data))
    reuse(cheap, [done], tmp_path)
    assert len(load_results(carry_out(cheap, tmp_path)).units) == whole


def altered(path: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The results file of another run."""
    data = json.loads(path.read_text())
    change(data)
    to.write_text(json.dumps(data))
    return to


def test_runs_are_merged_by_a_command(cheap: ComparisonPlan, tmp_path: Path) -> None:
    """Each unit comes from the first file that has it with the same settings; the commands of all runs are kept."""
    cheap = replace(cheap, architectures=("RNN", "MLP"), seeds=(0,))
    done = carry_out(cheap, tmp_path, command="first")
    only = lambda task, name: altered(
        done, tmp_path / f"{name}.json",
        lambda data: data.update(command=name, units=[each for each in data["units"] if each["task"] == task]),
    )  # fmt: skip
    files = [only("reach", "a"), only("streaming", "b")]
    seen: list[str] = []
    reuse(cheap, files, tmp_path)
    merged = load_results(carry_out(cheap, tmp_path, command="c", show=lambda step: seen.append(step.unit.key)))
    assert not seen
    assert merged.commands == ["a", "b", "c"]
    assert merged.units == load_results(done).units

    changed = replace(cheap, streaming=replace(cheap.streaming, rounds=3))
    reuse(changed, files[:1], tmp_path)
    carry_out(changed, tmp_path, show=lambda step: seen.append(step.unit.key))
    assert seen == [unit.key for unit in units(cheap) if unit.task == "streaming"]
    with pytest.raises(InputError, match=r"b\.json has no measurement of this plan"):
        reuse(changed, files, tmp_path)

    def elsewhere(data: dict[str, Any]) -> None:
        data["card"]["processor"] = "Z80"

    with pytest.raises(InputError, match="was measured on Z80, and this machine has"):
        reuse(cheap, [altered(done, tmp_path / "z80.json", elsewhere)], tmp_path)


def test_another_learning_rate_than_the_search_chose_is_measured_again(cheap: ComparisonPlan, tmp_path: Path) -> None:
    cheap = replace(cheap, architectures=("RNN", "MLP"), seeds=(0,), tasks=("reach",))
    done = carry_out(cheap, tmp_path)

    def otherwise(data: dict[str, Any]) -> None:
        for each in data["units"]:
            if each["part"] == "longer" and each["settings"]["architecture"] == "MLP":
                each["result"]["lr"] = 0.5

    reuse(cheap, [altered(done, tmp_path / "other.json", otherwise)], tmp_path)
    seen: list[str] = []
    carry_out(cheap, tmp_path, show=lambda step: seen.append(step.unit.key))
    assert seen == ["reach,longer,architecture=MLP,seed=0"]


def test_measurements_that_a_change_of_the_plan_leaves_alone_are_reused(plan: ComparisonPlan) -> None:
    """Another size of the data curve or other rates to search repeat only what depends on them."""
    before = replace(plan, tasks=("bias", "data"))
    sizes = {"sizes": (8, 16, 24), "size_steps": (2, 3, 4), "size_seeds": (2, 2, 1)}
    grown = replace(before, data=replace(plan.data, **sizes), bias=replace(plan.bias, rates=(1e-2, 2e-2)))  # type: ignore[arg-type]
    same = {unit.key for unit in units(before) if relevant_settings(before, unit) == relevant_settings(grown, unit)}
    added = {unit.key for unit in units(grown)} - same
    assert {key for key in added if key.startswith("bias")} == {
        f"bias,search,architecture={name},seed=10000" for name in ("Transformer", "CNN", "MLP")
    }
    assert {key for key in added if key.startswith("data")} == {
        f"data,images,dataset=fashion-mnist,architecture={name},size=24,seed=0" for name in ("Transformer", "CNN")
    }
    longer = replace(before, data=replace(plan.data, size_steps=(2, 5)))
    changed = [u.key for u in units(before) if relevant_settings(before, u) != relevant_settings(longer, u)]
    assert all("size=16" in key for key in changed)
    assert len(changed) == 4  # two architectures, two seeds


@pytest.mark.slow
def test_measuring_again_what_is_not_there_or_in_the_way_of_another_run(cheap: ComparisonPlan, tmp_path: Path) -> None:
    done = carry_out(cheap, tmp_path)
    with pytest.raises(InputError, match=r"no unit of .* starts with 'cost'"):
        reuse(cheap, [done], tmp_path, again=["streaming", "cost"])

    def stop(step: RunProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(cheap, tmp_path, show=stop)
    with pytest.raises(InputError, match="an unfinished run"):
        reuse(cheap, [done], tmp_path, again=["streaming"])


def test_another_plan_is_not_mixed_in(cheap: ComparisonPlan, tmp_path: Path) -> None:
    def stop(step: RunProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(cheap, tmp_path, show=stop)
    with pytest.raises(InputError, match="contains a run with another plan"):
        carry_out(replace(cheap, seeds=(0,)), tmp_path)


def test_two_at_a_time_are_refused(cheap: ComparisonPlan, tmp_path: Path) -> None:
    def nested(step: RunProgress) -> None:
        with pytest.raises(InputError, match="locked by another process"):
            carry_out(cheap, tmp_path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(cheap, tmp_path, show=nested)


@pytest.mark.slow
def test_complete_tasks_of_an_unfinished_run(cheap: ComparisonPlan, tmp_path: Path) -> None:
    first = sum(unit.task == "reach" for unit in units(cheap))

    def stop(step: RunProgress) -> None:
        if step.done == first + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(cheap, tmp_path, show=stop)
    part = load_results(tmp_path / "compare-cheap.part")
    assert part.plan.tasks == ("reach",)
    assert {unit["task"] for unit in part.units} == {"reach"}


CHILD = """
import sys; sys.path.insert(0, {tests!r})
from dataclasses import replace
from pathlib import Path
from conftest import small
from glassformer.lab.comparison.runner import carry_out
plan = small("killed", tasks=("reach",))
carry_out(replace(plan, reach=replace(plan.reach, steps=20)), Path({folder!r}))
"""


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """kill -9 again and again: what was finished is never touched again, and in the end each unit is there once."""
    code = CHILD.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    work = tmp_path / "compare-killed.part"
    chance, kept, kills = random.Random(0), dict[str, int](), 0
    while True:
        child = subprocess.Popen([sys.executable, "-c", code])
        while child.poll() is None and len(list(work.glob("units/*.json"))) <= len(kept):
            time.sleep(0.01)
        try:
            child.wait(chance.uniform(0, 0.5))
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            kills += 1
        else:
            assert child.returncode == 0
            break
        now = {path.name: path.stat().st_mtime_ns for path in work.glob("units/*.json")}
        assert kept.items() <= now.items()
        kept = now
        if kills == 4:  # then it may finish
            assert subprocess.run([sys.executable, "-c", code]).returncode == 0
            break
    (file,) = tmp_path.glob("compare-killed-*.json")
    keys = [unit["part"] + str(unit["settings"]) + str(unit["seed"]) for unit in json.loads(file.read_text())["units"]]
    assert len(keys) == len(set(keys)) == 6 + 7 + 2 * (6 * 2 + 6 * 2 + 7)  # searches, then two seeds
    assert kills >= 1
