"""Which kernels work here, and the file in which the choice is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.core.precision import runs_in_child_process
from glassformer.runtime.kernels import BFloat16Kernel, Float32Kernel, Int8Kernel, OneDNNInt8Kernel
from glassformer.runtime.machine import _TRY, Machine, machine, measure, why_not

HERE = sys.modules[why_not.__module__]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Machine]]:
    """An empty cache, and what was measured instead of read from it."""
    found: list[Machine] = []

    def again() -> Machine:
        chosen = {"fp32": "torch"}
        found.append(
            Machine(processor="p", threads=1, torch="t", chosen=chosen, small="torch", many_rows="Int8Kernel",
                    attention="torch", refused={"K": "why"})
        )  # fmt: skip
        return found[-1]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(HERE, "measure", again)
    yield found
    machine.cache_clear()


def start() -> Machine:
    """What a new process finds."""
    machine.cache_clear()
    return machine()


def test_a_machine_is_measured_once(measured: list[Machine], tmp_path: Path) -> None:
    assert start() == start() == measured[0]
    assert len(measured) == 1
    (kept,) = (tmp_path / "glassformer").iterdir()
    kept.write_text("{", encoding="utf-8")
    assert start() == measured[1]


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [(HERE, "instructions", lambda: "sse2"), (HERE, "processor", lambda: "another"), (torch, "__version__", "9.9"),
     (torch, "get_num_threads", lambda: 77), (glassformer, "__version__", "9.9")],
)  # fmt: skip
def test_another_machine_or_version_is_measured_again(
    place: object, name: str, value: object, measured: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    monkeypatch.setattr(place, name, value)
    start()
    assert len(measured) == 2


def test_a_cache_that_cannot_be_written_is_no_error(
    measured: list[Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert start() == measured[0]


@pytest.mark.parametrize(("ratios", "small"), [([0.7, 0.8, 0.9], "TransposedKernel"), ([0.7, 0.8, 1.1], "torch")])
def test_another_product_of_small_layers_has_to_be_faster_every_time(
    ratios: list[float], small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HERE, "_relative_times", lambda kernels, rounds: dict.fromkeys(kernels, 1.0))
    monkeypatch.setattr(HERE, "_relative_time_of_few_rows", lambda rounds: ratios.pop())
    found = measure()
    assert found.small == small
    assert found.relative["TransposedKernel"] == 0.8
    assert f"small layers in fp32: {small}" in str(found)


@pytest.mark.parametrize(
    ("ratio", "many_rows", "attention"), [(0.9, "OneDNNInt8Kernel", "bf16"), (1.1, "Int8Kernel", "torch")]
)
def test_kernels_of_many_rows_have_to_be_faster_every_time(
    ratio: float, many_rows: str, attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = [0.8, ratio, 0.7]
    times = (
        [{"Int8Kernel": 1.0, "OneDNNInt8Kernel": one} for one in ratios],
        [{"torch": 1.0, "bf16": one} for one in ratios],
    )
    monkeypatch.setattr(HERE, "why_not", lambda kernel: None)
    monkeypatch.setattr(HERE, "_relative_times", lambda kernels, rounds: dict.fromkeys(kernels, 1.0))
    monkeypatch.setattr(HERE, "_relative_time_of_few_rows", lambda rounds: 1.0)
    monkeypatch.setattr(HERE, "_times_of_many_rows", lambda kernels, rounds: times[0].pop())
    monkeypatch.setattr(HERE, "_times_of_attention", lambda rounds: times[1].pop())
    found = measure()
    assert (found.many_rows, found.attention) == (many_rows, attention)
    assert f"many rows in int8: {many_rows}; attention of int8 and bf16 models: {attention}" in str(found)
    assert found.int8_kernel(many_rows=True).__name__ == many_rows
    assert found.int8_kernel() is Int8Kernel


def test_a_machine_without_int8_and_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HERE, "why_not", lambda kernel: None if kernel is Float32Kernel else "it is not there")
    found = measure(rounds=1)
    assert found.attention == "torch"
    assert set(found.chosen) == {"fp32"}


def test_why_a_kernel_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_not(Float32Kernel) is None
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    assert why_not(BFloat16Kernel) == "the processor has no bfloat16 products"
    monkeypatch.setattr(HERE, "advertises_amx", lambda: True)
    tried: list[str] = []

    def crashes(code: str) -> bool:
        tried.append(code)
        return runs_in_child_process("import os; os.kill(os.getpid(), 4)")  # as an instruction that is missing does

    monkeypatch.setattr(HERE, "runs_in_child_process", crashes)
    assert why_not(OneDNNInt8Kernel) == "the processor advertises AMX and cannot run it"
    assert tried == [_TRY.format(name="OneDNNInt8Kernel")]
    monkeypatch.setattr(Int8Kernel, "pack", lambda *_: (_ for _ in ()).throw(RuntimeError("no engine\nmore")))
    assert why_not(Int8Kernel) == "torch refuses it: no engine"


@pytest.mark.slow
def test_what_a_child_process_tries_runs() -> None:
    assert runs_in_child_process(_TRY.format(name=Float32Kernel.__name__))
