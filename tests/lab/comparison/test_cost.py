from __future__ import annotations

import pytest
import torch

from glassformer.core import cost as formulas
from glassformer.lab.comparison import cost
from glassformer.lab.comparison.nets import ARCHITECTURES, layer, run_layer
from glassformer.lab.comparison.plan import full, units
from glassformer.lab.comparison.results import Results


@pytest.mark.parametrize("architecture", ["CNN", "MLP"])
def test_the_formula_counts_what_torch_counts(architecture: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    net = layer(architecture, 32, seed=0)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run_layer(net, torch.randn(1, 8, 32))
    assert counter.get_total_flops() == cost.counted(architecture, net, 8, 32).flops


def test_all_layers_multiply_as_much_but_attention() -> None:
    """4nd² each, and attention its 2n²d more."""
    n, d = 64, 64
    counts = {name: cost.counted(name, layer(name, d, seed=0), n, d).multiplications for name in ARCHITECTURES}
    assert counts.pop("Transformer") == formulas.self_attention(n, d).multiplications == 4 * n * d**2 + 2 * n**2 * d
    for count in counts.values():
        assert count == pytest.approx(4 * n * d**2, rel=0.03)


def test_what_was_measured(results: Results) -> None:
    found = results.select("cost", "layer", n=16, d=32)
    assert len(found) == 2
    for unit in found:
        for name in ARCHITECTURES:
            assert 0 < unit["forward"][name] < 10
            assert 0 < unit["both"][name] < 10
        assert set(unit["halves"]) == {cost.SQUARE, cost.LINEAR}
    (memory,) = results.select("cost", "memory", n=32, d=32)
    assert min(memory["peak"].values()) >= 4 * 32 * 32  # the output, at least
    threads = results.select("cost", "threads")[0]["both"]
    assert all(len(times) == 2 for times in threads.values())
    assert torch.get_num_threads() >= 1


def test_large_layers_are_tried_once_and_small_ones_often() -> None:
    plan = full()
    assert cost._turns(plan, 4096, 512) == (1, 0)
    assert cost._turns(plan, 64, 64)[0] > 1
    big, small = (next(u for u in units(plan) if u.settings == {"n": n, "d": d}) for n, d in ((4096, 512), (64, 64)))
    assert cost.weight(plan, big) > 10 * cost.weight(plan, small)
