"""Images and texts in one space."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models import CLIP, CLIPConfig, clip, vit
from glassformer.nn import Tap


def image(n: int = 2) -> Tensor:
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


TEXTS = torch.tensor([[3, 4, 29, 0, 0], [5, 29, 29, 29, 29], [1, 2, 3, 4, 29]])


def build(**changes: object) -> CLIP:
    return CLIP(replace(clip.tiny(), **changes), seed=1).double().eval()  # type: ignore[arg-type]


def test_the_published_size() -> None:
    with torch.device("meta"):
        model = CLIP(clip.base_32())
    assert sum(weight.numel() for weight in model.parameters()) == 151_277_313
    seen, said = torch.zeros(1, 3, 224, 224, device="meta"), torch.zeros(2, 77, device="meta", dtype=torch.long)
    assert model(seen, said).shape == (1, 2)


@torch.no_grad()
def test_scores_are_cosines_over_the_temperature() -> None:
    model = build()
    x, y = model.images(image()), model.texts(TEXTS)
    assert x.shape == (2, 8)
    cosine = torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=-1)
    torch.testing.assert_close(model(image(), TEXTS), cosine / 0.07, rtol=1e-6, atol=1e-6)
    assert math.isclose(float(model.tau), 2.6592, abs_tol=1e-4)


@torch.no_grad()
def test_a_text_is_its_first_end_token_and_nothing_after_it() -> None:
    model = build()
    other = TEXTS.clone()
    other[0, 3:] = 7
    torch.testing.assert_close(model.texts(other), model.texts(TEXTS))
    assert model.ends(TEXTS).tolist() == [2, 1, 4]
    torch.testing.assert_close(model.texts(TEXTS[:1, :3]), model.texts(TEXTS)[:1])
    X = model.text.decode(TEXTS)
    torch.testing.assert_close(model.texts(TEXTS)[1], model.text_projection(X[1, 1]))  # type: ignore[misc]
    old = build(end=None)
    assert old.ends(torch.tensor([[3, 9, 2, 9], [1, 1, 8, 0]])).tolist() == [1, 2]


@torch.no_grad()
def test_one_tower_alone(refused) -> None:  # type: ignore[no-untyped-def]
    sees, reads = build(text=None), build(vision=None, width=0)
    assert sees.images(image()).shape == (2, 8)
    assert reads.texts(TEXTS).shape == (3, 12)
    assert not hasattr(sees, "tau")
    refused(ConfigError, "this model has no text tower: load both", lambda: sees(image(), TEXTS))
    refused(ConfigError, "this model has no image tower: load both", lambda: reads(image(), TEXTS))


def test_seeds_copies_and_paths() -> None:
    before = torch.get_rng_state()
    model, same, other = (CLIP(clip.tiny(), seed=seed).double() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(model(image(), TEXTS), same(image(), TEXTS))
    assert not torch.equal(model(image(), TEXTS), other(image(), TEXTS))
    assert torch.equal(copy.deepcopy(model)(image(), TEXTS), model(image(), TEXTS))
    paths = dict(model.named_modules())
    wanted = ("vision.encoder.1.attention.A", "text.0.attention.A", "x", "y", "S")
    assert all(isinstance(paths[path], Tap) for path in wanted)
    model(image(), TEXTS).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_configs_that_describe_no_model(refused) -> None:  # type: ignore[no-untyped-def]
    refused(ConfigError, "a CLIP of 0 towers: give it", lambda: CLIPConfig(vision=None, text=None, width=3))
    classes = "the image tower has 5 classes: give it 0: texts are the classes"
    refused(ConfigError, classes, lambda: replace(clip.tiny(), vision=vit.tiny()))
    refused(ConfigError, "both towers meet in a space 0 wide", lambda: replace(clip.tiny(), width=0))


def test_inputs_that_do_not_fit(refused) -> None:  # type: ignore[no-untyped-def]
    model = build()
    no_end = "text 1 has no end token 29: let the tokenizer add it"
    refused(InputError, no_end, lambda: model.texts(torch.tensor([[3, 29], [4, 5]])))
    refused(ShapeError, "position 10 is beyond the 10 learned positions", lambda: model.texts(torch.full((1, 11), 29)))
    refused(InputError, "token 30 is not among the 30 known", lambda: model.texts(torch.tensor([[30, 29]])))


@pytest.mark.parametrize("name", ["tau", "text.1.ffn.W1.weight", "vision.prefix"])
def test_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build()
    with torch.no_grad():
        model.get_parameter(name).fill_(math.nan)
    refused(InputError, f"weight {name.removeprefix('vision.')} holds nan", lambda: model(image(), TEXTS))
