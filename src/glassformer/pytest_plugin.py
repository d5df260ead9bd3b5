"""The pytest plugin: `glassformer.testing.assert_working` as a fixture, without an import."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def assert_working() -> Callable[..., None]:
    """`assert_working(exercise, answers)` fails and names the mistake; see `glassformer.testing.assert_working`."""
    from glassformer.testing import assert_working

    return assert_working
