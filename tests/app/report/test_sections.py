from __future__ import annotations

import pytest

from glassformer import lens
from glassformer.app.report import sections
from glassformer.app.report.build import head_table


def test_maps_of_every_layer(shown) -> None:
    _, seen, run, _ = shown("seq2seq")
    made = sections.maps(run, seen)
    assert made.count("<img") == 6
    assert "every head of decoder.1.cross" in made


def test_what_each_stack_is(shown) -> None:
    _, _, run, _ = shown("seq2seq")
    assert sections.stacks_of(run) == ["encoder", "decoder"]
    assert sections.last_of(run, "decoder") == "decoder.1.attention"


def test_entropies(shown) -> None:
    _, _, run, _ = shown("decoder")
    made = sections.entropies(run)
    assert "2.20 one that looks at all of them alike" in made  # ln 9
    assert made.count("<img") == 1


def test_heads(shown) -> None:
    model, seen, run, _ = shown("decoder")
    found = head_table(model, run, seen)
    made = sections.heads(run, seen, found)
    assert made.count("<img") == 1
    assert found._repr_html_() in made
    assert "induction" in made  # tokens came with it


@pytest.mark.parametrize(("kind", "count"), [("decoder", 1), ("seq2seq", 2), ("vit", 1)])
def test_map_of_heads(shown, kind: str, count: int) -> None:
    assert sections.map_of_heads(shown(kind)[2]).count("<img") == count


def test_flow_is_that_of_the_lens(shown) -> None:
    _, seen, run, _ = shown("decoder")
    made = sections.flow(run, seen)
    R = lens.rollout(run)[0, -1]
    assert f"<td>dog</td><td>{R[-1]:.3f}</td><td>{lens.max_flow(run, 8)[0, -1]:.3f}</td>" in made
    _, seen, run, _ = shown("vit")
    assert sections.flow(run, seen) == ""


def test_arcs_and_alignment_are_of_text(shown) -> None:
    _, seen, run, _ = shown("seq2seq")
    assert sections.lines(run, seen).count("<img") == 2
    assert "decoder.1.cross, mean over heads" in sections.aligned(run, seen)
    for kind in ("vit", "speech"):
        _, seen, run, _ = shown(kind)
        assert sections.lines(run, seen) == sections.aligned(run, seen) == ""


def test_sound(shown) -> None:
    _, seen, run, _ = shown("speech")
    made = sections.heard(run, seen)
    assert "encoder.1.attention, the query at 0.42 s" in made
