"""Heads scored against their null distribution, on sequences and on image grids."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from torch import Tensor, nn

from glassformer.checkpoints import load_folder
from glassformer.core.positions import sinusoidal_at
from glassformer.data.registry import fetch
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens import at_heads, edit, trace
from glassformer.lens.construct import convolution, identity, named_kernel, plant, shift
from glassformer.lens.head_null import AttentionRows, Profile, RowStatistics, Score, Tally
from glassformer.lens.heads import HeadScores, LayerTally, repeated_tokens, score_heads, score_paths, token_targets
from glassformer.lens.heads2d import GridScores, score_image_heads
from glassformer.lens.headtable import HeadRow, HeadTable, choose_behaviour, clear
from glassformer.lens.routing import Routing
from glassformer.models import Decoder, Encoder, Seq2Seq, ViT, decoder, encoder, seq2seq, vit

HEADS_PATH = {"decoder": "decoder.1.attention", "encoder": "encoder.0.attention"}


def make(kind: str, seed: int = 0) -> nn.Module:
    return Decoder(decoder.tiny(), seed=seed).eval() if kind == "decoder" else Encoder(encoder.tiny(), seed=seed).eval()


def inputs(seed: int = 0, lengths: tuple[int, ...] = (20, 14, 26)) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(50, (3, n), generator=generator) for n in lengths]


def label_of(model: nn.Module, path: str, change: Callable[[Tensor], Tensor], batches: list[Tensor]) -> str:
    head = 1
    with edit(model, f"{path}.S", change):
        table = score_heads(model, batches)
    others = [row.label for row in table if (row.path, row.head) != (f"{path}.A", head)]
    assert set(others) <= {"diffuse"}  # what a new model does, whose weights are small
    return table.at(f"{path}.A", head).label


@pytest.mark.parametrize(
    ("kind", "routing", "label"),
    [
        ("decoder", shift(1), "previous"),
        ("decoder", shift(3), "offset -3"),
        ("decoder", identity(), "self"),
        ("encoder", shift(-1), "next"),
        ("encoder", shift(1), "previous"),
        ("encoder", shift(-4), "offset +4"),
    ],
)
def test_planted_offsets_are_found(kind: str, routing: object, label: str) -> None:
    assert label_of(make(kind), HEADS_PATH[kind], plant(routing, 1), inputs()) == label  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_planted_sink_is_found(kind: str) -> None:
    def sink(S: Tensor) -> Tensor:
        return S + 20.0 * (torch.arange(S.shape[-1]) == 0)

    assert label_of(make(kind), HEADS_PATH[kind], at_heads(sink, 1), inputs()) == "first"


def test_induction_is_not_hidden_by_a_sink() -> None:
    """A head that does induction at every third place where it could, and otherwise rests on the first token."""
    model, path, batches = (
        make("decoder"),
        HEADS_PATH["decoder"],
        repeated_tokens(50, seed=0, lengths=(20, 24), batch=6),
    )
    current: list[Tensor] = []

    def change(S: Tensor) -> Tensor:
        s = S.shape[-1]
        targets = token_targets(current[0], torch.arange(s), s, [])["induction"]
        targets = targets & (torch.arange(s) % 3 == 0)[:, None]
        return S + 20.0 * (torch.arange(s) == 0) + 40.0 * targets[:, None]

    scores = HeadScores()
    for tokens in batches:
        current[:] = [tokens]
        with torch.no_grad(), edit(model, f"{path}.S", at_heads(change, 1)), trace(model, *score_paths(model)) as run:
            model(tokens)
        scores.add(run, tokens)
    table = scores.table()
    row = table.at(f"{path}.A", 1)
    assert row.labels == ("induction", "first")
    assert row.label == "induction, first"
    assert table.find("induction") == table.find("first") == [row]


def test_rows_without_a_sink_are_judged_even_if_the_head_has_no_label() -> None:
    """A third of the rows use the first token as a sink, the others do induction: neither is clear over all rows."""
    name = "induction"
    score = lambda value, rows: Score(value, 0.05, 0.01, rows)
    scores = {"first": score(0.38, 90), name: score(0.36, 90)}
    assert choose_behaviour(scores, HeadScores().groups()) == ""
    assert HeadScores().sinkless_label(scores, {name: score(0.55, 60)}) == name
    layer = LayerTally(HeadScores().places)
    table = HeadScores()
    table._layers["decoder.0.attention.A"] = layer
    layer.heads = lambda no_sink=False: [{name: score(0.55, 60)} if no_sink else scores]  # type: ignore[method-assign]
    assert table.table().rows[0].labels == (name,)


@pytest.mark.parametrize(("name", "back"), [("induction", 1), ("duplicate", 0)])
def test_planted_induction_and_duplicates_are_found(name: str, back: int) -> None:
    """On repeated random sequences of several lengths, so that no fixed offset looks the same."""
    model = make("decoder")
    path = HEADS_PATH["decoder"]
    for tokens in (batches := repeated_tokens(50, seed=3, lengths=(9, 13, 17))):
        assert (tokens[:, : tokens.shape[1] // 2] == tokens[:, tokens.shape[1] // 2 :]).all()
    scores = HeadScores()
    for tokens in batches:
        n = tokens.shape[1]
        key = torch.arange(n)
        seen = tokens.roll(back, 1)[:, None, :] == tokens[:, :, None]  # my token stands `back` before the key
        bonus = 20.0 * (seen & (key < key[:, None]) & (key >= back))
        planted = at_heads(lambda S, bonus=bonus: S + bonus[:, None], 0)
        with torch.no_grad(), edit(model, f"{path}.S", planted), trace(model, *score_paths(model)) as run:
            model(tokens)
        scores.add(run, tokens)
    table = scores.table()
    assert table.at(f"{path}.A", 0).label == name
    assert [row.head for row in table.find(name)] == [0]


def test_an_edit_of_the_weights_themselves_is_found() -> None:
    """A is then explicit, and what the mask allows comes from S."""
    model = make("decoder")
    previous = lambda A: torch.eye(A.shape[-1]).roll(-1, -1).expand_as(A)
    with edit(model, "decoder.0.attention.A", at_heads(previous, 0)):
        table = score_heads(model, inputs())
    assert table.at("decoder.0.attention.A", 0).label == "previous"
    with edit(model, "decoder.0.attention.A", previous), trace(model, "*.A") as run:
        model(inputs()[0])
    with pytest.raises(InputError, match=r"S of decoder\.0\.attention\.A was not traced"):
        HeadScores().add(run)


def test_a_head_planted_in_the_weights_is_found() -> None:
    """Positions as sinusoids in the table, W_Q a turn by −1, W_K the identity: no edit, a real head."""
    model = Decoder(decoder.tiny(), seed=1).eval()
    angles = torch.arange(48)
    with torch.no_grad():
        code = sinusoidal_at(angles, 8)
        back = sinusoidal_at(angles - 1, 8)
        turn = torch.linalg.lstsq(code.double(), back.double()).solution.float()  # E[p] turn = E[p − 1]
        model.decoder.embed.table.weight.mul_(0.1)
        table = model.decoder.embed.positions.table.weight
        table.zero_()
        table[:, :8], table[:, 8:] = 3 * code, -3 * code  # mean 0, so that the norm only scales it
        layer = model.decoder.get_submodule("0").attention
        for W in (layer.WQ.weight, layer.WK.weight):
            W[:8] = 0
        layer.WQ.weight[:8, :8] = 12 * turn.T
        layer.WK.weight[:8, :8] = 12 * torch.eye(8)
    made = score_heads(model, inputs())
    assert made.at("decoder.0.attention.A", 0).label == "previous"
    assert made.at("decoder.0.attention.A", 1).label in ("diffuse", "")


@pytest.mark.parametrize(("kind", "width", "offsets"), [("encoder", 3, [-1, 0, 1]), ("decoder", 2, [-1, 0])])
def test_a_planted_convolution_is_found_with_its_kernel(kind: str, width: int, offsets: list[int]) -> None:
    weights = torch.tensor([0.25, 0.5, 0.25])

    def band(S: Tensor) -> Tensor:
        n = S.shape[-1]
        d = torch.arange(n) - torch.arange(n)[:, None]
        bias = torch.where(d.abs() <= 1, weights[d.clamp(-1, 1) + 1].log(), torch.tensor(-40.0))
        return bias.expand_as(S).masked_fill(torch.isneginf(S), -torch.inf)

    model = make(kind)
    with edit(model, f"{HEADS_PATH[kind]}.S", at_heads(band, 0)):
        row = score_heads(model, inputs()).at(f"{HEADS_PATH[kind]}.A", 0)
    assert row.label == f"convolution {width}"
    assert list(row.kernel) == offsets
    inside = torch.tensor([weights[o + 1] for o in offsets])
    assert torch.tensor(list(row.kernel.values())) == pytest.approx(inside / inside.sum(), abs=0.03)
    assert row.scores[f"explained by {row.behind}"].value > 0.9


def test_a_local_head_that_follows_content_is_no_convolution() -> None:
    """All weight within three keys, but on which of them changes from query to query."""
    generator = torch.Generator().manual_seed(0)

    def near(S: Tensor) -> Tensor:
        n = S.shape[-1]
        pick = torch.randint(-1, 2, (S.shape[0], 1, n, 1), generator=generator)
        d = torch.arange(n) - torch.arange(n)[:, None]
        return S + 20.0 * (d == pick)

    model = make("encoder")
    with edit(model, "encoder.0.attention.S", at_heads(near, 0)):
        row = score_heads(model, inputs(lengths=(24, 30))).at("encoder.0.attention.A", 0)
    assert row.label == "local 3"


def test_constructed_convolutions_are_found_too() -> None:
    model = make("encoder")
    with edit(model, "encoder.1.attention.S", plant(convolution([1, 2, 2, 2, 1], edges="renormalised"), 0)):
        row = score_heads(model, inputs()).at("encoder.1.attention.A", 0)
    assert row.label == "convolution 5"


def sharp_heads(kind: str, seed: int) -> nn.Module:
    """A random model whose attention is as peaked as a trained one's: scores of deviation about 3."""
    model = make(kind, seed)
    generator = torch.Generator().manual_seed(seed + 1000)
    with torch.no_grad():
        for path, weight in model.named_parameters():
            if ".WQ.weight" in path or ".WK.weight" in path:
                weight.normal_(0, 0.35, generator=generator)
            if path.endswith("table.weight"):
                weight.normal_(0, 1, generator=generator)
    return model


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_heads_random_models_score_at_the_null(kind: str) -> None:
    """At most 2 % of the heads of sharp random models get a label, over 12 seeds."""
    labels, z, peaks = [], [], []
    for seed in range(12):
        model = sharp_heads(kind, seed)
        batches = repeated_tokens(50, seed=seed, lengths=(9, 12, 15), batch=6)
        with torch.no_grad(), trace(model, "*.attention.A") as run:
            model(batches[0])
        peaks += [A.amax(-1).mean().item() for _, A in run.each("*.A")]
        for row in score_heads(model, batches):
            labels.append(row.label)
            z += [abs(row.scores[name].excess) for name in ("self", "previous", "induction", "duplicate")]
    assert sum(peaks) / len(peaks) > 0.3  # sharp indeed: a uniform head has about 0.1
    assert sum(label != "" for label in labels) <= 0.02 * len(labels), labels
    assert sum(z) / len(z) < 0.1


