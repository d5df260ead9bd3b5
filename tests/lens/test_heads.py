from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from glassformer.core.positions import sinusoidal_at
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens import at_heads, edit, trace
from glassformer.lens.construct import convolution, identity, plant, shift
from glassformer.lens.heads import HeadScores, repeated, score_heads, token_targets, watch
from glassformer.models import Decoder, Encoder, Seq2Seq, decoder, encoder, seq2seq

PATH = {"decoder": "decoder.1.attention", "encoder": "encoder.0.attention"}


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
    assert label_of(make(kind), PATH[kind], plant(routing, 1), inputs()) == label  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_planted_sink_is_found(kind: str) -> None:
    def sink(S: Tensor) -> Tensor:
        return S + 20.0 * (torch.arange(S.shape[-1]) == 0)

    assert label_of(make(kind), PATH[kind], at_heads(sink, 1), inputs()) == "first"


def test_induction_is_not_hidden_by_a_sink() -> None:
    """A head that does induction at every third place where it could, and otherwise rests on the first token."""
    model, path, batches = make("decoder"), PATH["decoder"], repeated(50, seed=0, lengths=(20, 24), batch=6)
    current: list[Tensor] = []

    def change(S: Tensor) -> Tensor:
        s = S.shape[-1]
        targets = token_targets(current[0], torch.arange(s), s, [])["induction"]
        targets = targets & (torch.arange(s) % 3 == 0)[:, None]
        return S + 20.0 * (torch.arange(s) == 0) + 40.0 * targets[:, None]

    scores = HeadScores()
    for tokens in batches:
        current[:] = [tokens]
        with torch.no_grad(), edit(model, f"{path}.S", at_heads(change, 1)), trace(model, *watch(model)) as run:
            model(tokens)
        scores.add(run, tokens)
    table = scores.table()
    row = table.at(f"{path}.A", 1)
    assert row.labels == ("induction", "first")
    assert row.label == "induction, first"
    assert table.find("induction") == table.find("first") == [row]


@pytest.mark.parametrize(("name", "back"), [("induction", 1), ("duplicate", 0)])
def test_planted_induction_and_duplicates_are_found(name: str, back: int) -> None:
    """On repeated random sequences of several lengths, so that no fixed offset looks the same."""
    model = make("decoder")
    path = PATH["decoder"]
    for tokens in (batches := repeated(50, seed=3, lengths=(9, 13, 17))):
        assert (tokens[:, : tokens.shape[1] // 2] == tokens[:, tokens.shape[1] // 2 :]).all()
    scores = HeadScores()
    for tokens in batches:
        n = tokens.shape[1]
        key = torch.arange(n)
        seen = tokens.roll(back, 1)[:, None, :] == tokens[:, :, None]  # my token stands `back` before the key
        bonus = 20.0 * (seen & (key < key[:, None]) & (key >= back))
        planted = at_heads(lambda S, bonus=bonus: S + bonus[:, None], 0)
        with torch.no_grad(), edit(model, f"{path}.S", planted), trace(model, *watch(model)) as run:
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
    with pytest.raises(InputError, match=r"S of decoder\.0\.attention\.A was not watched"):
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
    with edit(model, f"{PATH[kind]}.S", at_heads(band, 0)):
        row = score_heads(model, inputs()).at(f"{PATH[kind]}.A", 0)
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


def sharp(kind: str, seed: int) -> nn.Module:
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
def test_random_models_score_at_the_null(kind: str) -> None:
    """At most 2 % of the heads of sharp random models get a label, over 12 seeds."""
    labels, z, peaks = [], [], []
    for seed in range(12):
        model = sharp(kind, seed)
        batches = repeated(50, seed=seed, lengths=(9, 12, 15), batch=6)
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
    model = sharp("decoder", 4)
    tokens = repeated(50, seed=0, lengths=(12,), batch=6)[0]
    whole = score_heads(model, [tokens])
    monkeypatch.setattr("glassformer.lens.heads._BLOCK", 200)
    parts = score_heads(model, [tokens[:2], tokens[2:3], tokens[3:]])
    for one, other in zip(whole, parts, strict=True):
        assert one.label == other.label
        for name, score in one.scores.items():
            assert tuple(other.scores[name]) == pytest.approx(tuple(score), abs=1e-6), name


def test_padding_is_left_out() -> None:
    model = sharp("encoder", 2)
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
    model = sharp("decoder", 3)
    tokens = inputs(lengths=(10,))[0]
    with torch.no_grad(), trace(model, *watch(model)) as whole:
        model(tokens)
    cache = model.cache(10)
    with torch.no_grad(), trace(model, *watch(model)) as steps:
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
    with pytest.raises(InputError, match="0 batches: give at least one"):
        score_heads(Decoder(decoder.tiny()), [])
    with pytest.raises(ConfigError, match="choose odd widths"):
        HeadScores(widths=(4,))
    model = make("decoder")
    with trace(model, "decoder.0.X") as run:
        model(inputs()[0])
    with pytest.raises(InputError, match="kept no A"):
        HeadScores().add(run)
    with trace(model, *watch(model)) as run:
        model(inputs()[0])
    with pytest.raises(ShapeError, match="4 tokens for 20 keys"):
        HeadScores().add(run, torch.ones(3, 4, dtype=torch.long))
    with pytest.raises(ShapeError, match="real covers 4"):
        HeadScores().add(run, None, torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(InputError, match="a vocabulary of 1"):
        repeated(1, seed=0)


def test_repeated_sequences_may_begin_with_a_token() -> None:
    (tokens,) = repeated(50, seed=0, lengths=(6,), batch=2, first=49)
    assert tokens.shape == (2, 13)
    assert (tokens[:, 0] == 49).all()
    assert torch.equal(tokens[:, 1:7], tokens[:, 7:])
