from __future__ import annotations

import pytest
import torch

from glassformer.errors import InputError
from glassformer.lens.kernels import NAMES, named_kernel, read_kernel, read_numbers


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        (["[1,2,1]/4"], [0.25, 0.5, 0.25]),
        (["[1/4, 1/2, 1/4]"], [0.25, 0.5, 0.25]),
        (["-[1, -2]*0.5"], [-0.5, 1.0]),
        (["3", "blur"], [0.25, 0.5, 0.25]),
        (["3x3", "1,2,1,0,0,0,-1,-2,-1"], [[1, 2, 1], [0, 0, 0], [-1, -2, -1]]),
        (["1×2 [[3,4]]"], [[3, 4]]),
        (["3x3", "sobel-x"], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]),
        (["[1,2]+[3,4]"], [4, 6]),
    ],
)
def test_kernels_are_read_as_written(words: list[str], kernel: list[object]) -> None:
    torch.testing.assert_close(read_kernel(words), torch.tensor(kernel, dtype=torch.float64))


def test_named_kernels() -> None:
    for name in NAMES:
        assert named_kernel(name, (3, 3)).shape[-2:] == (3, 3)
    assert named_kernel("blur", (5, 3)).sum() == 1
    torch.testing.assert_close(named_kernel("blur", (3, 3))[1], torch.tensor([2.0, 4, 2]).double() / 16)
    assert named_kernel("identity", (3, 5))[1, 2] == 1
    assert named_kernel("random", (3, 3), channels=2).shape == (2, 2, 3, 3)
    assert torch.equal(named_kernel("random", (3,), seed=4), named_kernel("random", (3,), seed=4))


@pytest.mark.parametrize(
    "text", ["[]", "[1, [2]]", "[1,2]/0", "import os", "__import__('os')", "[True]", "3", "[1e400]", "[1,2", "[1]*'a'"]
)
def test_what_is_no_kernel_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no kernel"):
        read_numbers(text)


@pytest.mark.parametrize("text", ["", "blur", "5x5 sobel-x", "3x3 none", "3x3 [1,2]", "0x3 blur"])
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read_kernel(text.split(" "))
