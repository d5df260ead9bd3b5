from __future__ import annotations

import pytest

from glassformer.errors import InputError
from glassformer.lab.claims import claim, numbers
from glassformer.lab.experiment import Verdict


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
