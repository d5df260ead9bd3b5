from __future__ import annotations

import pytest

from glassformer.cli.tour import SENTENCE, shaded, tour, traced


def test_it_shows_an_exercise_and_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    tour()
    shown = capsys.readouterr().out
    assert "0.6622" in shown  # the first output of the four tokens
    assert "decoder.1.attention.A" in shown
    assert "because" in shown


def test_the_traced_run_is_a_real_one() -> None:
    A = traced()["decoder.0.attention.A"]
    assert A.shape == (1, 2, len(SENTENCE), len(SENTENCE))
    assert float(A.sum(-1).min()) == pytest.approx(1.0, abs=1e-5)
    assert float(A.triu(1).max()) == 0.0


def test_shades() -> None:
    assert shaded([[0.0, 1.0], [0.5, 0.5]], ["a", "bc"]) == " a   ██\nbc ▒▒▒▒"
