from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.cli.exercise import find
from glassformer.errors import InputError


def test_by_name_and_by_file(tmp_path: Path) -> None:
    assert find("four-tokens").title == "Four tokens"
    sheet = tmp_path / "four-tokens.yaml"
    sheet.write_text("title: mine\nQ: [[1]]\nK: [[1]]\nV: [[2]]\n")
    assert find(str(sheet)).title == "mine"


def test_what_is_neither_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(InputError, match="there is no file 'nothing': give a YAML file, or one of the embedded"):
        find("nothing")
