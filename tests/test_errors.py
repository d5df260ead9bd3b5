from __future__ import annotations

import pickle

import pytest

import glassformer
from glassformer import errors
from glassformer.errors import GlassError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GlassError)]


def test_every_kind_is_there() -> None:
    names = {kind.__name__ for kind in KINDS}
    assert {"GlassError", "ShapeError", "MaskError", "ConfigError", "InputError"} <= names
    assert all(kind.__doc__ for kind in KINDS)
    assert glassformer.GlassError is GlassError


@pytest.mark.parametrize("kind", KINDS)
def test_fact_then_remedy_in_one_line(kind: type[GlassError]) -> None:
    error = kind("width 128 does not split into 3 heads", "choose heads that divide it (1, 2, 4, …)")
    assert str(error) == "width 128 does not split into 3 heads: choose heads that divide it (1, 2, 4, …)"
    assert error.fact == "width 128 does not split into 3 heads"
    assert error.remedy == "choose heads that divide it (1, 2, 4, …)"
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_the_way_between_processes(kind: type[GlassError]) -> None:
    error = pickle.loads(pickle.dumps(kind("a fact", "a remedy")))
    assert type(error) is kind
    assert (error.fact, error.remedy) == ("a fact", "a remedy")
    assert str(error) == "a fact: a remedy"
