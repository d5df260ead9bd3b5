"""Oracle: the same training in one process, in double precision."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.distributed as dist

from glassformer.errors import ConfigError, InputError
from glassformer.train import fit
from glassformer.train.distributed import LossModule, SingleProcess, fresh_store, process_group

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def require_close(found: Path, model: torch.nn.Module) -> None:
    weights = torch.load(found)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(weights[name], tensor, **CLOSE)


@pytest.mark.slow
def test_two_processes_are_one(child: ModuleType, launch: Callable[..., str], tmp_path: Path) -> None:
    model = child.model()
    done = fit(model, child.Made(), child.ARGS)
    said = json.loads(launch("both", str(tmp_path), world=2))
    rows = {row for number in range(4) for batch in child.Made().epoch(number) for row in batch}
    assert said["replicated"]["asked"] == said["sharded"]["asked"] == len(rows), "what all processes met is told by one"
    for name in ("replicated", "sharded"):
        require_close(tmp_path / name / "out.pt", model)
        for ours, theirs in zip(done.history, said[name]["history"], strict=True):
            for number in ("step", "loss", "lr", "grad_norm"):
                assert theirs[number] == pytest.approx(ours[number], rel=1e-9)
            assert theirs.get("val", {}) == pytest.approx(ours.get("val", {}), rel=1e-9)
    assert said["sharded"]["bytes"] < 1.5 * said["replicated"]["bytes"], "each weight is written once"


def test_one_process_has_nothing_to_shard(refused) -> None:  # type: ignore[no-untyped-def]
    def shard() -> None:
        with process_group(True, torch.device("cpu")):
            pass

    refused(ConfigError, "--fsdp needs several processes, but there is one: start them with torchrun", shard)


def test_alone_everything_is_as_it_is() -> None:
    alone = SingleProcess()
    assert alone.sum(1.5, 2.0) == alone.broadcast(1.5, 2.0) == (1.5, 2.0)
    assert alone.is_main
    assert alone.any(True)
    assert not alone.any(False)


def test_no_batch_at_all(child: ModuleType, refused) -> None:  # type: ignore[no-untyped-def]
    class Faulty(child.Made):  # type: ignore[name-defined,misc]
        def batch(self, rows: object, seed: int) -> None:
            return None

    refused(
        InputError,
        "no batch of the first epoch has a row that can be used",
        LossModule(child.model(), Faulty()).any_batch,
    )


@pytest.mark.slow
@pytest.mark.parametrize("shard", [False, True])
def test_saved_by_two_goes_on_with_one_or_four(
    child: ModuleType, launch: Callable[..., str], tmp_path: Path, shard: bool
) -> None:
    model = child.model()
    usable: dict[str, list[torch.nn.Module]] = {"last": [], "best": []}  # after every step
    fit(
        model,
        child.Made(),
        replace(child.ARGS, save_every=1),
        tmp_path / "alone",
        export=lambda now, which: usable[which].append(deepcopy(now)),
    )
    out, words = tmp_path / "out.pt", ["fsdp"] if shard else []
    said = json.loads(launch("train", str(tmp_path / "1"), str(out), "stop=5", *words, world=2))
    assert said["stopped"] == "interrupted"
    step = said["history"][-1]["step"]
    assert step in (5, 6), "every process stops after the same step"
    require_close(tmp_path / "1-last.pt", usable["last"][step - 1])
    require_close(tmp_path / "1-best.pt", usable["last"][3])  # the only evaluation so far
    shutil.copytree(tmp_path / "1", tmp_path / "4")
    for world in (1, 4):
        again = ["resume", *(words if world > 1 else [])]
        said = json.loads(launch("train", str(tmp_path / str(world)), str(out), *again, world=world))
        assert said["stopped"] == "finished"
        assert [line["step"] for line in said["history"] if "val" in line] == [4, 8, 12]
        require_close(out, model)
        require_close(tmp_path / f"{world}-best.pt", model)
        out.unlink()


@pytest.mark.slow
def test_a_process_without_rows_goes_along(child: ModuleType, launch: Callable[..., str], tmp_path: Path) -> None:
    """Seven rows in batches of three: the last batch of an epoch has one row, and two processes share it."""
    model = child.model()
    fit(model, child.Made(7, 3), child.ARGS)
    for name, words in (("whole", []), ("parts", ["fsdp"])):
        launch("train", str(tmp_path / name), str(tmp_path / f"{name}.pt"), "few", *words, world=2)
        require_close(tmp_path / f"{name}.pt", model)


def test_a_restart_does_not_see_the_store_of_the_processes_before_it() -> None:
    """Two starts of two processes on one store, as torchrun keeps it; the first main process has died."""
    server = dist.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)

    def start(rank: int) -> dist.Store:
        client = dist.TCPStore("127.0.0.1", server.port, 2, is_master=False)
        return fresh_store(client, rank, 2, timeout=20)

    for attempt in ("first", "second"):
        with ThreadPoolExecutor(2) as pool:
            late = pool.submit(start, 1)  # asks the old main process first, if there was one
            time.sleep(0.2)
            main, other = pool.submit(start, 0).result(), late.result()
        assert not main.check(["address"]), "the address of the first start is not seen by the second"
        main.set("address", attempt)
        assert other.get("address").decode() == attempt
