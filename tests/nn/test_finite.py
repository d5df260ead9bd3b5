from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.nn import Linear, require_finite, require_finite_weights
from glassformer.nn.finite import looked_at


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_found_wherever_it_stands(wrong: float, dtype: torch.dtype, refused) -> None:  # type: ignore[no-untyped-def]
    model, Y = nn.Sequential(Linear(2, 2)), torch.zeros(3, 70, dtype=dtype)
    assert require_finite(Y, model) is Y
    for place in ((0, 0), (2, 69), (1, 33)):
        bad = Y.clone()
        bad[place] = wrong
        text = "the output of Sequential is not finite although every weight is: look for an input that is not finite"
        refused(InputError, text, lambda bad=bad: require_finite(bad, model))


def test_the_weight_is_named(refused) -> None:  # type: ignore[no-untyped-def]
    model = nn.Sequential(Linear(2, 3), Linear(3, 4))
    require_finite_weights(model)
    with torch.no_grad():
        model[1].weight[2, 1] = math.nan
    text = "weight 1.weight holds nan at [2, 1]: load it again, or an earlier one"
    refused(InputError, text, lambda: require_finite_weights(model))
    refused(InputError, text, lambda: require_finite(model(torch.ones(1, 2)), model))
    with torch.no_grad():
        model[0].bias[1] = -math.inf
    refused(InputError, "weight 0.bias holds -inf at [1]", lambda: require_finite_weights(model))


def test_nothing_is_checked_where_someone_else_looks(refused) -> None:  # type: ignore[no-untyped-def]
    Y, model = torch.tensor([math.nan]), nn.Linear(1, 1)
    with looked_at():
        assert require_finite(Y, model) is Y
    refused(InputError, "the output of Linear is not finite", lambda: require_finite(Y, model))


def test_large_numbers_are_numbers() -> None:
    Y = torch.full((100,), torch.finfo(torch.float16).max, dtype=torch.float16, requires_grad=True)
    assert require_finite(Y, nn.Identity()) is Y


def test_what_has_no_numbers_is_let_through() -> None:
    for Y in (torch.zeros(0, 3), torch.zeros(2, device="meta")):
        assert require_finite(Y, nn.Identity()) is Y
