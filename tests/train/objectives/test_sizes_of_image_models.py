from __future__ import annotations

import torch

from glassformer.core.positions import sincos_2d
from glassformer.models import ConvNet2d, Hybrid, Recurrent, ViT
from glassformer.train.objectives.image_models import (
    Size,
    build_image_model,
    cnn_config,
    rnn_config,
    vit_config,
)

SIZE = Size(width=16, depth=2, heads=2)


def test_every_kind_answers_for_its_shape() -> None:
    for kind in ("vit", "hybrid", "cnn", "mlp", "rnn"):
        for shape in ((1, 8, 12), (3, 12, 8)):
            model = build_image_model(kind, shape, 7, SIZE, patch=4).eval()
            assert model.classes == 7
            assert model.class_logits(torch.rand(2, *shape)).shape == (2, 7), kind


def test_the_same_seed_gives_the_same_start() -> None:
    one, same, other = (build_image_model("hybrid", (3, 8, 8), 4, SIZE, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_positions_start_as_sines_and_are_learned() -> None:
    model = build_image_model("vit", (1, 8, 8), 4, SIZE, patch=4)
    assert isinstance(model, ViT)
    torch.testing.assert_close(model.positions, torch.nn.Parameter(0.5 * sincos_2d(2, 2, 16)))
    assert model.positions.requires_grad
    wide = build_image_model("hybrid", (1, 8, 8), 4, Size(width=18, depth=1, heads=2))
    assert isinstance(wide, Hybrid), "a width that four does not divide keeps its random positions"


def test_a_hybrid_keeps_16_tokens_of_a_small_image() -> None:
    for shape, grid in (((1, 28, 28), (7, 7)), ((3, 16, 20), (4, 5)), ((1, 8, 12), (4, 6))):
        assert build_image_model("hybrid", shape, 4, SIZE).config.grid == grid


def test_rows_are_read_from_the_top() -> None:
    model = build_image_model("rnn", (2, 3, 4), 5, SIZE).eval()
    X = torch.rand(1, 2, 3, 4)
    rows = torch.stack([torch.cat([X[0, 0, r], X[0, 1, r]]) for r in range(3)])[None]
    torch.testing.assert_close(model.class_logits(X), model(rows))


def test_configs_count_their_parameters() -> None:
    for config, make in ((cnn_config, ConvNet2d), (rnn_config, Recurrent)):
        found = config((3, 32, 32), 10, 40)
        assert sum(weight.numel() for weight in make(found).parameters()) == found.parameters
    assert vit_config((1, 8, 12), 3, SIZE, patch=4).grid == (2, 3)
