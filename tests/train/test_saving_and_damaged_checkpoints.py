from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from glassformer.errors import CheckpointError
from glassformer.train import state
from glassformer.train.distributed import SingleProcess

ALONE = SingleProcess()


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"a.weight": torch.full((3, 4), value), "count": torch.tensor(value), "random": torch.get_rng_state()}


def save(folder: Path, step: int) -> Path:
    return state.save_state(folder, step, tensors(step), {"step": step, "best": None}, ALONE)


def test_saved_state_is_restored_in_place(tmp_path: Path) -> None:
    path = save(tmp_path, 7)
    found = tensors(0)
    weight = found["a.weight"]
    assert state.load_state(path, found, ALONE) == {"step": 7, "best": None}
    assert torch.equal(weight, torch.full((3, 4), 7.0))
    assert float(found["count"]) == 7.0


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 10, 300):
        save(tmp_path, step)
    assert [path.name for path in state.saved(tmp_path)] == ["step-00000010", "step-00000300"]
    assert len(list((tmp_path / "state").iterdir())) == 2


def test_half_of_one_is_none_of_them(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "state" / "step-00000002.writing").mkdir()
    (tmp_path / "state" / "step-00000000.gone").mkdir()
    assert [path.name for path in state.saved(tmp_path)] == ["step-00000001"]
    state.remove_partial(tmp_path)
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["step-00000001"]


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsync of every file and of the folder they are in, then the rename, then fsync of the folder that it is in."""
    said: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle: int) -> None:
        said.append("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    def noted_replace(old: Path, new: Path) -> None:
        said.append(f"name {os.path.basename(new)}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    save(tmp_path, 1)
    named = said.index("name step-00000001")
    before, after = said[:named], said[named + 1 :]
    assert {"sync __0_0.distcp", "sync position.json.writing", "sync step-00000001.writing"} <= set(before)
    assert any(line.startswith("sync .metadata") for line in before)
    assert after[0] == "sync state"


@pytest.mark.parametrize("name", ["position.json", ".metadata", "__0_0.distcp"])
def test_a_broken_state_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, 1)
    (path / name).write_bytes((path / name).read_bytes()[:5])
    with pytest.raises(CheckpointError, match=r"step-00000001 cannot be read .*delete it to resume"):
        state.load_state(path, tensors(0), ALONE)


def test_another_tensor_is_an_error(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    with pytest.raises(CheckpointError, match="cannot be read"):
        state.load_state(path, {"other": torch.zeros(2)}, ALONE)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 2 MB, if this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    folder = small_disk / "run"
    good = save(folder, 1)
    (small_disk / "ballast").write_bytes(bytes(1_900_000))
    big = {"a.weight": torch.ones(200_000)}
    with pytest.raises(CheckpointError) as caught:
        state.save_state(folder, 2, big, {"step": 2}, ALONE)
    said = str(caught.value)
    assert "the checkpoint of step 2 could not be written (No space left on device)" in said
    assert f"the last good checkpoint is {good}: free some disk space and resume" in said
    assert "\n" not in said
    assert sorted((folder / "state").iterdir()) == [good], "nothing half-written stays"
    assert state.load_state(good, tensors(0), ALONE)["step"] == 1
    (small_disk / "ballast").unlink()
    assert state.save_state(folder, 2, big, {"step": 2}, ALONE).name == "step-00000002"


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The same where nobody may mount: the kernel refuses the bytes."""
    good = save(tmp_path, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # Python ignores the signal, and write fails
    try:
        with pytest.raises(CheckpointError, match="File too large") as caught:
            state.save_state(tmp_path, 2, {"a": torch.ones(100_000)}, {"step": 2}, ALONE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(good) in str(caught.value)
    assert state.load_state(good, tensors(0), ALONE)["step"] == 1


@pytest.mark.slow
def test_a_run_on_a_disk_that_fills_up(small_disk: Path, launch: Callable[..., str], child: ModuleType) -> None:
    said = launch("full", str(small_disk / "run"))
    assert said.count("\n") == 1
    assert "could not be written (No space left on device), and the last good checkpoint is" in said
    last = state.saved(small_disk / "run")[-1]
    assert str(last) in said
    model = child.model()
    found = {f"model.{name}": tensor.detach() for name, tensor in model.named_parameters()}
    assert state.load_state(last, found, ALONE)["step"] == int(last.name[5:])


def flip(path: Path) -> None:
    """One bit of a byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", ["position.json", ".metadata", "__0_0.distcp", "checksums.json"])
def test_a_damaged_checkpoint_is_set_aside_for_the_one_before_it(tmp_path: Path, name: str) -> None:
    good, bad = save(tmp_path, 1), save(tmp_path, 2)
    assert state.damage(good) is None
    flip(bad / name)
    assert name in str(state.damage(bad)) or name == "checksums.json"
    said: list[str] = []
    assert state.newest_intact(tmp_path, said.append, ALONE) == good
    assert said[0].startswith(f"{bad} is damaged (")
    assert state.saved(tmp_path) == [good]
    assert (tmp_path / "state" / "damaged-step-00000002").is_dir()
    flip(good / name)
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is intact \(step-00000001: .*to start over"):
        state.newest_intact(tmp_path, said.append, ALONE)


def test_a_missing_file_and_a_checkpoint_that_was_never_written(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    (path / "__0_0.distcp").unlink()
    assert state.damage(path) == "__0_0.distcp is missing"
    assert state.newest_intact(tmp_path / "new", print, ALONE) is None


@pytest.mark.parametrize("deleted", ["state/step-00000001", "state"])
def test_deleted_checkpoints_are_not_a_new_run(tmp_path: Path, deleted: str) -> None:
    first, second = save(tmp_path, 1), save(tmp_path, 2)
    shutil.rmtree(second)
    said: list[str] = []
    assert state.newest_intact(tmp_path, said.append, ALONE) == first
    assert said == [f"the checkpoint of step 2 is missing from {tmp_path / 'state'}"]
    shutil.rmtree(tmp_path / deleted)
    with pytest.raises(CheckpointError, match="had a checkpoint of step 2, and it has been deleted: restore it, or"):
        state.newest_intact(tmp_path, said.append, ALONE)
