from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.core.attention import attend
from glassformer.core.precision import bfloat16_works
from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models.ends import Frames, Tokens
from glassformer.models.recurrent_seq2seq import (
    RecurrentSeq2Seq,
    RecurrentSeq2SeqConfig,
    luong,
    select,
    tiny,
)

TOKENS, FRAMES = Tokens(vocabulary=11), Frames(features=3)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ids(*shape: int, below: int = 11, seed: int = 0) -> torch.Tensor:
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def build(*, seed: int = 1, **changes: object) -> RecurrentSeq2Seq:
    fields = {"reads": TOKENS, "vocabulary": 9, "width": 8, "layers": 2, "attention": True}
    return RecurrentSeq2Seq(RecurrentSeq2SeqConfig(**(fields | changes)), seed=seed).double()


@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("reads", [TOKENS, FRAMES])
def test_counts_its_parameters(reads, cell, bidirectional, attention) -> None:
    model = build(reads=reads, cell=cell, bidirectional=bidirectional, attention=attention)
    assert model.config.parameters == sum(p.numel() for p in model.parameters())
    X = ids(2, 5) if reads is TOKENS else draw(2, 5, 3)
    assert model(X, ids(2, 4, below=9)).shape == (2, 4, 9)


def test_published_size() -> None:
    with torch.device("meta"):
        real = sum(p.numel() for p in RecurrentSeq2Seq(luong()).parameters())
    assert luong().parameters == real


@pytest.mark.parametrize("attention", [False, True])
def test_equals_torchs_lstm_and_attention(attention) -> None:
    """Both stacks as nn.LSTM, attention as torch's fused kernel on projected queries; gradients too."""
    model = build(attention=attention)
    stacks = []
    for stack in (model.encoder, model.decoder):
        theirs = nn.LSTM(8, 8, 2, batch_first=True).double()
        cells = [layer.onward for layer in stack.layers]
        weights = [w for cell in cells for w in (cell.WX.weight, cell.WH.weight, cell.WX.bias, cell.WH.bias)]
        with torch.no_grad():
            for a, b in zip(weights, theirs.parameters(), strict=True):
                b.copy_(a)
        stacks.append(theirs)
    encoder, decoder = stacks
    X, Y = ids(3, 7), ids(3, 5, below=9)
    Z, last = encoder(F.embedding(X, model.E_source.weight))
    h, _ = decoder(F.embedding(Y, model.E_target.weight), last)
    if attention:
        H = F.scaled_dot_product_attention(F.linear(h, model.attention.WQ.weight), Z, Z, scale=1.0)
        h = torch.tanh(F.linear(torch.cat([H, h], -1), model.attention.WO.weight))
    expected = F.linear(h, model.W.weight, model.W.bias)
    logits = model(X, Y)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)
    names = ["E_source.weight", "E_target.weight"] + ["attention.WQ.weight", "attention.WO.weight"] * attention
    parameters = [model.get_parameter(name) for name in names]
    ours = torch.autograd.grad(logits.square().sum(), parameters)
    for a, b in zip(ours, torch.autograd.grad(expected.square().sum(), parameters), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_token_by_token_equals_the_whole_target(cell, attention, bidirectional) -> None:
    model = build(cell=cell, attention=attention, bidirectional=bidirectional)
    X, Y = ids(2, 6), ids(2, 5, below=9)
    mask = torch.arange(6) < torch.tensor([[6], [3]])
    memory, states, steps = model.encode(X, mask), None, []
    for y in Y.unbind(1):
        logits, states = model.decode(y[:, None], memory, states)
        steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, 1), model(X, Y, mask), rtol=0, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("attention", [False, True])
def test_padding_of_the_source_does_not_matter(attention, bidirectional) -> None:
    model = build(attention=attention, bidirectional=bidirectional)
    X, Y = ids(2, 6), ids(2, 5, below=9)
    mask = torch.arange(6) < torch.tensor([[6], [3]])
    torch.testing.assert_close(model(X, Y, mask)[1:], model(X[1:, :3], Y[1:]), rtol=0, atol=1e-12)


def test_attention_is_seen_by_its_names() -> None:
    model = build()
    seen: dict[str, torch.Tensor] = {}
    for symbol in "QSAHO":
        tap = model.get_submodule(f"attention.{symbol}")
        tap.watchers.append(lambda x, symbol=symbol: seen.update({symbol: x}))
    X, mask = ids(2, 6), torch.arange(6) < torch.tensor([[6], [3]])
    memory = model.encode(X, mask)
    model.decode(ids(2, 4, below=9), memory)
    expected = attend(seen["Q"], memory.X, memory.X, beta=1.0, mask=mask[:, None])
    for symbol in "SAH":
        torch.testing.assert_close(seen[symbol], getattr(expected, symbol))
    assert not seen["A"][1, :, 3:].any()
    torch.testing.assert_close(seen["A"].sum(-1), torch.ones(2, 4, dtype=torch.float64))


