"""Convolutions of one pixel with a stride, which pick their pixels before they multiply."""

from __future__ import annotations

import pytest
import torch

from glassformer.nn.linear import Convolution2d


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("stride", [2, 3])
def test_a_strided_convolution_of_one_pixel(size: int, stride: int) -> None:
    """Outputs and gradients are those of torch's convolution in the default memory format."""
    generator = torch.Generator().manual_seed(0)
    layer = Convolution2d(4, 8, 1, stride=stride, bias=False)
    torch.nn.init.normal_(layer.weight, generator=generator)
    image = torch.randn(8, 4, size, size, generator=generator)
    ours, plain = image.to(memory_format=torch.channels_last).requires_grad_(), image.clone().requires_grad_()
    weight = layer.weight.detach().clone().requires_grad_()
    found, expected = layer(ours), torch.nn.functional.conv2d(plain, weight, stride=stride)
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad)
    torch.testing.assert_close(layer.weight.grad, weight.grad)