def test_new_models_are_diffuse_and_nothing_else() -> None:
    for seed in range(4):
        assert {row.label for row in score_heads(make("decoder", seed), inputs(seed))} == {"diffuse"}


def test_uniform_attention_scores_exactly_the_null() -> None:
    model = make("decoder")
    with edit(model, "decoder.*.attention.beta", 0):
        row = score_heads(model, inputs()).rows[0]
    for name, score in row.scores.items():
        if name not in ("diffuse",):
            assert score.excess == pytest.approx(0.0, abs=1e-6), name
    assert row.scores["diffuse"].value == pytest.approx(1.0, abs=1e-6)


def test_scores_stream_over_inputs_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch at a time or all at once, in blocks of rows or whole: the same numbers."""
    model = sharp_heads("decoder", 4)
    tokens = repeated_tokens(50, seed=0, lengths=(12,), batch=6)[0]
    whole = score_heads(model, [tokens])
    monkeypatch.setattr("glassformer.lens.heads._BLOCK", 200)
    parts = score_heads(model, [tokens[:2], tokens[2:3], tokens[3:]])
    for one, other in zip(whole, parts, strict=True):
        assert one.label == other.label
        for name, score in one.scores.items():
            assert tuple(other.scores[name]) == pytest.approx(tuple(score), abs=1e-6), name


def test_padding_is_left_out() -> None:
    model = sharp_heads("encoder", 2)
    tokens = inputs(lengths=(12,))[0]
    padded = torch.cat([tokens, torch.zeros(3, 5, dtype=torch.long)], 1)
    real = torch.arange(17) < 12
    bare = score_heads(model, [tokens])
    for one, other in zip(bare, score_heads(model, [(padded, real.expand(3, -1))]), strict=True):
        for name, score in one.scores.items():
            if name not in ("duplicate", "induction"):
                assert tuple(other.scores[name]) == pytest.approx(tuple(score), abs=1e-5), name


def test_an_encoder_decoder_takes_tokens_by_stack_and_leaves_cross_attention_out() -> None:
    model = Seq2Seq(seq2seq.tiny()).eval()
    generator = torch.Generator().manual_seed(0)
    pair = torch.randint(5, 20, (2, 11), generator=generator), torch.randint(5, 20, (2, 9), generator=generator)
    table = score_heads(model, [pair])
    assert {row.path for row in table} == {f"{side}.{i}.attention.A" for side in ("encoder", "decoder") for i in (0, 1)}


def test_steps_with_a_cache_are_scored_where_they_stand() -> None:
    """Token by token, the queries' places go on from the past."""
    model = sharp_heads("decoder", 3)
    tokens = inputs(lengths=(10,))[0]
    with torch.no_grad(), trace(model, *score_paths(model)) as whole:
        model(tokens)
    cache = model.cache(10)
    with torch.no_grad(), trace(model, *score_paths(model)) as steps:
        for i in range(10):
            model(tokens[:, i : i + 1], cache=cache)
    tables = []
    for run in (whole, steps):
        scores = HeadScores()
        scores.add(run)
        tables.append(scores.table())
    for one, other in zip(*tables, strict=True):
        for name, score in one.scores.items():
            assert tuple(other.scores[name]) == pytest.approx(tuple(score), abs=1e-5), name


