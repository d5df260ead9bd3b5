from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.core import masks
from glassformer.errors import ConfigError, InputError
from glassformer.models import Seq2Seq, Seq2SeqConfig, seq2seq
from glassformer.models.seq2seq import Memory
from glassformer.nn import NormConfig, View, heads

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
CONFIGS = {"vaswani": seq2seq.tiny(), "modern": seq2seq.tiny_modern()}
SOURCE = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]])
TARGET = torch.tensor([[1, 6, 1, 8, 0], [1, 4, 1, 4, 2]])


def build(config: Seq2SeqConfig) -> Seq2Seq:
    return Seq2Seq(config).double().eval()


# ---- against torch ---------------------------------------------------------------------------------------------------


def renamed(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of both stacks, or their gradients, by the names of nn.Transformer."""
    theirs = {}
    for side, attentions, residuals in (
        ("encoder", {"attention": "self_attn"}, ("attention", "ffn")),
        ("decoder", {"attention": "self_attn", "cross": "multihead_attn"}, ("attention", "cross", "ffn")),
    ):
        for layer in range(2):
            mine, name = f"{side}.{layer}", f"{side}.layers.{layer}"
            for part in ("weight", "bias"):
                for attention, other in attentions.items():
                    split = [ours[f"{mine}.{attention}.W{letter}.{part}"] for letter in "QKV"]
                    theirs[f"{name}.{other}.in_proj_{part}"] = torch.cat(split)
                    theirs[f"{name}.{other}.out_proj.{part}"] = ours[f"{mine}.{attention}.WO.{part}"]
                theirs |= {f"{name}.linear{i}.{part}": ours[f"{mine}.ffn.W{i}.{part}"] for i in (1, 2)}
            for i, residual in enumerate(residuals, 1):
                for letter, part in (("gamma", "weight"), ("beta", "bias")):
                    theirs[f"{name}.norm{i}.{part}"] = ours[f"{mine}.{residual}_residual.norm.{letter}"]
        theirs[f"{side}.norm.weight"] = ours[f"{side}.norm.gamma"]
        theirs[f"{side}.norm.bias"] = ours[f"{side}.norm.beta"]
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("padded", [False, True])
def test_both_stacks_are_torchs(place: str, activation: str, padded: bool, dtype: torch.dtype) -> None:
    """Outputs, and gradients by every weight and by the embedded tokens."""
    config = seq2seq.vaswani(vocabulary=40, width=12, depth=2, count=3, hidden=20)

    def side(text):  # type: ignore[no-untyped-def]
        block = replace(text.block, place=place, ffn=replace(text.block.ffn, activation=activation))
        return replace(text, block=block, last_norm=NormConfig())

    ours = Seq2Seq(replace(config, source=side(config.source), target=side(config.target))).to(dtype)
    theirs = nn.Transformer(
        12, 3, 2, 2, 20, 0.0, activation, norm_first=place == "pre", batch_first=True
    ).to(dtype)  # fmt: skip
    theirs.load_state_dict(renamed(ours.state_dict()))
    X = ours.encoder.embed(SOURCE).detach().requires_grad_()
    Y = ours.decoder.embed(TARGET).detach().requires_grad_()
    real = torch.arange(6) < torch.tensor([[6], [4]])
    mask = real[:, None, None] if padded else None
    memory = ours.encoder(X, View(mask=mask))
    found = ours.decoder(Y, View(causal=True), memory=memory, memory_view=View(mask=mask))
    padding = {"src_key_padding_mask": ~real, "memory_key_padding_mask": ~real} if padded else {}
    wanted = theirs(X, Y, tgt_mask=~masks.causal(5), **padding)
    close = partial(torch.testing.assert_close, rtol=0, atol=TOLERANCE[dtype])
    close(found, wanted)

    by = []
    for model, O in ((ours, found), (theirs, wanted)):
        weights = {name: w for name, w in model.named_parameters() if "embed" not in name}
        loss = (O * torch.linspace(-1, 1, O.numel(), dtype=dtype).view_as(O)).sum() / 10
        gradients = torch.autograd.grad(loss, (X, Y, *weights.values()))
        by.append((gradients[:2], dict(zip(weights, gradients[2:], strict=True))))
    close(by[0][0], by[1][0])
    close(renamed(by[0][1]), by[1][1])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_transformer_base_made_without_memory() -> None:
    with torch.device("meta"):
        model = Seq2Seq(seq2seq.transformer_base())
        body = nn.Transformer(512, 8, 6, 6, 2048)
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    count = lambda module: sum(weight.numel() for weight in module.parameters())
    assert count(model) == count(body) - 2 * 2 * 512 + 37000 * 512  # torch has a norm more on either side; one table
    assert abs(count(model) / 65e6 - 1) < 0.03  # as the paper's table has it


# ---- the model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_logits_are_the_equation(name: str) -> None:
    model = build(CONFIGS[name])
    memory = model.encoder.encode(SOURCE)
    X = model.decoder.decode(TARGET, memory=memory)
    torch.testing.assert_close(model(SOURCE, TARGET), X @ model.encoder.embed.table.weight.T)


@torch.no_grad()
def test_tokens_are_scaled_and_placed_as_in_the_paper() -> None:
    model = build(CONFIGS["vaswani"])
    position, i = 3, 2
    E = model.encoder.embed(SOURCE)[0, position] - 4 * model.encoder.embed.table.weight[SOURCE[0, position]]
    assert math.isclose(E[2 * i], math.sin(position / 10000 ** (2 * i / 16)), abs_tol=1e-12)
    assert math.isclose(E[2 * i + 1], math.cos(position / 10000 ** (2 * i / 16)), abs_tol=1e-12)


def test_what_is_shared() -> None:
    model = build(CONFIGS["vaswani"])
    assert model.encoder.embed.table is model.decoder.embed.table
    assert model.word_head.W is None
    apart = build(replace(CONFIGS["vaswani"], shared=False, tied=False, head_bias=True))
    assert apart.encoder.embed.table is not apart.decoder.embed.table
    assert not torch.equal(apart.encoder.embed.table.weight, apart.decoder.embed.table.weight)
    assert apart.word_head.W is not None
    assert apart.word_head.bias is not None


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_seed_gives_the_same_model_and_global_randomness_is_untouched(name: str) -> None:
    before = torch.get_rng_state()
    one, same, other = (Seq2Seq(CONFIGS[name], seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(weight, same.state_dict()[key]) for key, weight in one.state_dict().items())
    assert not torch.equal(one(SOURCE, TARGET), other(SOURCE, TARGET))


@settings(max_examples=10)
@given(st.sampled_from(list(CONFIGS)), st.lists(st.integers(1, 4), unique=True).map(sorted), st.booleans())
@torch.no_grad()
def test_with_a_cache_or_without(name: str, cuts: list[int], padded: bool) -> None:
    model = build(CONFIGS[name])
    real = torch.arange(6) < torch.tensor([[6], [4]]) if padded else None
    memory, cache = model.encode(SOURCE, real), model.cache(5)
    found = torch.cat([model.decode(part, memory, cache=cache) for part in TARGET.tensor_split(cuts, 1)], 1)
    torch.testing.assert_close(found, model(SOURCE, TARGET, real), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_padding_of_either_side_does_not_matter(name: str) -> None:
    model = build(CONFIGS[name])
    source_real = torch.arange(6) < torch.tensor([[6], [4]])
    target_real = torch.arange(5) >= torch.tensor([[0], [2]])  # on the left, to go on from
    found = model(SOURCE, TARGET, source_real, target_real)
    torch.testing.assert_close(found[1, 2:], model(SOURCE[1:, :4], TARGET[1:, 2:])[0])
    torch.testing.assert_close(found[0], model(SOURCE[:1], TARGET[:1])[0])


@torch.no_grad()
def test_rows_of_a_cache_can_be_reordered() -> None:
    model, rows = build(CONFIGS["vaswani"]), torch.tensor([1, 0, 0])
    memory, cache = model.encode(SOURCE), model.cache(5)
    model.decode(TARGET[:, :2], memory, cache=cache)
    for block in cache:
        block.own.reorder(rows)
        block.memory.reorder(rows)
    found = model.decode(TARGET[rows, 2:], Memory(memory.X[rows], None), cache=cache)
    torch.testing.assert_close(found, model(SOURCE[rows], TARGET[rows])[:, 2:])


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_the_target_sees_all_of_the_source_and_none_of_its_future(name: str) -> None:
    model = build(CONFIGS[name])
    logits = model(SOURCE, TARGET)
    for place in range(6):
        other = SOURCE.clone()
        other[:, place] = 30
        assert ((model(other, TARGET) - logits).abs().amax(-1) > 1e-9).all()
    for place in range(5):
        other = TARGET.clone()
        other[:, place] = 30
        assert torch.equal(model(SOURCE, other)[:, :place], logits[:, :place])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", CONFIGS)
def test_it_can_be_exported(name: str) -> None:
    model = Seq2Seq(CONFIGS[name]).eval()
    program = torch.export.export(model, (SOURCE, TARGET), strict=False)
    torch.testing.assert_close(program.module()(SOURCE, TARGET), model(SOURCE, TARGET))


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    config = CONFIGS["vaswani"]
    refused(
        ConfigError,
        "one table is shared by sides of 40 tokens × 16 and 41 tokens × 16: give both sides one vocabulary and one",
        lambda: replace(config, target=replace(config.target, vocabulary=41)),
    )
    narrow = replace(config.target.block, cross=heads(16, 2, memory_width=8))
    for block in (config.source.block, narrow):
        refused(
            ConfigError,
            "the decoder does not attend to a memory 16 wide: give its block cross=heads(…, memory_width=…) of",
            lambda block=block: replace(config, target=replace(config.target, block=block)),
        )
    model = build(config)
    refused(InputError, "token 40 is not among the 40 known", lambda: model(torch.tensor([[40]]), TARGET[:1]))
    refused(InputError, "token 77 is not among the 40 known", lambda: model(SOURCE[:1], torch.tensor([[77]])))


@pytest.mark.parametrize("name", ["encoder.0.attention.WK.weight", "decoder.1.cross.WV.bias", "word_head.W.weight"])
def test_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build(replace(CONFIGS["vaswani"], tied=False))
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = math.nan
    refused(InputError, f"weight {name} holds nan at [0", lambda: model(SOURCE, TARGET))
