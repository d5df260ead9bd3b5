from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import ctc_loss

from glassformer.train.objectives.ctc import MAX_BONUS, early_ctc


def every(logits: Tensor, target: list[int], slope: float) -> Tensor:
    """By its definition: all rows' symbols, those that read as the target, the earlier the more."""
    n, v = logits.shape
    logp, found = logits.log_softmax(-1), []
    for path in product(range(v), repeat=n):
        read = [one for i, one in enumerate(path) if one and (not i or one != path[i - 1])]
        if read == target:
            gains = sum(max(-MAX_BONUS, min(MAX_BONUS, slope * (n / 2 - t))) for t, one in enumerate(path) if one)
            found.append(torch.stack([logp[t, one] for t, one in enumerate(path)]).sum() + gains)
    return -torch.stack(found).logsumexp(0)


@settings(max_examples=12)
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.1, 0.9]), st.sampled_from([[1], [1, 2], [2, 2], [1, 2, 1]]))
def test_the_sum_over_all_alignments_and_its_gradient(seed: int, slope: float, target: list[int]) -> None:
    rows = [5, 4]  # the second has a row of padding
    logits = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()
    sizes = torch.tensor([len(target)] * 2)
    ours = early_ctc(logits, torch.tensor(rows), torch.tensor([target] * 2), sizes, slope)
    theirs = torch.stack([every(logits[i, :n], target, slope) for i, n in enumerate(rows)]).sum()
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(*(torch.autograd.grad(loss, logits) for loss in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)


def test_without_a_slope_it_is_ctc() -> None:
    logits = torch.randn(3, 20, 5, generator=torch.Generator().manual_seed(1))
    rows, targets, sizes = torch.tensor([20, 18, 9]), torch.tensor([[1, 2, 2, 4]] * 3), torch.tensor([4, 3, 2])
    theirs = ctc_loss(logits.log_softmax(-1).transpose(0, 1), targets, rows, sizes, reduction="sum")
    torch.testing.assert_close(early_ctc(logits, rows, targets, sizes), theirs)


def test_a_letter_that_may_come_anywhere_comes_early() -> None:
    """A table of logits, one letter, nothing heard: with a slope the letter's weight moves to the first rows."""
    when = {}
    for slope in (0.0, 0.1):
        logits = torch.zeros(1, 10, 2, requires_grad=True)
        for _ in range(60):
            (step,) = torch.autograd.grad(
                early_ctc(logits, torch.tensor([10]), torch.tensor([[1]]), torch.tensor([1]), slope), logits
            )
            logits = (logits - step).detach().requires_grad_()
        p = logits.softmax(-1)[0, :, 1].detach()
        when[slope] = float((p * torch.arange(10)).sum() / p.sum())
    assert when[0.0] == pytest.approx(4.5, abs=0.1)
    assert when[0.1] < 3