def test_targets_by_token() -> None:
    tokens = torch.tensor([[7, 3, 7, 3, 9]])
    found = token_targets(tokens, torch.arange(5), 5, [9])
    assert found["duplicate"][0].nonzero().tolist() == [[2, 0], [3, 1]]
    assert found["induction"][0].nonzero().tolist() == [[2, 1], [3, 2]]
    assert found["separator"][0, 0].tolist() == [False, False, False, False, True]


def test_separators_are_found() -> None:
    def to_nine(tokens: Tensor) -> Callable[[Tensor], Tensor]:
        return at_heads(lambda S: S + 20.0 * (tokens == 9)[:, None, None, :], 0)

    model = make("encoder")
    tokens = torch.randint(10, 50, (4, 20), generator=torch.Generator().manual_seed(0))
    tokens[:, [6, 15]] = 9
    with edit(model, "encoder.0.attention.S", to_nine(tokens)):
        table = score_heads(model, [tokens], separators=[9])
    assert table.at("encoder.0.attention.A", 0).label == "separator"


def test_mistakes() -> None:
    with pytest.raises(InputError, match="no batches were given: give at least one"):
        score_heads(Decoder(decoder.tiny()), [])
    with pytest.raises(ConfigError, match="choose odd widths"):
        HeadScores(widths=(4,))
    model = make("decoder")
    with trace(model, "decoder.0.X") as run:
        model(inputs()[0])
    with pytest.raises(InputError, match="has no A"):
        HeadScores().add(run)
    with trace(model, *score_paths(model)) as run:
        model(inputs()[0])
    with pytest.raises(ShapeError, match="there are 4 tokens for 20 keys"):
        HeadScores().add(run, torch.ones(3, 4, dtype=torch.long))
    with pytest.raises(ShapeError, match="real covers 4"):
        HeadScores().add(run, None, torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(InputError, match="vocabulary must be at least 2, got 1"):
        repeated_tokens(1, seed=0)


def test_repeated_sequences_may_begin_with_a_token() -> None:
    (tokens,) = repeated_tokens(50, seed=0, lengths=(6,), batch=2, first=49)
    assert tokens.shape == (2, 13)
    assert (tokens[:, 0] == 49).all()
    assert torch.equal(tokens[:, 1:7], tokens[:, 7:])


GRID = (6, 6)
HEADS2D_PATH = "encoder.1.attention"


def model(seed: int = 0) -> ViT:
    return ViT(vit.plain(24, 4, 16, 2, 2, classes=5), seed=seed).eval()


def images(count: int = 2, seed: int = 0, size: int = 24) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(seed))


