from __future__ import annotations

import pytest
import torch

from glassformer.lab.comparison.nets import ARCHITECTURES, answer, sequence
from glassformer.lab.comparison.results import Results
from glassformer.lab.comparison.streaming import WINDOWED, start
from glassformer.lab.comparison.summary import held


@pytest.mark.parametrize("name", [*ARCHITECTURES, WINDOWED])
@torch.inference_mode()
def test_a_stream_answers_as_the_whole_does(name: str) -> None:
    attends = 8 if name == WINDOWED else None
    net = sequence(
        name.partition(",")[0], 4_000, words=17, length=40, window=8, seed=0, positions="rotary", attends=attends
    ).eval()
    X = torch.randint(0, 17, (1, 30))
    step, _ = start(net, X, room=2)
    longer = X if name == "MLP" else torch.cat([X, X[:, -1:]], 1)  # an MLP is asked about its window
    expected = answer(net, longer)
    found = step()
    logits = found if isinstance(found, torch.Tensor) else found.logits  # type: ignore[attr-defined]
    torch.testing.assert_close(logits.flatten(), expected.flatten(), atol=1e-4, rtol=1e-4)


def test_a_full_cache_grows_and_nothing_else(results: Results) -> None:
    short, long = results.plan.streaming.after
    for name in (*ARCHITECTURES, WINDOWED):
        grows = held(results, name, long) > held(results, name, short)
        assert grows == (name == "Transformer"), name
