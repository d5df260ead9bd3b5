"""Progress of a run: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import re

import pytest

from glassformer.train import Progress, progress
from glassformer.train.progress import progress_bar

HALF = Progress(step=5, steps=10, loss=1.25, lr=1e-3, seconds=9.0, seconds_left=200.0, val={"accuracy": 0.5})


def test_lines_without_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_bar("classify") as show:
        show(HALF)  # too early for a line
        show(HALF._replace(step=10, seconds_left=0.0))
    assert capsys.readouterr().err == "classify 10/10  loss 1.25  lr 1.0e-03  val: accuracy 0.5  0 s left\n"
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    with progress_bar("classify") as show:
        show(HALF)
    assert capsys.readouterr().err.endswith("  3 min left\n")


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar("classify") as show:
        show(HALF._replace(step=15000, steps=30000, val={"accuracy": 0.5, "loss": 1.125}))
    said = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    last = [line for line in re.split(r"[\r\n]+", said) if line.strip()][-1]
    assert len(last.rstrip()) <= 80
    assert re.search(r"━+ 15000/30000 [-0-9:]{7} loss 1\.25  lr 1\.0e-03  val", last), last
