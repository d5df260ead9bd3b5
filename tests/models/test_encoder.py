from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import gelu

from glassformer.errors import ConfigError, InputError, MaskError
from glassformer.models import Encoder, EncoderConfig, encoder
from glassformer.models.encoder import DenseConfig, pool

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def build(config: EncoderConfig | None = None, **changes: object) -> Encoder:
    return Encoder(replace(config or encoder.tiny(), **changes)).double().eval()  # type: ignore[arg-type]


def test_published_size_made_without_memory() -> None:
    with torch.device("meta"):
        model = Encoder(encoder.bert_base())
    tensors = [*model.parameters(), *model.buffers()]
    assert all(tensor.is_meta for tensor in tensors)
    assert sum(weight.numel() for weight in model.parameters()) == 109_514_298  # bert-base-uncased with its word head
    assert model(torch.zeros(2, 7, dtype=torch.long, device="meta")).shape == (2, 7, 768)


def test_the_same_seed_gives_the_same_model_and_global_randomness_is_untouched() -> None:
    before = torch.get_rng_state()
    one, same, other = Encoder(encoder.tiny(), seed=1), Encoder(encoder.tiny(), seed=1), Encoder(encoder.tiny(), seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, same.state_dict()[name])
    assert not torch.equal(one(TOKENS), other(TOKENS))


@settings(max_examples=10)
@given(st.permutations(range(5)))
@torch.no_grad()
def test_without_positions_a_permutation_of_tokens_permutes_vectors(order: list[int]) -> None:
    text = replace(encoder.tiny().text, positions=None)
    model = build(text=text)
    torch.testing.assert_close(model(TOKENS[:, order]), model(TOKENS)[:, order])
    ordered = build()
    assert order == sorted(order) or not torch.allclose(ordered(TOKENS[:, order]), ordered(TOKENS)[:, order])


@torch.no_grad()
def test_padding_does_not_matter() -> None:
    model = build()
    real = torch.tensor([[True] * 5, [True, True, True, False, False]])
    X = model(TOKENS, real)
    alone = model(TOKENS[1:, :3])
    torch.testing.assert_close(X[1, :3], alone[0])
    for how in ("first", "mean", "max"):
        torch.testing.assert_close(model.sentences(X, real, how)[1], model.sentences(alone, None, how)[0])


@torch.no_grad()
def test_words_are_the_heads_equation() -> None:
    model = build()
    model.word_head.bias.normal_(generator=torch.Generator().manual_seed(0))
    X = model(TOKENS)
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
    model = build(classes=3, pooling="first", word_head=False)
    real = torch.tensor([[True] * 5, [True, True, False, False, False]])
    logits = model.classify(TOKENS, real)
    assert logits.shape == (2, 3)
    torch.testing.assert_close(logits, model.class_head(model(TOKENS, real)[:, 0]))


@torch.no_grad()
def test_a_pooler_and_a_layer_on_sentences() -> None:
    model = build(classes=3, pooler=True, dense=DenseConfig(width=4, activation="gelu"), normalise=True)
    X = model(TOKENS)
    torch.testing.assert_close(model.pooled(X), torch.tanh(model.pooler(X[:, 0])))
    torch.testing.assert_close(model.classify(TOKENS), model.class_head(model.pooled(X)))
    x = gelu(model.dense(X.mean(1)))
    torch.testing.assert_close(model.sentences(X), x / x.norm(dim=-1, keepdim=True))
    linear = build(dense=DenseConfig(width=4, activation=None, bias=False))
    torch.testing.assert_close(linear.sentences(X), X.mean(1) @ linear.dense.weight.T)


@torch.no_grad()
def test_a_word_head_of_its_own() -> None:
    model = build(tied=False)
    assert model.word_head.W is not None
    X = model(TOKENS)
    inner = model.transform_norm(gelu(model.transform(X)))
    torch.testing.assert_close(model.words(X), inner @ model.word_head.W.weight.T)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("padded", [False, True])
def test_it_can_be_exported(padded: bool) -> None:
    model = Encoder(encoder.tiny()).eval()
    inputs = (TOKENS, torch.tensor([[True] * 5, [True, True, False, False, False]])) if padded else (TOKENS,)
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=2, max=32)
    shapes = tuple({0: batch, 1: length} for _ in inputs)
    program = torch.export.export(model, inputs, dynamic_shapes=shapes, strict=False)
    longer = torch.cat([TOKENS, TOKENS], 1)[:1], torch.ones(1, 10, dtype=torch.bool)
    for batch_of in (inputs, longer[: len(inputs)]):
        torch.testing.assert_close(program.module()(*batch_of), model(*batch_of))


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    model = build(word_head=False)
    X = model(TOKENS)
    words = "this encoder has no head for masked words: build it with word_head=True"
    refused(ConfigError, words, lambda: model.words(X))
    pooler = "this encoder has no pooler: build it with pooler=True, or use sentences"
    refused(ConfigError, pooler, lambda: model.pooled(X))
    refused(ConfigError, "this encoder has no classes: build it with classes=…", lambda: model.classify(TOKENS))
    refused(ConfigError, "there is no pooling 'last': choose first, mean or max", lambda: pool(X, None, "last"))  # type: ignore[arg-type]
    real = torch.tensor([[True] * 5, [False] * 5])
    refused(InputError, "sequence 1 has no real token: leave empty sequences out", lambda: pool(X, real, "mean"))
    text = "real is bool of (2, 4) for vectors of (2, 5): give a boolean for each token, True where it is real"
    refused(MaskError, text, lambda: pool(X, real[:, 1:], "mean"))
    refused(MaskError, "real is int64 of (2, 5) for vectors of (2, 5)", lambda: pool(X, real.long(), "mean"))
    refused(InputError, "token 50 is not among the 50 known: use 0 to 49", lambda: model(torch.tensor([[50]])))


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
def test_a_weight_that_is_not_a_number_is_named(name: str, run: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build(classes=2, pooler=True, dense=DenseConfig(width=4))
    X = model(TOKENS)
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = math.nan
    text = f"weight {name} holds nan at [0"
    refused(InputError, text, lambda: getattr(model, run)(TOKENS if run in ("forward", "classify") else X))
