from __future__ import annotations

import sys

import pytest

from glassformer.lazy import on_first_use


def test_a_name_is_found_in_its_module_and_a_module_by_its_name() -> None:
    find = on_first_use("json", {"JSONDecoder": "decoder", "scanner": ""})
    assert find("JSONDecoder") is sys.modules["json.decoder"].JSONDecoder
    assert find("scanner") is sys.modules["json.scanner"]


def test_a_module_loads_no_sooner_than_it_is_asked_for() -> None:
    sys.modules.pop("json.tool", None)
    find = on_first_use("json", {"main": "tool"})
    assert "json.tool" not in sys.modules
    assert callable(find("main"))
    assert "json.tool" in sys.modules


def test_what_is_not_there_is_an_attribute_error_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'absent'"):
        on_first_use("json", {})("absent")