def offset(dy: int, dx: int) -> Routing:
    return Routing(name="offset", offsets=((dy, dx),), C=torch.ones(1, 1, 1, dtype=torch.float64))


@pytest.mark.parametrize(
    ("routing", "label"),
    [
        (offset(0, 1), "offset (+0, +1)"),
        (offset(-2, 1), "offset (-2, +1)"),
        (offset(0, 0), "self"),
        (convolution(named_kernel("box", (3, 3)), edges="renormalised"), "convolution 3×3"),
        (convolution(named_kernel("box", (5, 5)), edges="renormalised"), "convolution 5×5"),
    ],
)
def test_planted_offsets_and_windows_are_found(routing: Routing, label: str) -> None:
    net = model()
    with edit(net, f"{HEADS2D_PATH}.S", plant(routing, 1, size=GRID, prefix=1)):
        table = score_image_heads(net, [images()])
    assert table.at(f"{HEADS2D_PATH}.A", 1).label == label
    assert {row.label for row in table if row.label != label} == {"global"}  # the rest is new, and flat


def test_the_smallest_grid_has_offsets_too() -> None:
    """2 × 2 patches: few rows an image, so several images."""
    net = ViT(vit.tiny(), seed=0).eval()
    with edit(net, f"{HEADS2D_PATH}.S", plant(offset(0, 1), 0, size=(2, 2), prefix=1)):
        table = score_image_heads(net, [images(6, size=8), images(6, seed=1, size=8)], reach=1, widths=(3,))
    assert table.at(f"{HEADS2D_PATH}.A", 0).label == "offset (+0, +1)"


