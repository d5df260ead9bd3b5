from __future__ import annotations

from glassformer.figures import save
from glassformer.lab.comparison.drawings import drawings
from glassformer.lab.comparison.nets import ARCHITECTURES
from glassformer.lab.comparison.results import Results


def test_every_figure_is_drawn(results: Results) -> None:
    made = {each.name: each for each in drawings(results)}
    assert list(made) == ["cost", "crossing", "reach", "data", "streaming", "longer"]
    for each in made.values():
        assert save(each.figure).startswith(b"\x89PNG")
    shown = [text.get_text() for text in made["cost"].figure.axes[0].get_legend().get_texts()]
    assert shown == list(ARCHITECTURES)
