"""Claims are run with their parameters, and their outcomes cached."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer.errors import InputError
from glassformer.lab import cache
from glassformer.lab.claims import claim, numbers
from glassformer.lab.experiment import Verdict
from glassformer.lab.run import run_claim


@pytest.mark.parametrize("number", numbers())
def test_every_claim_says_what_it_is(number: int) -> None:
    experiment = claim(number)
    for words in (
        experiment.name, experiment.statement, experiment.formula, experiment.measured, experiment.rule,
        experiment.falsified_by,
    ):  # fmt: skip
        assert words.strip()
    assert set(experiment.meanings) <= set(experiment.parameters)
    assert set(experiment.least) <= set(experiment.parameters)
    assert all(each.meaning for each in experiment.parameters.values())
    assert all(each.default >= each.least for each in experiment.parameters.values())


def test_settings_are_typed(refused) -> None:  # type: ignore[no-untyped-def]
    experiment = claim(7)
    assert experiment.settings({"alpha": "3", "keys": "4"}) == {"queries": 200, "keys": 4, "width": 4, "alpha": 3.0}
    refused(InputError, "claim 7 has no parameter 'beta': set one of queries", lambda: experiment.settings({"beta": 1}))
    refused(InputError, "keys=two is not an integer", lambda: experiment.settings({"keys": "two"}))
    refused(InputError, "keys=2.5 is not an integer", lambda: experiment.settings({"keys": 2.5}))
    refused(InputError, "alpha is 0.5: choose", lambda: experiment.settings({"alpha": "0.5"}))
    refused(InputError, "alpha is nan: choose", lambda: experiment.settings({"alpha": "nan"}))


def test_a_claim_that_is_not_there(refused) -> None:  # type: ignore[no-untyped-def]
    refused(InputError, "there is no claim 99: choose a number from 1 to 32", lambda: claim(99))


def test_what_breaks_with_odd_values_is_a_users_mistake() -> None:
    from dataclasses import replace

    def measure(seed: int, *, n: int = 1) -> dict[str, object]:
        if n > 1:
            raise RuntimeError("too much\nfor us")
        raise RuntimeError("always")

    experiment = replace(claim(7), measure=measure, meanings={"n": "x"}, least={})
    with pytest.raises(InputError, match=r"claim 7 cannot be measured with n=2 \(too much\): choose values closer"):
        experiment.run(experiment.settings({"n": 2}), 0)
    with pytest.raises(RuntimeError, match="always"):  # a fault of ours stays one
        experiment.run(experiment.settings({}), 0)


def test_verdicts_read_as_sentences() -> None:
    assert str(Verdict("holds when", "q·k > 0", "rule")) == "holds when q·k > 0"
    assert str(Verdict("fails", "it does not", "rule")) == "fails: it does not"


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_run_is_kept_by_parameters_and_seed() -> None:
    first, again, other, seeded = run_claim(7), run_claim(7), run_claim(7, alpha=3.0), run_claim(7, seed=1)
    assert not first.cached
    assert again.cached
    assert again[:5] == first[:5]
    assert not other.cached
    assert not seeded.cached
    assert other.result["alpha"] == 3


def test_without_the_cache_nothing_is_kept(tmp_path: Path) -> None:
    assert not run_claim(7, keep=False).cached
    assert not list(tmp_path.rglob("*.json"))


def test_the_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    run_claim(7, keep=False)
    assert torch.get_num_threads() == before


def test_how_to_repeat_it() -> None:
    outcome = run_claim(7, seed=2, alpha="3", queries=20)
    assert outcome.command == "glassformer lab 7 --set queries=20 --set alpha=3.0 --seed 2"
    scope: dict[str, object] = {}
    exec(outcome.code, scope)  # the page's own promise
    assert scope["outcome"][3] == outcome.result  # type: ignore[index]


def test_stored_results_are_restored() -> None:
    assert cache.load(1, {"n": 2}, 0) is None
    cache.store(1, {"n": 2}, 0, {"x": [1.5]}, 0.25)
    assert cache.load(1, {"n": 2}, 0) == ({"x": [1.5]}, 0.25)
    assert cache.load(1, {"n": 3}, 0) is None
    assert cache.load(1, {"n": 2}, 1) is None


def test_another_version_is_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(1, {}, 0, {}, 0.0)
    monkeypatch.setattr(cache, "version", lambda: "another")
    assert cache.load(1, {}, 0) is None


def test_a_broken_file_is_measured_again() -> None:
    cache.store(1, {}, 0, {}, 0.0)
    cache.place(1, {}, 0).write_text("{", encoding="utf-8")
    assert cache.load(1, {}, 0) is None


def test_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.store(1, {}, 0, {}, 0.0)
    assert cache.load(1, {}, 0) is None
