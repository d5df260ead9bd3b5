from __future__ import annotations

from glassformer.figures import save
from glassformer.lab.claims import claim


def test_who_learned_nothing_is_no_evidence() -> None:
    experiment = claim(31)
    result = experiment.run(experiment.settings({"steps": 1, "fewest": 8, "most": 32}), 0)
    assert experiment.verdict(result).kind == "fails"
    assert result["sizes"] == [8, 16, 32]
    few, more = result["parameters"]
    assert 0.9 < few / more < 1.1
    assert save(experiment.figure(result))


def test_the_rule() -> None:
    judge = claim(31).judge
    made = lambda *vit: {"sizes": [1, 2], "accuracy": {"convolutional": [0.9, 1], "vision Transformer": list(vit)}}
    assert judge(made(0.3, 0.9))[0] == "holds"
    assert judge(made(0.3, 0.5))[0] == "fails"
    assert judge(made(0.9, 1))[0] == "fails"