@pytest.mark.parametrize("label", ["row", "column", "CLS"])
def test_planted_rows_columns_and_sinks_are_found(label: str) -> None:
    y, x = torch.arange(36) // 6, torch.arange(36) % 6
    bonus = torch.zeros(37, 37)
    if label == "CLS":
        bonus[:, 0] = 20
    else:
        place = y if label == "row" else x
        bonus[1:, 1:] = 20.0 * (place == place[:, None])
    net = model()
    with edit(net, f"{HEADS2D_PATH}.S", at_heads(lambda S: S + bonus, 0)):
        assert score_image_heads(net, [images()]).at(f"{HEADS2D_PATH}.A", 0).label == label


def test_registers_are_found() -> None:
    config = vit.ViTConfig(**{**model().config.__dict__, "registers": 3})
    net = ViT(config, seed=0).eval()
    key = torch.arange(40)
    with edit(net, f"{HEADS2D_PATH}.S", at_heads(lambda S: S + 20.0 * ((key > 0) & (key < 4)), 0)):
        assert score_image_heads(net, [images()]).at(f"{HEADS2D_PATH}.A", 0).label == "registers"


def sharp_heads2d(seed: int) -> ViT:
    net = model(seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if ".WQ.weight" in name or ".WK.weight" in name:
                weight.normal_(0, 0.35, generator=generator)
            if name in ("positions", "embed.W.weight"):
                weight.normal_(0, 0.5, generator=generator)
    return net


def test_heads2d_random_models_score_at_the_null() -> None:
    """At most 3 % of the heads of sharp random models get a label, over 10 seeds."""
    labels = [row.label for seed in range(10) for row in score_image_heads(sharp_heads2d(seed), [images(4, seed)])]
    assert len(labels) == 40
    assert sum(label != "" for label in labels) <= 0.03 * len(labels), labels


def test_mean_distance_is_that_of_the_paper() -> None:
    """Distances in pixels between patches, weighted by attention among patches, written out."""
    net = sharp_heads2d(3)
    X = images(2)
    with torch.no_grad(), trace(net, "*.attention.A") as run:
        net(X)
    A = run[f"{HEADS2D_PATH}.A"].double().numpy()[:, :, 1:, 1:]
    A = A / A.sum(-1, keepdims=True)
    places = np.array([(4 * (i // 6), 4 * (i % 6)) for i in range(36)])
    D = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))
    table = score_image_heads(net, [X[:1], X[1:]])
    for head in (0, 1):
        score = table.at(f"{HEADS2D_PATH}.A", head).scores["distance"]
        assert score.value == pytest.approx((A[:, head] * D).sum(-1).mean())
        assert score.null == pytest.approx(D.mean())  # what uniform attention has


def test_one_size_at_a_time() -> None:
    with pytest.raises(ShapeError, match="one size at a time"):
        score_image_heads(model(), [images(), images(size=32)])
    scores = GridScores((5, 5))
    net = model()
    with torch.no_grad(), trace(net, *score_paths(net)) as run:
        net(images())
    with pytest.raises(ShapeError, match=r"37 keys, but 1 \+ 5 × 5 positions"):
        scores.add(run)
    with pytest.raises(ConfigError, match="choose sizes"):
        GridScores((0, 5))
    with pytest.raises(InputError, match="no images were given: give at least one"):
        score_image_heads(net, [])


def test_other_sizes_have_their_own_grid() -> None:
    net = model()
    with edit(net, f"{HEADS2D_PATH}.S", plant(offset(1, 0), 0, size=(8, 8), prefix=1)):
        assert score_image_heads(net, [images(size=32)]).at(f"{HEADS2D_PATH}.A", 0).label == "offset (+1, +0)"


DOUBLE = torch.float64


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def one_row(a: list[float], allowed: list[bool] | None = None) -> AttentionRows:
    A = torch.tensor(a, dtype=DOUBLE)[None, None, None]
    M = torch.ones_like(A, dtype=torch.bool) if allowed is None else torch.tensor(allowed)[None, None, None]
    return AttentionRows(A, M, torch.tensor([len(a) - 1]))


def dealt(a: torch.Tensor, times: int, seed: int) -> torch.Tensor:
    order = torch.rand(times, len(a), generator=generator(seed)).argsort(-1)
    return a[order]


@given(st.integers(2, 9), st.integers(0, 10_000))
def test_the_null_is_the_same_weights_dealt_at_random(n: int, seed: int) -> None:
    a = torch.rand(n, dtype=DOUBLE, generator=generator(seed)).pow(4)
    a = a / a.sum()
    k = 1 + seed % (n - 1)
    found = one_row(a.tolist()).within((torch.arange(n) < k)[None, None])
    samples = dealt(a, 20_000, seed)[:, :k].sum(-1)
    assert found.null.item() == pytest.approx(k / n)
    assert samples.mean().item() == pytest.approx(found.null.item(), abs=5 * found.variance.sqrt().item() / 140 + 1e-9)
    assert samples.var().item() == pytest.approx(found.variance.item(), rel=0.15, abs=1e-9)


def test_the_null_of_a_mean_of_distances() -> None:
    a = torch.tensor([0.6, 0.3, 0.05, 0.05], dtype=DOUBLE)
    d = torch.tensor([0.0, 1.0, 4.0, 2.5], dtype=DOUBLE)
    found = one_row(a.tolist()).mean_of(d[None], torch.ones(1, 4, dtype=torch.bool))
    samples = dealt(a, 40_000, 3) @ d
    assert found.value.item() == pytest.approx((a @ d).item())
    assert samples.mean().item() == pytest.approx(found.null.item(), rel=0.02)
    assert samples.var().item() == pytest.approx(found.variance.item(), rel=0.05)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_the_null_of_entropy_is_that_of_dirichlet(n: int) -> None:
    drawn = np.random.default_rng(n).dirichlet(np.ones(n), 40_000)
    entropy = -(drawn * np.log(drawn)).sum(-1) / math.log(n)
    found = one_row([1 / n] * n).entropy()
    assert found.value.item() == pytest.approx(1.0)
    assert entropy.mean() == pytest.approx(found.null.item(), abs=0.01)
    assert entropy.var() == pytest.approx(found.variance.item(), rel=0.06)


def test_masked_keys_are_no_part_of_the_null() -> None:
    rows = one_row([0.5, 0.25, 0.25, 0.0], [True, True, True, False])
    found = rows.at(torch.tensor([[0]]))
    assert found.null.item() == pytest.approx(1 / 3)
    assert not rows.at(torch.tensor([[3]])).use.any()  # the target itself is hidden
    assert not rows.at(torch.tensor([[-1]])).use.any()


def test_rows_that_choose_nothing_do_not_count() -> None:
    assert not one_row([1.0, 0.0], [True, False]).at(torch.tensor([[0]])).use.any()
    everything = torch.ones(1, 1, 2, dtype=torch.bool)
    assert not one_row([0.9, 0.1]).within(everything).use.any()


def test_a_tally_streams() -> None:
    """Two halves of the rows, added one after the other, score as all of them."""
    A = torch.rand(2, 3, 8, 5, dtype=DOUBLE, generator=generator(0)).softmax(-1)
    M = torch.ones_like(A, dtype=torch.bool)
    keys = torch.arange(8)[None] % 5
    whole, parts = Tally(), Tally()
    whole.add(AttentionRows(A, M, torch.arange(8)).at(keys))
    for rows in (slice(0, 3), slice(3, 8)):
        parts.add(AttentionRows(A[:, :, rows], M[:, :, rows], torch.arange(8)[rows]).at(keys[:, rows]))
    for one, other in zip(whole.scores(), parts.scores(), strict=True):
        assert one is not None
        assert other is not None
        assert tuple(one) == pytest.approx(tuple(other))
    assert whole.scores()[1].value == pytest.approx(A[:, 1, range(8), keys[0]].mean().item())  # type: ignore[union-attr]


def test_a_score_reads_as_excess_and_z() -> None:
    score = Score(0.6, 0.2, 0.1, 9)
    assert score.excess == pytest.approx(0.5)
    assert score.z == pytest.approx(4.0)
    assert Score(1.0, 1.0, 0.0, 1).excess == 0.0 == Score(1.0, 1.0, 0.0, 1).z


def test_no_rows_no_score() -> None:
    zero = torch.zeros(1, 2, 3, dtype=DOUBLE)
    tally = Tally()
    tally.add(RowStatistics(zero, zero, zero, torch.zeros(1, 2, 3, dtype=torch.bool)))
    assert tally.scores() == [None, None]
    assert Tally().scores() == []


def test_heads_of_another_model_are_refused() -> None:
    tally = Tally()
    for heads in (2, 3):
        A = torch.full((1, heads, 2, 2), 0.5, dtype=DOUBLE)
        found = AttentionRows(A, A > 0, torch.arange(2)).entropy()
        if heads == 3:
            with pytest.raises(ShapeError, match="had 2 heads and now 3"):
                tally.add(found)
        else:
            tally.add(found)


def profile_of(A: torch.Tensor, offsets: list[int]) -> Profile:
    n = A.shape[-1]
    rows = AttentionRows(A, torch.ones_like(A, dtype=torch.bool), torch.arange(n))
    profile = Profile(offsets)
    profile.begin(rows)
    for i, offset in enumerate(offsets):
        keys = torch.arange(n) + offset
        mass, k = rows.gather(torch.where((keys >= 0) & (keys < n), keys, -1)[None])
        profile.add(i, rows, mass, k)
    return profile


def test_the_profile_is_the_mean_by_offset_and_what_it_explains() -> None:
    """Against the definition, written out with loops."""
    n, offsets = 7, [-1, 0, 1]
    A = torch.rand(1, 1, n, n, dtype=DOUBLE, generator=generator(5)).mul(4).softmax(-1)
    a = A[0, 0].numpy()
    kernel = {d: np.mean([a[t, t + d] for t in range(n) if 0 <= t + d < n]) for d in offsets}
    fit = np.array([[kernel.get(s - t, 0.0) for s in range(n)] for t in range(n)])
    explained = 1 - ((a - fit) ** 2).sum() / ((a - 1 / n) ** 2).sum()
    profile = profile_of(A, offsets)
    assert profile.kernel(0) == pytest.approx(kernel)
    score = profile.explained(0, offsets)
    assert score is not None
    assert score.value == pytest.approx(explained)


def test_the_null_of_what_a_kernel_explains() -> None:
    n, offsets = 12, [-1, 0, 1]
    a = torch.rand(n, dtype=DOUBLE, generator=generator(1)).mul(5).softmax(-1)
    values = []
    for seed in range(300):
        score = profile_of(dealt(a, n, seed)[None, None], offsets).explained(0, offsets)
        assert score is not None
        values.append(score.value)
    assert score is not None
    assert np.mean(values) == pytest.approx(score.null, abs=4 * score.sd / math.sqrt(300) + 1e-3)
    assert np.std(values) == pytest.approx(score.sd, rel=0.3)


def test_uniform_attention_has_nothing_to_explain() -> None:
    assert profile_of(torch.full((1, 1, 6, 6), 1 / 6, dtype=DOUBLE), [0]).explained(0, [0]) is None


GROUPS = [["self", "previous"], ["local 3"], ["diffuse"]]


def sure(excess: float) -> Score:
    return Score(excess, 0.0, excess / 10 + 1e-9, 100)


def test_clear_needs_size_and_certainty() -> None:
    assert clear(sure(0.9))
    assert not clear(sure(0.2))  # certain, but small
    assert not clear(Score(0.9, 0.0, 0.5, 2))  # large, but by luck
    assert not clear(None)


def test_the_plain_wins_where_it_says_nearly_all() -> None:
    assert choose_behaviour({"previous": sure(0.8), "local 3": sure(0.95)}, GROUPS) == "previous"
    assert choose_behaviour({"previous": sure(0.5), "local 3": sure(0.95)}, GROUPS) == "local 3"
    assert choose_behaviour({"self": sure(0.7), "previous": sure(0.8)}, GROUPS) == "previous"
    assert choose_behaviour({"diffuse": sure(0.8)}, GROUPS) == "diffuse"
    assert choose_behaviour({"self": sure(0.1)}, GROUPS) == ""
    assert choose_behaviour({}, GROUPS) == ""


def table() -> HeadTable:
    rows = [
        HeadRow(
            path="decoder.0.attention.A",
            layer=0,
            head=h,
            labels=(does,) if does else (),
            behind=does,
            scores=scores,
            kernel={-1: 0.5},
        )
        for h, (does, scores) in enumerate([("previous", {"previous": sure(0.9)}), ("", {"self": sure(0.1)})])
    ]
    return HeadTable(rows=rows, columns=["self", "previous"], points=["self", "previous"])


def test_a_table_is_data_and_prints_itself() -> None:
    made = table()
    assert [row.head for row in made.find("previous")] == [0]
    assert made.at("decoder.0.attention.A", 1).score is None
    assert made.at("decoder.0.attention.A", 0).score == sure(0.9)
    assert made.matrix("previous")[0][0] == 0.9
    assert made.matrix("previous")[0][1] != made.matrix("previous")[0][1]  # NaN: not measured
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(made)
    text = console.export_text()
    assert "decoder.0.attention" in text
    assert "previous 0.90" in text
    assert "<td>previous</td>" in made._repr_html_()
    assert len(made) == len(list(made)) == 2


@pytest.mark.slow
def test_every_strong_induction_head_of_smollm_is_labelled() -> None:
    """Strong: a mean weight of at least 0.4 on the induction key, in the attention of Hugging Face's own class."""
    transformers = pytest.importorskip("transformers")
    folder = fetch("smollm2-135m")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    batches = repeated_tokens(
        theirs.config.vocab_size, seed=0, batch=2, lengths=(40, 50), first=theirs.config.bos_token_id
    )
    total, count = torch.zeros(()), 0
    with torch.no_grad():
        for tokens in batches:
            A = torch.stack(theirs(tokens, output_attentions=True).attentions)
            half = tokens.shape[1] // 2
            queries = torch.arange(1 + half, tokens.shape[1] - 1)
            on_key = A[..., queries, queries - half + 1]  # layers, batch, heads, queries
            total, count = total + on_key.sum((1, 3)), count + on_key.shape[1] * on_key.shape[3]
        found = {(row.layer, row.head): row.labels for row in score_heads(load_folder(folder), batches)}
    heads = (total / count >= 0.4).nonzero().tolist()
    assert len(heads) == 8  # the next has 0.28
    assert all("induction" in found[layer, head] for layer, head in heads)
