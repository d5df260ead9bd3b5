"""What a training shows: a bar on a terminal, lines elsewhere, curves from the log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from glassformer.app import learning
from glassformer.app.learning import draw_curves, shown
from glassformer.tasks.training import Progress

HALF = Progress(step=5, steps=10, loss=1.25, rate=1e-3, seconds=9.0, left=200.0, held_out={"accuracy": 0.5})


def test_lines_where_nobody_watches(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with shown("classify") as show:
        show(HALF)  # too early for a line
        show(HALF._replace(step=10, left=0.0))
    assert capsys.readouterr().err == "classify 10/10  loss 1.25  rate 1.0e-03  held out: accuracy 0.5  0 s left\n"
    monkeypatch.setattr(learning, "EVERY", 0.0)
    with shown("classify") as show:
        show(HALF)
    assert capsys.readouterr().err.endswith("  3 min left\n")


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    with shown("classify") as show:
        show(HALF._replace(step=15000, steps=30000, held_out={"accuracy": 0.5, "loss": 1.125}))
    said = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    last = [line for line in re.split(r"[\r\n]+", said) if line.strip()][-1]
    assert len(last.rstrip()) <= 80
    assert re.search(r"━+ 15000/30000 [-0-9:]{7} loss 1\.25  rate 1\.0e-03  held out…?", last), last  # cut at its end


def test_curves_of_a_log(tmp_path: Path) -> None:
    history = [
        {"step": 1, "loss": 2.0, "rate": 1e-3},
        {"step": 2, "loss": None, "rate": 1e-3, "held_out": {"accuracy": 0.4}},
        {"step": 3, "loss": 1.0, "rate": 1e-3, "held_out": {"accuracy": 0.6, "loss": 1.1}},
    ]
    draw_curves(history, tmp_path / "curves.png", "a training")
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.size[0] > 500
    draw_curves([{"step": 1, "loss": None}], tmp_path / "none.png", "nothing")
    assert not (tmp_path / "none.png").exists()
