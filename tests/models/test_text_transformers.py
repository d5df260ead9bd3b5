"""Encoders, decoders and encoder-decoders: equations, caches, padding, tied weights, invalid arguments."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import gelu

from glassformer.core import masks
from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models import (
    Decoder,
    DecoderConfig,
    Encoder,
    EncoderConfig,
    Seq2Seq,
    Seq2SeqConfig,
    decoder,
    encoder,
    seq2seq,
)
from glassformer.models.encoder import DenseConfig, pool
from glassformer.models.seq2seq import Memory
from glassformer.nn import NormConfig, Tap, View, heads

DECODER_CONFIGS = {
    "plain": decoder.tiny(),
    "modern": decoder.tiny_modern(),
    "windowed": replace(decoder.tiny_modern(), text=replace(decoder.tiny_modern().text, window=4)),
    "untied": replace(decoder.tiny(), tied=False),
}
DECODER_TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3], [2, 7, 1, 8, 2, 8, 1, 8, 2, 8]])


def build_decoder(config: DecoderConfig) -> Decoder:
    return Decoder(config).double().eval()


def test_gpt2_small_made_without_memory() -> None:
    with torch.device("meta"):
        model = Decoder(decoder.gpt2_small())
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert sum(weight.numel() for weight in model.parameters()) == 124_439_808
    assert model(torch.zeros(1, 9, dtype=torch.long, device="meta")).shape == (1, 9, 50257)


@pytest.mark.parametrize("name", DECODER_CONFIGS)
def test_decoder_the_same_seed_gives_the_same_model_and_global_randomness_is_untouched(name: str) -> None:
    before = torch.get_rng_state()
    one, same, other = (Decoder(DECODER_CONFIGS[name], seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(weight, same.state_dict()[key]) for key, weight in one.state_dict().items())
    assert not torch.equal(one(DECODER_TOKENS), other(DECODER_TOKENS))


@settings(max_examples=10)
@given(st.sampled_from(list(DECODER_CONFIGS)), st.integers(0, 9), st.integers(0, 49))
@torch.no_grad()
def test_no_logit_depends_on_a_later_token(name: str, place: int, token: int) -> None:
    model, other = build_decoder(DECODER_CONFIGS[name]), DECODER_TOKENS.clone()
    other[:, place] = token
    assert torch.equal(model(other)[:, :place], model(DECODER_TOKENS)[:, :place])
    if (other[:, place] != DECODER_TOKENS[:, place]).all():
        assert (model(other)[:, place] != model(DECODER_TOKENS)[:, place]).any()


@settings(max_examples=10)
@given(st.sampled_from(list(DECODER_CONFIGS)), st.lists(st.integers(1, 9), unique=True).map(sorted))
@torch.no_grad()
def test_decoder_with_a_cache_or_without(name: str, cuts: list[int]) -> None:
    model = build_decoder(DECODER_CONFIGS[name])
    cache = model.cache(10)
    found = torch.cat([model(part, cache=cache) for part in DECODER_TOKENS.tensor_split(cuts, 1)], 1)
    torch.testing.assert_close(found, model(DECODER_TOKENS), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", DECODER_CONFIGS)
@torch.no_grad()
def test_unequal_prompts_answer_as_they_would_alone(name: str) -> None:
    """Padded on the left, then two more tokens each, by the cache."""
    model, lengths = build_decoder(DECODER_CONFIGS[name]), (6, 3)
    real = torch.arange(6) >= torch.tensor([[0], [3]])
    tokens = torch.stack([DECODER_TOKENS[0, :6], torch.cat([DECODER_TOKENS.new_zeros(3), DECODER_TOKENS[1, :3]])])
    cache = model.cache(10)
    logits = model(tokens, real, cache=cache)
    for step in range(3):
        for row, length in enumerate(lengths):
            alone = model(DECODER_TOKENS[row : row + 1, : length + step])
            torch.testing.assert_close(logits[row, -1], alone[0, -1], rtol=0, atol=1e-12)
        new = torch.stack([DECODER_TOKENS[row, length + step] for row, length in enumerate(lengths)])[:, None]
        real = torch.cat([real, torch.ones(2, 1, dtype=torch.bool)], 1)
        logits = model(new, real, cache=cache)


@torch.no_grad()
def test_decoder_rows_of_a_cache_can_be_reordered() -> None:
    model, rows = build_decoder(DECODER_CONFIGS["modern"]), torch.tensor([1, 1, 0])
    cache = model.cache(10)
    model(DECODER_TOKENS[:, :4], cache=cache)
    for block in cache:
        block.own.reorder(rows)
    found = model(DECODER_TOKENS[rows, 4:], cache=cache)
    torch.testing.assert_close(found, model(DECODER_TOKENS[rows])[:, 4:])


@torch.no_grad()
def test_only_what_follows_the_last_token() -> None:
    model = build_decoder(DECODER_CONFIGS["plain"])
    torch.testing.assert_close(model(DECODER_TOKENS, last=True), model(DECODER_TOKENS)[:, -1:])


@torch.no_grad()
def test_the_head_is_the_table_or_its_own() -> None:
    for name in ("plain", "untied"):
        model = build_decoder(DECODER_CONFIGS[name])
        X = model.decoder.decode(DECODER_TOKENS)
        table = model.decoder.embed.table.weight if name == "plain" else model.word_head.W.weight  # type: ignore[union-attr]
        torch.testing.assert_close(model(DECODER_TOKENS), X @ table.T)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "plain" else [pytest.mark.slow]) for name in DECODER_CONFIGS]
)
def test_decoder_it_can_be_exported(name: str) -> None:
    model = Decoder(DECODER_CONFIGS[name]).eval()
    shapes = ({0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", min=2, max=48)},)
    program = torch.export.export(model, (DECODER_TOKENS,), dynamic_shapes=shapes, strict=False)
    for tokens in (DECODER_TOKENS, DECODER_TOKENS[:1, :7]):
        torch.testing.assert_close(program.module()(tokens), model(tokens))


def test_copies_and_paths() -> None:
    model = build_decoder(DECODER_CONFIGS["modern"])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(DECODER_TOKENS), model(DECODER_TOKENS))
    paths = dict(model.named_modules())
    assert isinstance(paths["decoder.1.attention.A"], Tap)
    assert not any(key.endswith((".A", ".X")) for key in model.state_dict())


def test_decoder_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    model = build_decoder(DECODER_CONFIGS["plain"])
    long = torch.zeros(1, 49, dtype=torch.long)
    refused(ShapeError, "position 48 is beyond the 48 learned positions: shorten the input", lambda: model(long))
    refused(InputError, "token -3 is outside the vocabulary of 50: use 0 to 49", lambda: model(torch.tensor([[-3]])))
    text = "the cache has room for 4 positions, got 10: create a longer cache, or generate fewer tokens"
    refused(ShapeError, text, lambda: model(DECODER_TOKENS, cache=model.cache(4)))


@pytest.mark.parametrize("name", ["decoder.0.ffn.W1.bias", "decoder.norm.gamma", "word_head.W.weight"])
def test_decoder_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build_decoder(DECODER_CONFIGS["untied"])
    with torch.no_grad():
        model.get_parameter(name).view(-1)[3] = math.inf
    refused(InputError, f"weight {name} is inf at [", lambda: model(DECODER_TOKENS))


ENCODER_TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def build_encoder(config: EncoderConfig | None = None, **changes: object) -> Encoder:
    return Encoder(replace(config or encoder.tiny(), **changes)).double().eval()  # type: ignore[arg-type]


def test_published_size_made_without_memory() -> None:
    with torch.device("meta"):
        model = Encoder(encoder.bert_base())
    tensors = [*model.parameters(), *model.buffers()]
    assert all(tensor.is_meta for tensor in tensors)
    assert sum(weight.numel() for weight in model.parameters()) == 109_514_298  # bert-base-uncased with its word head
    assert model(torch.zeros(2, 7, dtype=torch.long, device="meta")).shape == (2, 7, 768)


def test_encoder_the_same_seed_gives_the_same_model_and_global_randomness_is_untouched() -> None:
    before = torch.get_rng_state()
    one, same, other = Encoder(encoder.tiny(), seed=1), Encoder(encoder.tiny(), seed=1), Encoder(encoder.tiny(), seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, same.state_dict()[name])
    assert not torch.equal(one(ENCODER_TOKENS), other(ENCODER_TOKENS))


@settings(max_examples=10)
@given(st.permutations(range(5)))
@torch.no_grad()
def test_without_positions_a_permutation_of_tokens_permutes_vectors(order: list[int]) -> None:
    text = replace(encoder.tiny().text, positions=None)
    model = build_encoder(text=text)
    torch.testing.assert_close(model(ENCODER_TOKENS[:, order]), model(ENCODER_TOKENS)[:, order])
    ordered = build_encoder()
    assert order == sorted(order) or not torch.allclose(
        ordered(ENCODER_TOKENS[:, order]), ordered(ENCODER_TOKENS)[:, order]
    )


@torch.no_grad()
def test_padding_does_not_matter() -> None:
    model = build_encoder()
    real = torch.tensor([[True] * 5, [True, True, True, False, False]])
    X = model(ENCODER_TOKENS, real)
    alone = model(ENCODER_TOKENS[1:, :3])
    torch.testing.assert_close(X[1, :3], alone[0])
    for how in ("first", "mean", "max"):
        torch.testing.assert_close(model.sentences(X, real, how)[1], model.sentences(alone, None, how)[0])


@torch.no_grad()
def test_words_are_the_heads_equation() -> None:
    model = build_encoder()
    model.word_head.bias.normal_(generator=torch.Generator().manual_seed(0))
    X = model(ENCODER_TOKENS)
    inner = model.transform_norm(gelu(model.transform(X)))
    torch.testing.assert_close(model.words(X), inner @ model.encoder.embed.table.weight.T + model.word_head.bias)


def test_pooling_over_what_is_real() -> None:
    X = torch.tensor([[[1.0, -2], [3, -4], [100, 100]], [[50.0, 50], [5, -6], [7, -8]]])
    real = torch.tensor([[True, True, False], [False, True, True]])
    assert torch.equal(pool(X, real, "first"), torch.tensor([[1.0, -2], [5, -6]]))
    assert torch.equal(pool(X, real, "mean"), torch.tensor([[2.0, -3], [6, -7]]))
    assert torch.equal(pool(X, real, "max"), torch.tensor([[3.0, -2], [7, -6]]))
    assert torch.equal(pool(X, None, "mean"), X.mean(1))


@torch.no_grad()
def test_classes() -> None:
    model = build_encoder(classes=3, pooling="first", word_head=False)
    real = torch.tensor([[True] * 5, [True, True, False, False, False]])
    logits = model.classify(ENCODER_TOKENS, real)
    assert logits.shape == (2, 3)
    torch.testing.assert_close(logits, model.class_head(model(ENCODER_TOKENS, real)[:, 0]))


@torch.no_grad()
def test_a_pooler_and_a_layer_on_sentences() -> None:
    model = build_encoder(classes=3, pooler=True, dense=DenseConfig(width=4, activation="gelu"), normalise=True)
    X = model(ENCODER_TOKENS)
    torch.testing.assert_close(model.pooled(X), torch.tanh(model.pooler(X[:, 0])))
    torch.testing.assert_close(model.classify(ENCODER_TOKENS), model.class_head(model.pooled(X)))
    x = gelu(model.dense(X.mean(1)))
    torch.testing.assert_close(model.sentences(X), x / x.norm(dim=-1, keepdim=True))
    linear = build_encoder(dense=DenseConfig(width=4, activation=None, bias=False))
    torch.testing.assert_close(linear.sentences(X), X.mean(1) @ linear.dense.weight.T)


@torch.no_grad()
def test_a_word_head_of_its_own() -> None:
    model = build_encoder(tied=False)
    assert model.word_head.W is not None
    X = model(ENCODER_TOKENS)
    inner = model.transform_norm(gelu(model.transform(X)))
    torch.testing.assert_close(model.words(X), inner @ model.word_head.W.weight.T)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("padded", [False, True])
def test_encoder_it_can_be_exported(padded: bool) -> None:
    model = Encoder(encoder.tiny()).eval()
    inputs = (
        (ENCODER_TOKENS, torch.tensor([[True] * 5, [True, True, False, False, False]])) if padded else (ENCODER_TOKENS,)
    )
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=2, max=32)
    shapes = tuple({0: batch, 1: length} for _ in inputs)
    program = torch.export.export(model, inputs, dynamic_shapes=shapes, strict=False)
    longer = torch.cat([ENCODER_TOKENS, ENCODER_TOKENS], 1)[:1], torch.ones(1, 10, dtype=torch.bool)
    for batch_of in (inputs, longer[: len(inputs)]):
        torch.testing.assert_close(program.module()(*batch_of), model(*batch_of))


def test_encoder_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    model = build_encoder(word_head=False)
    X = model(ENCODER_TOKENS)
    words = "this encoder has no masked-language-modelling head: build it with word_head=True"
    refused(ConfigError, words, lambda: model.words(X))
    pooler = "this encoder has no pooler: build it with pooler=True, or use sentences"
    refused(ConfigError, pooler, lambda: model.pooled(X))
    refused(ConfigError, "this encoder has no classes: build it with classes=…", lambda: model.classify(ENCODER_TOKENS))
    refused(ConfigError, "there is no pooling 'last': choose first, mean or max", lambda: pool(X, None, "last"))  # type: ignore[arg-type]
    real = torch.tensor([[True] * 5, [False] * 5])
    refused(InputError, "sequence 1 contains only padding: leave empty sequences out", lambda: pool(X, real, "mean"))
    text = "real is bool of (2, 4) for vectors of (2, 5): give a boolean for each token, True where it is real"
    refused(MaskError, text, lambda: pool(X, real[:, 1:], "mean"))
    refused(MaskError, "real is int64 of (2, 5) for vectors of (2, 5)", lambda: pool(X, real.long(), "mean"))
    refused(InputError, "token 50 is outside the vocabulary of 50: use 0 to 49", lambda: model(torch.tensor([[50]])))


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("encoder.1.attention.WQ.weight", "forward"),
        ("encoder.embed.positions.table.weight", "forward"),
        ("transform.weight", "words"),
        ("word_head.bias", "words"),
        ("class_head.bias", "classify"),
        ("pooler.weight", "pooled"),
        ("dense.weight", "sentences"),
    ],
)
def test_encoder_a_weight_that_is_not_a_number_is_named(name: str, run: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build_encoder(classes=2, pooler=True, dense=DenseConfig(width=4))
    X = model(ENCODER_TOKENS)
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = math.nan
    text = f"weight {name} is nan at [0"
    refused(InputError, text, lambda: getattr(model, run)(ENCODER_TOKENS if run in ("forward", "classify") else X))


TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
SEQ2SEQ_CONFIGS = {"vaswani": seq2seq.tiny(), "modern": seq2seq.tiny_modern()}
SOURCE = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]])
TARGET = torch.tensor([[1, 6, 1, 8, 0], [1, 4, 1, 4, 2]])


def build_seq2seq(config: Seq2SeqConfig) -> Seq2Seq:
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


@pytest.mark.variants(6)
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


@pytest.mark.parametrize("name", SEQ2SEQ_CONFIGS)
@torch.no_grad()
def test_logits_are_the_equation(name: str) -> None:
    model = build_seq2seq(SEQ2SEQ_CONFIGS[name])
    memory = model.encoder.encode(SOURCE)
    X = model.decoder.decode(TARGET, memory=memory)
    torch.testing.assert_close(model(SOURCE, TARGET), X @ model.encoder.embed.table.weight.T)


@torch.no_grad()
def test_tokens_are_scaled_and_placed_as_in_the_paper() -> None:
    model = build_seq2seq(SEQ2SEQ_CONFIGS["vaswani"])
    position, i = 3, 2
    E = model.encoder.embed(SOURCE)[0, position] - 4 * model.encoder.embed.table.weight[SOURCE[0, position]]
    assert math.isclose(E[2 * i], math.sin(position / 10000 ** (2 * i / 16)), abs_tol=1e-12)
    assert math.isclose(E[2 * i + 1], math.cos(position / 10000 ** (2 * i / 16)), abs_tol=1e-12)


def test_what_is_shared() -> None:
    model = build_seq2seq(SEQ2SEQ_CONFIGS["vaswani"])
    assert model.encoder.embed.table is model.decoder.embed.table
    assert model.word_head.W is None
    apart = build_seq2seq(replace(SEQ2SEQ_CONFIGS["vaswani"], shared=False, tied=False, head_bias=True))
    assert apart.encoder.embed.table is not apart.decoder.embed.table
    assert not torch.equal(apart.encoder.embed.table.weight, apart.decoder.embed.table.weight)
    assert apart.word_head.W is not None
    assert apart.word_head.bias is not None


@pytest.mark.parametrize("name", SEQ2SEQ_CONFIGS)
def test_seq2seq_the_same_seed_gives_the_same_model_and_global_randomness_is_untouched(name: str) -> None:
    before = torch.get_rng_state()
    one, same, other = (Seq2Seq(SEQ2SEQ_CONFIGS[name], seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(weight, same.state_dict()[key]) for key, weight in one.state_dict().items())
    assert not torch.equal(one(SOURCE, TARGET), other(SOURCE, TARGET))


@settings(max_examples=10)
@given(st.sampled_from(list(SEQ2SEQ_CONFIGS)), st.lists(st.integers(1, 4), unique=True).map(sorted), st.booleans())
@torch.no_grad()
def test_seq2seq_with_a_cache_or_without(name: str, cuts: list[int], padded: bool) -> None:
    model = build_seq2seq(SEQ2SEQ_CONFIGS[name])
    real = torch.arange(6) < torch.tensor([[6], [4]]) if padded else None
    memory, cache = model.encode(SOURCE, real), model.cache(5)
    found = torch.cat([model.decode(part, memory, cache=cache) for part in TARGET.tensor_split(cuts, 1)], 1)
    torch.testing.assert_close(found, model(SOURCE, TARGET, real), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SEQ2SEQ_CONFIGS)
@torch.no_grad()
def test_padding_of_either_side_does_not_matter(name: str) -> None:
    model = build_seq2seq(SEQ2SEQ_CONFIGS[name])
    source_real = torch.arange(6) < torch.tensor([[6], [4]])
    target_real = torch.arange(5) >= torch.tensor([[0], [2]])  # on the left, to go on from
    found = model(SOURCE, TARGET, source_real, target_real)
    torch.testing.assert_close(found[1, 2:], model(SOURCE[1:, :4], TARGET[1:, 2:])[0])
    torch.testing.assert_close(found[0], model(SOURCE[:1], TARGET[:1])[0])


@torch.no_grad()
def test_seq2seq_rows_of_a_cache_can_be_reordered() -> None:
    model, rows = build_seq2seq(SEQ2SEQ_CONFIGS["vaswani"]), torch.tensor([1, 0, 0])
    memory, cache = model.encode(SOURCE), model.cache(5)
    model.decode(TARGET[:, :2], memory, cache=cache)
    for block in cache:
        block.own.reorder(rows)
        block.memory.reorder(rows)
    found = model.decode(TARGET[rows, 2:], Memory(memory.X[rows], None), cache=cache)
    torch.testing.assert_close(found, model(SOURCE[rows], TARGET[rows])[:, 2:])


@pytest.mark.parametrize("name", SEQ2SEQ_CONFIGS)
@torch.no_grad()
def test_the_target_sees_all_of_the_source_and_none_of_its_future(name: str) -> None:
    model = build_seq2seq(SEQ2SEQ_CONFIGS[name])
    logits = model(SOURCE, TARGET)
    for place in range(6):
        other = SOURCE.clone()
        other[:, place] = 30
        assert ((model(other, TARGET) - logits).abs().amax(-1) > 1e-9).all()
    for place in range(5):
        other = TARGET.clone()
        other[:, place] = 30
        assert torch.equal(model(SOURCE, other)[:, :place], logits[:, :place])


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", SEQ2SEQ_CONFIGS)
def test_seq2seq_it_can_be_exported(name: str) -> None:
    model = Seq2Seq(SEQ2SEQ_CONFIGS[name]).eval()
    program = torch.export.export(model, (SOURCE, TARGET), strict=False)
    torch.testing.assert_close(program.module()(SOURCE, TARGET), model(SOURCE, TARGET))


def test_seq2seq_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    config = SEQ2SEQ_CONFIGS["vaswani"]
    refused(
        ConfigError,
        "one table is shared by sides of 40 tokens × 16 and 41 tokens × 16: give both sides one vocabulary and one",
        lambda: replace(config, target=replace(config.target, vocabulary=41)),
    )
    narrow = replace(config.target.block, cross=heads(16, 2, memory_width=8))
    for block in (config.source.block, narrow):
        refused(
            ConfigError,
            "the decoder's cross-attention does not take a memory of width 16: give its block cross=heads(",
            lambda block=block: replace(config, target=replace(config.target, block=block)),
        )
    model = build_seq2seq(config)
    refused(InputError, "token 40 is outside the vocabulary of 40", lambda: model(torch.tensor([[40]]), TARGET[:1]))
    refused(InputError, "token 77 is outside the vocabulary of 40", lambda: model(SOURCE[:1], torch.tensor([[77]])))


@pytest.mark.parametrize("name", ["encoder.0.attention.WK.weight", "decoder.1.cross.WV.bias", "word_head.W.weight"])
def test_seq2seq_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build_seq2seq(replace(SEQ2SEQ_CONFIGS["vaswani"], tied=False))
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = math.nan
    refused(InputError, f"weight {name} is nan at [0", lambda: model(SOURCE, TARGET))