def test_editing_the_weights_changes_what_is_gathered() -> None:
    model = build()
    X, Y = ids(1, 6), ids(1, 4, below=9)
    gathered: list[torch.Tensor] = []
    model.get_submodule("attention.A").editors.append(lambda A: torch.eye(6).double()[2].expand_as(A))
    model.get_submodule("attention.H").watchers.append(gathered.append)
    model(X, Y)
    torch.testing.assert_close(gathered[0], model.encode(X).X[:, 2:3].expand(1, 4, 8))


def test_selecting_rows_is_decoding_those_rows() -> None:
    """What beam search does: repeat a source, drop another, reorder."""
    model = build()
    X, Y = ids(3, 6), ids(3, 4, below=9)
    mask = torch.arange(6) < torch.tensor([[6], [3], [5]])
    memory = model.encode(X, mask)
    states = model.decode(Y[:, :2], memory).states
    rows = torch.tensor([2, 0, 0])
    logits = model.decode(Y[rows, 2:], memory.select(rows), select(states, rows)).logits
    torch.testing.assert_close(logits, model(X, Y, mask)[rows, 2:], rtol=0, atol=1e-12)
    bare = model.encode(X).select(rows)
    assert bare.real is None
    assert bare.X.shape == (3, 6, 8)


def test_without_attention_only_the_last_state_is_seen() -> None:
    model = build(attention=False)
    memory = model.encode(ids(2, 6))
    Y = ids(2, 4, below=9)
    blind = memory._replace(X=torch.zeros_like(memory.X))
    assert model.decode(Y, memory).logits.equal(model.decode(Y, blind).logits)
    with_attention = build()
    memory = with_attention.encode(ids(2, 6))
    blind = memory._replace(X=torch.zeros_like(memory.X))
    assert not with_attention.decode(Y, memory).logits.equal(with_attention.decode(Y, blind).logits)


def test_learns_to_copy_backwards() -> None:
    X = 1 + ids(64, 4, below=3)
    Y = X.flip(1)
    inputs = F.pad(Y[:, :-1], (1, 0))
    model = RecurrentSeq2Seq(
        RecurrentSeq2SeqConfig(
            reads=Tokens(vocabulary=4), vocabulary=4, width=24, layers=1, attention=True, cell="gru", bidirectional=True
        )
    )
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(80):
        optimiser.zero_grad()
        F.cross_entropy(model(X, inputs).mT, Y).backward()
        optimiser.step()
    assert (model(X, inputs).argmax(-1) == Y).float().mean() > 0.9


def test_the_seed_is_the_only_randomness() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (RecurrentSeq2Seq(tiny(TOKENS, 9), seed=seed) for seed in (1, 1, 2))
    assert torch.random.get_rng_state().equal(before)
    assert all(a.equal(b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not one.W.weight.equal(other.W.weight)


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match="vocabulary is 0"):
        build(vocabulary=0)
    with pytest.raises(ConfigError, match="width 7 does not split into two directions"):
        build(width=7, bidirectional=True)
    model = build()
    X, Y = ids(2, 6), ids(2, 4, below=9)
    with pytest.raises(ShapeError, match="3 targets for 2 sources: give one each"):
        model.decode(ids(3, 4, below=9), model.encode(X))
    with pytest.raises(InputError, match="token id 9 is outside the vocabulary of 9"):
        model(X, torch.full((2, 4), 9))
    with pytest.raises(ShapeError, match=r"token ids have shape \(6,\)"):
        model(X[0], Y)
    with pytest.raises(MaskError, match="sequence 1 has padding before its end"):
        model(X, Y, torch.tensor([[True] * 6, [False] + [True] * 5]))
    with pytest.raises(ShapeError, match="the states have shapes"):
        model.decode(Y, model.encode(X), model.encode(X[:1]).states)
    nn.init.constant_(model.decoder.layers[0].onward.WX.weight, float("nan"))
    with pytest.raises(InputError, match=r"weight decoder\.layers\.0\.onward\.WX\.weight holds nan"):
        model(X, Y)


@pytest.mark.skipif(not bfloat16_works(), reason="bfloat16 does not run here")
@pytest.mark.parametrize("padded", [False, True])
def test_products_in_bfloat16(padded: bool) -> None:
    """As a training with mixed precision runs it, with sources of one length and of several."""
    model = build(bidirectional=True).float().eval()
    source, target = ids(2, 6), ids(2, 4, below=9)
    real = torch.tensor([[True] * 6, [True] * 4 + [False] * 2]) if padded else None
    with torch.no_grad():
        exact = model(source, target, real)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            close = model(source, target, real)
    torch.testing.assert_close(close.float(), exact, rtol=0.05, atol=0.05)
