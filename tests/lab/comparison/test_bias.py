from __future__ import annotations

import torch

from glassformer.lab.comparison.bias import mixer, shifted
from glassformer.lab.comparison.results import Results
from glassformer.lab.parts import generator
from glassformer.nn import patches


def test_mixed_patches_are_the_same_patches() -> None:
    X = torch.randn(2, 1, 12, 12)
    mix = mixer(3, 4, generator(0))
    Y = mix(X)
    assert not torch.equal(X, Y)
    before, after = (sorted(patches(image[None], (4, 4))[0].sum(-1).tolist()) for image in (X[0], Y[0]))
    torch.testing.assert_close(torch.tensor(before), torch.tensor(after))
    assert torch.equal(mix(X[:1]), Y[:1])  # one order for all


def test_shifted() -> None:
    X = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert shifted(X, 1)[0, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 3, 4]]


def test_a_convolution_commutes_with_its_stride_and_patches_do_not(results: Results) -> None:
    for unit in results.select("bias", "features", architecture="CNN"):
        assert unit["off by one stride"] < 1e-9
        assert unit["off by one pixel"] > 1e-3
    for unit in results.select("bias", "features", architecture="Transformer"):
        assert unit["off by one stride"] > 1e-3


def test_what_was_measured(results: Results) -> None:
    for unit in results.select("bias", "images", order="whole"):
        assert set(unit["shifted"]) == {"1", "4"}
    for unit in results.select("bias", "longer", architecture="LSTM"):
        assert set(unit["accuracy"]) == {"8", "16"}
