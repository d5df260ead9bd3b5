from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.faults import ENOUGH, Fault, Faults
from glassformer.errors import InputError


def read(i: int) -> int:
    if i % 3 == 0:
        raise Fault("multiple of three", f"row {i}")
    return i


@given(st.lists(st.integers(0, 50)))
def test_what_is_faulty_is_left_out_and_counted(rows: list[int]) -> None:
    faults = Faults()
    assert faults.each(rows, read) == [i for i in rows if i % 3]
    assert (faults.tried, faults.failed) == (len(rows), sum(i % 3 == 0 for i in rows))
    assert len(faults) == len({i for i in rows if i % 3 == 0}), "a place counts once, however often it is met"


def test_other_errors_are_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        Faults().each([0], lambda i: 1 // i)


def test_a_fault_survives_the_way_between_processes() -> None:
    fault = pickle.loads(pickle.dumps(Fault("silent recording", "a.wav")))
    assert (fault.reason, fault.place, str(fault)) == ("silent recording", "a.wav", "silent recording: a.wav")


def test_summary_of_faults() -> None:
    faults = Faults()
    faults.each([3, 6, 9, 12, 3], read)
    faults.count(Fault("empty line", "a.tsv line 7"))
    assert faults.summary() == ["multiple of three: 4 (row 3, row 6, row 9, …)", "empty line: 1 (a.tsv line 7)"]
    assert faults.counts == {"multiple of three": 4, "empty line": 1}
    assert repr(faults) == f"Faults({'; '.join(faults.summary())})"
    assert [str(fault) for fault in faults][-1] == "empty line: a.tsv line 7"
    assert Faults().summary() == []


@given(st.lists(st.lists(st.integers(0, 30)), min_size=1))
def test_tallies_merge_to_what_one_would_have_counted(parts: list[list[int]]) -> None:
    whole, merged, worker = Faults(), Faults(), Faults()
    for rows in parts:
        whole.each(rows, read)
        worker.each(rows, read)
        merged.merge(worker.take())
        assert (len(worker), worker.tried) == (0, 0)
    assert (merged.places, merged.tried, merged.failed) == (whole.places, whole.tried, whole.failed)


def test_more_than_half_is_an_error(refused: Any) -> None:
    faults = Faults()
    faults.count_usable(ENOUGH // 2)
    for i in range(ENOUGH // 2):
        faults.count(Fault("empty line", f"line {i}"))
    faults.check()  # half is not more than half
    faults.count(Fault("empty line", "line 0"))
    text = "32, more than half, cannot be used, most of them because of empty line: 32 (line 0, line 1, line 2, …):"
    refused(InputError, text, faults.check)  # line 0 was read twice and is counted once


def test_a_few_say_nothing_yet() -> None:
    faults = Faults()
    faults.count(Fault("empty line", "line 1"))
    faults.check()
    with pytest.raises(InputError, match="1 of 1 cannot be used"):
        faults.check(1)
