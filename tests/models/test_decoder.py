from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import InputError, ShapeError
from glassformer.models import Decoder, DecoderConfig, decoder
from glassformer.nn import Tap

CONFIGS = {
    "plain": decoder.tiny(),
    "modern": decoder.tiny_modern(),
    "windowed": replace(decoder.tiny_modern(), text=replace(decoder.tiny_modern().text, window=4)),
    "untied": replace(decoder.tiny(), tied=False),
}
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3], [2, 7, 1, 8, 2, 8, 1, 8, 2, 8]])


def build(config: DecoderConfig) -> Decoder:
    return Decoder(config).double().eval()


def test_gpt2_small_made_without_memory() -> None:
    with torch.device("meta"):
        model = Decoder(decoder.gpt2_small())
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert sum(weight.numel() for weight in model.parameters()) == 124_439_808
    assert model(torch.zeros(1, 9, dtype=torch.long, device="meta")).shape == (1, 9, 50257)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_seed_gives_the_same_model_and_global_randomness_is_untouched(name: str) -> None:
    before = torch.get_rng_state()
    one, same, other = (Decoder(CONFIGS[name], seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(weight, same.state_dict()[key]) for key, weight in one.state_dict().items())
    assert not torch.equal(one(TOKENS), other(TOKENS))


@settings(max_examples=10)
@given(st.sampled_from(list(CONFIGS)), st.integers(0, 9), st.integers(0, 49))
@torch.no_grad()
def test_no_logit_depends_on_a_later_token(name: str, place: int, token: int) -> None:
    model, other = build(CONFIGS[name]), TOKENS.clone()
    other[:, place] = token
    assert torch.equal(model(other)[:, :place], model(TOKENS)[:, :place])
    if (other[:, place] != TOKENS[:, place]).all():
        assert (model(other)[:, place] != model(TOKENS)[:, place]).any()


@settings(max_examples=10)
@given(st.sampled_from(list(CONFIGS)), st.lists(st.integers(1, 9), unique=True).map(sorted))
@torch.no_grad()
def test_with_a_cache_or_without(name: str, cuts: list[int]) -> None:
    model = build(CONFIGS[name])
    cache = model.cache(10)
    found = torch.cat([model(part, cache=cache) for part in TOKENS.tensor_split(cuts, 1)], 1)
    torch.testing.assert_close(found, model(TOKENS), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_unequal_prompts_answer_as_they_would_alone(name: str) -> None:
    """Padded on the left, then two more tokens each, by the cache."""
    model, lengths = build(CONFIGS[name]), (6, 3)
    real = torch.arange(6) >= torch.tensor([[0], [3]])
    tokens = torch.stack([TOKENS[0, :6], torch.cat([TOKENS.new_zeros(3), TOKENS[1, :3]])])
    cache = model.cache(10)
    logits = model(tokens, real, cache=cache)
    for step in range(3):
        for row, length in enumerate(lengths):
            alone = model(TOKENS[row : row + 1, : length + step])
            torch.testing.assert_close(logits[row, -1], alone[0, -1], rtol=0, atol=1e-12)
        new = torch.stack([TOKENS[row, length + step] for row, length in enumerate(lengths)])[:, None]
        real = torch.cat([real, torch.ones(2, 1, dtype=torch.bool)], 1)
        logits = model(new, real, cache=cache)


@torch.no_grad()
def test_rows_of_a_cache_can_be_reordered() -> None:
    model, rows = build(CONFIGS["modern"]), torch.tensor([1, 1, 0])
    cache = model.cache(10)
    model(TOKENS[:, :4], cache=cache)
    for block in cache:
        block.own.reorder(rows)
    found = model(TOKENS[rows, 4:], cache=cache)
    torch.testing.assert_close(found, model(TOKENS[rows])[:, 4:])


@torch.no_grad()
def test_only_what_follows_the_last_token() -> None:
    model = build(CONFIGS["plain"])
    torch.testing.assert_close(model(TOKENS, last=True), model(TOKENS)[:, -1:])


@torch.no_grad()
def test_the_head_is_the_table_or_its_own() -> None:
    for name in ("plain", "untied"):
        model = build(CONFIGS[name])
        X = model.decoder.decode(TOKENS)
        table = model.decoder.embed.table.weight if name == "plain" else model.word_head.W.weight  # type: ignore[union-attr]
        torch.testing.assert_close(model(TOKENS), X @ table.T)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", CONFIGS)
def test_it_can_be_exported(name: str) -> None:
    model = Decoder(CONFIGS[name]).eval()
    shapes = ({0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", min=2, max=48)},)
    program = torch.export.export(model, (TOKENS,), dynamic_shapes=shapes, strict=False)
    for tokens in (TOKENS, TOKENS[:1, :7]):
        torch.testing.assert_close(program.module()(tokens), model(tokens))


def test_copies_and_paths() -> None:
    model = build(CONFIGS["modern"])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(TOKENS), model(TOKENS))
    paths = dict(model.named_modules())
    assert isinstance(paths["decoder.1.attention.A"], Tap)
    assert not any(key.endswith((".A", ".X")) for key in model.state_dict())


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    model = build(CONFIGS["plain"])
    long = torch.zeros(1, 49, dtype=torch.long)
    refused(ShapeError, "position 48 is beyond the 48 learned positions: shorten the input", lambda: model(long))
    refused(InputError, "token -3 is not among the 50 known: use 0 to 49", lambda: model(torch.tensor([[-3]])))
    text = "position 10 came to a cache of 4: make it longer, or stop earlier"
    refused(ShapeError, text, lambda: model(TOKENS, cache=model.cache(4)))


@pytest.mark.parametrize("name", ["decoder.0.ffn.W1.bias", "decoder.norm.gamma", "word_head.W.weight"])
def test_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build(CONFIGS["untied"])
    with torch.no_grad():
        model.get_parameter(name).view(-1)[3] = math.inf
    refused(InputError, f"weight {name} holds inf at [", lambda: model(TOKENS))
