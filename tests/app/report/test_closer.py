from __future__ import annotations

import math

from glassformer import lens
from glassformer.app.report.closer import closer, margins


def test_margins_are_those_of_the_lens(shown) -> None:
    _, seen, run, _ = shown("decoder")
    made = margins(run, seen)
    found = lens.margins(run, "decoder.1.attention", 1, 8)
    best = int(found.winner)
    assert "decoder.1.attention, query dog (8)" in made
    assert f"<tr><td>1</td><td>{seen.labels['decoder'][best]} ({best})</td>" in made
    distance = float(found.distance[best])
    assert math.isfinite(distance)
    assert f"<td>{distance:.3g}</td>" in made


def test_of_a_picture_it_is_cls(shown) -> None:
    _, seen, run, _ = shown("vit")
    assert "encoder.2.attention, query CLS (0)" in margins(run, seen)
    assert "the 40 keys with the largest weights" in closer(run, seen)


def test_the_sharpest_head_is_shown(shown) -> None:
    _, seen, run, _ = shown("decoder")
    sharpest = int(lens.entropy(run["decoder.1.attention.A"][0, :, -1]).argmin())
    made = closer(run, seen)
    assert f"decoder.1.attention, head {sharpest}, query dog (8)" in made
    assert made.count("<img") == 2
