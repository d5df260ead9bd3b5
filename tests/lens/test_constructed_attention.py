"""Attention weights constructed for a convolution, a shift or a permutation, with error bounds."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from torch.nn.functional import conv1d, conv2d, pad

from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens import edit, trace
from glassformer.lens.construct import (
    build,
    certify,
    code,
    gap,
    plant,
)
from glassformer.lens.kernels import NAMES, named_kernel, read_kernel, read_numbers
from glassformer.lens.routing import EDGES, Routing, convolution, identity, permutation, previous_token, shift
from glassformer.models import Decoder, Seq2Seq, decoder, seq2seq

DOUBLE = torch.float64


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["one-hot", "quadratic", "sinusoidal"])
def test_nine_heads_are_any_convolution_with_channels(kind: str) -> None:
    W, X = randn(3, 2, 3, 3), randn(2, 30, 2, seed=1)
    layer = build(convolution(W), (6, 5), beta=90.0, kind=kind)
    assert layer.attention.config.heads == 9
    image = X.mT.unflatten(2, (6, 5))
    torch.testing.assert_close(layer(X), conv2d(image, W, padding=1).flatten(2).mT, rtol=1e-12, atol=1e-12)


def test_one_head_for_each_tap_takes_weights_below_zero() -> None:
    X = randn(1, 8, 1)
    layer = build(convolution([-1, 2.5, -1]), 8, beta=60.0, kind="quadratic")
    wanted = conv1d(X.mT, torch.tensor([[[-1, 2.5, -1]]], dtype=DOUBLE), padding=1).mT
    torch.testing.assert_close(layer(X), wanted)


def test_one_renormalised_head_is_banded() -> None:
    X = randn(1, 8, 2)
    routing = convolution([1, 2, 1], channels=2, edges="renormalised")
    layer = build(routing, 8, beta=60.0)
    assert layer.attention.config.heads == 1
    torch.testing.assert_close(layer(X), routing.target(X, 8))
    kernel = torch.tensor([1.0, 2, 1], dtype=DOUBLE).expand(2, 1, 3)
    torch.testing.assert_close(layer(X)[:, 1:-1], conv1d(X.mT, kernel, groups=2).mT)


def test_permutation_and_identity_are_exact_early() -> None:
    X = randn(2, 3, 4)
    torch.testing.assert_close(build(permutation([3, 1, 2], channels=4), 3, beta=60.0)(X), X[:, [2, 0, 1]])
    torch.testing.assert_close(build(identity(channels=4), 3, beta=60.0)(X), X)


KNOWN = {"one-hot": EDGES, "quadratic": ("zero", "hold"), "sinusoidal": ("zero",)}
HOW = [(kind, edges) for kind, known in KNOWN.items() for edges in known]
cases = st.fixed_dictionaries(
    {
        "n": st.integers(1, 9),
        "k": st.integers(1, 4),
        "c": st.integers(1, 3),
        "beta": st.floats(0.0, 45.0),
        "scale": st.floats(0.01, 100.0),
        "seed": st.integers(0, 999),
        "how": st.sampled_from(HOW),
    }
)


@settings(max_examples=40)
@given(cases)
def test_the_error_is_within_the_bound(case: dict) -> None:  # type: ignore[type-arg]
    kind, edges = case["how"]
    n, k, c, seed = case["n"], case["k"], case["c"], case["seed"]
    W = randn(k, seed=seed).abs() + 0.01 if edges == "renormalised" else randn(c, c, k, seed=seed)
    layer = build(convolution(W, channels=c, edges=edges), n, beta=case["beta"], kind=kind)
    X = case["scale"] * randn(2, n, c, seed=seed + 1)
    largest = X.abs().max().item()
    error = (layer(X) - layer.target(X)).abs().max().item()
    assert error <= layer.bound(case["beta"], largest) + 1e-13 * largest * layer.norm


@given(st.floats(1e-9, 0.5), st.integers(2, 12))
def test_the_beta_asked_for_keeps_the_tolerance(tolerance: float, n: int) -> None:
    layer = build(shift(1), n)
    beta = layer.beta_for(tolerance, 1.0)
    assert layer.bound(beta, 1.0) <= tolerance * (1 + 1e-9)
    if beta > 0.1:
        assert layer.bound(beta - 0.05, 1.0) > tolerance  # and no larger than it must be
    X = randn(4, n, 1).sign()
    with edit(layer, "attention.beta", beta):
        assert (layer(X) - layer.target(X)).abs().max() <= tolerance * (1 + 1e-6)


def test_the_missed_weight_is_what_the_bound_says() -> None:
    """One-hot codes leave every other key the same: there the bound on ε is met exactly."""
    layer = build(shift(1, edges="wrap"), 6, beta=3.0)
    assert layer.missed(3.0) == pytest.approx(5 * math.exp(-3) / (1 + 5 * math.exp(-3)))


def test_one_place_is_always_exact() -> None:
    layer = build(identity(), 1, beta=0.0)
    X = randn(1, 1, 1)
    torch.testing.assert_close(layer(X), X)
    assert layer.beta_for(1e-6, 1.0) == 0.0
    assert layer.bound(0.0, 1.0) == 0.0


def test_weights_come_back_from_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from safetensors.torch import load_file, save_file

    layer = build(convolution(named_kernel("blur", (3, 3))), (4, 4), beta=40.0)
    save_file(layer.state_dict(), tmp_path / "w.safetensors")
    other = build(convolution(named_kernel("box", (3, 3))), (4, 4), beta=40.0)
    other.load_state_dict(load_file(tmp_path / "w.safetensors"))
    X = randn(1, 16, 1)
    assert torch.equal(other(X), layer(X))


def test_construct_attention_mistakes() -> None:
    layer = build(shift(1, channels=2), 4)
    with pytest.raises(ShapeError, match="give \\(batch, 4, 2\\)"):
        layer(torch.zeros(1, 5, 2, dtype=DOUBLE))
    with pytest.raises(ConfigError, match="tolerance must be above 0, got 0"):
        layer.beta_for(0.0, 1.0)


ALL = [
    (identity(channels=2), 6, "one-hot"),
    (permutation([3, 1, 2]), 3, "one-hot"),
    (shift(2), 10, "quadratic"),
    (shift(2, edges="wrap"), 10, "one-hot"),
    (convolution([1, 2, 1]), 10, "sinusoidal"),
    (convolution([1, 2, 1], edges="renormalised"), 10, "one-hot"),
    (convolution(named_kernel("random", (3, 3), channels=2)), (4, 5), "quadratic"),
]


@pytest.mark.parametrize(("routing", "size", "kind"), ALL)
def test_a_certificate_holds_and_falls_with_beta(routing, size, kind: str) -> None:  # type: ignore[no-untyped-def]
    made = build(routing, size, kind=kind)
    certificate = certify(made)
    assert certificate.holds
    errors = [line.error for line in certificate.lines]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-5 < errors[0]
    assert all(line.missed <= line.missed_bound + 1e-12 for line in certificate.lines)
    exact = certify(made, [certificate.beta_needed])
    assert exact.lines[0].error <= certificate.tolerance
    assert made.attention.beta == 30.0  # measured, not changed


def test_a_certificate_is_repeatable_and_can_fail() -> None:
    made = build(shift(1), 5)
    certificate = certify(made, seed=3)
    assert certify(made, seed=3) == certificate
    with torch.no_grad():
        made.attention.WO.weight *= 1.01  # a wrong weight
    assert not certify(made, seed=3).holds
    assert not replace(certificate, lines=[certificate.lines[0]._replace(missed=0.99)]).holds


def test_a_certificate_prints_itself() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(certify(build(shift(2), 8, kind="quadratic"), tolerance=1e-3))
    text = console.export_text()
    assert "shift by 2: 8 tokens, 1 → 1 channels, zero edges" in text
    assert "within its bound: yes" in text
    assert "for an error below 0.001: β ≥" in text


def test_a_planted_head_does_it() -> None:
    model = Decoder(decoder.tiny(), seed=0).eval()
    tokens = torch.arange(9)[None]
    with torch.no_grad(), edit(model, "decoder.0.attention.S", plant(shift(1), 1)), trace(model, "*.0.*.A") as run:
        model(tokens)
    A = run["decoder.0.attention.A"][0]
    torch.testing.assert_close(A[1], torch.cat([torch.eye(9)[:1], torch.eye(9)[:-1]]))
    assert A[0].max(-1).values[5] < 0.5  # the other head is as it was


def test_plant_needs_a_sequence_that_attends_to_itself() -> None:
    model = Seq2Seq(seq2seq.tiny()).eval()
    pair = torch.ones(1, 5, dtype=torch.long), torch.ones(1, 3, dtype=torch.long)
    with (
        pytest.raises(ShapeError, match="the layer has 3 queries and 5 keys"),
        edit(model, "decoder.0.cross.S", plant(shift(1), 0)),
    ):
        model(*pair)


ONE = torch.ones(1, 1, 1, dtype=torch.float64)


def argmax_is_target(kind: str, routing: Routing, size: int | tuple[int, ...]) -> None:
    made = code(kind, routing, size)
    n = made.targets.shape[1]
    for T, targets in zip(made.T, made.targets, strict=True):
        S = (made.E[:n] @ T.T) @ (made.E @ made.G.T).T
        assert torch.equal(S.argmax(-1), targets.int().argmax(-1))


@given(n=st.integers(2, 30), by=st.integers(-40, 40))
def test_the_largest_score_is_the_target_on_a_line(n: int, by: int) -> None:
    for kind, edges in [("one-hot", "zero"), ("one-hot", "wrap"), ("one-hot", "hold"), ("quadratic", "zero"),
                        ("quadratic", "hold"), ("sinusoidal", "zero")]:  # fmt: skip
        argmax_is_target(kind, shift(by, edges=edges), n)  # type: ignore[arg-type]


@given(rows=st.integers(1, 5), cols=st.integers(1, 5), dy=st.integers(-3, 3), dx=st.integers(-3, 3))
def test_and_on_a_grid(rows: int, cols: int, dy: int, dx: int) -> None:
    for kind in ("one-hot", "quadratic", "sinusoidal"):
        argmax_is_target(kind, Routing(name="offset", offsets=((dy, dx),), C=ONE), (rows, cols))
    argmax_is_target("quadratic", Routing(name="offset", offsets=((dy, dx),), C=ONE, edges="hold"), (rows, cols))


@pytest.mark.parametrize(("kind", "edges"), [("one-hot", "zero"), ("one-hot", "wrap"), ("quadratic", "zero")])
def test_one_hot_and_quadratic_gaps_are_one(kind: str, edges: str) -> None:
    assert gap(code(kind, convolution(torch.ones(3, 3), edges=edges), (5, 4))) == pytest.approx(1.0)  # type: ignore[arg-type]


def test_the_gap_of_the_sinusoids() -> None:
    """The nearest rival is Σ_i (1 − cos ω_i Δ) below, for the worst distance Δ."""
    omega = 10000 ** (-torch.arange(8) / 8.0).double()
    wanted = min((1 - torch.cos(omega * d)).sum().item() for d in range(1, 21))
    assert gap(code("sinusoidal", shift(1), 20)) == pytest.approx(wanted, rel=1e-6)


def test_the_gap_of_one_key_has_no_end() -> None:
    assert gap(code("one-hot", shift(0), 1)) == float("inf")


def test_not_every_code_has_every_edge() -> None:
    with pytest.raises(ConfigError, match="sinusoidal encodings represent only offsets and cannot do wrap edges"):
        code("sinusoidal", shift(1, edges="wrap"), 4)
    with pytest.raises(ConfigError, match="cannot do a permutation"):
        code("quadratic", permutation([2, 1]), 2)
    with pytest.raises(ConfigError, match="there is no positional encoding 'gray'"):
        code("gray", shift(1), 4)


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        (["[1,2,1]/4"], [0.25, 0.5, 0.25]),
        (["[1/4, 1/2, 1/4]"], [0.25, 0.5, 0.25]),
        (["-[1, -2]*0.5"], [-0.5, 1.0]),
        (["3", "blur"], [0.25, 0.5, 0.25]),
        (["3x3", "1,2,1,0,0,0,-1,-2,-1"], [[1, 2, 1], [0, 0, 0], [-1, -2, -1]]),
        (["1×2 [[3,4]]"], [[3, 4]]),
        (["3x3", "sobel-x"], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]),
        (["[1,2]+[3,4]"], [4, 6]),
    ],
)
def test_kernels_are_read_as_written(words: list[str], kernel: list[object]) -> None:
    torch.testing.assert_close(read_kernel(words), torch.tensor(kernel, dtype=torch.float64))


def test_named_kernels() -> None:
    for name in NAMES:
        assert named_kernel(name, (3, 3)).shape[-2:] == (3, 3)
    assert named_kernel("blur", (5, 3)).sum() == 1
    torch.testing.assert_close(named_kernel("blur", (3, 3))[1], torch.tensor([2.0, 4, 2]).double() / 16)
    assert named_kernel("identity", (3, 5))[1, 2] == 1
    assert named_kernel("random", (3, 3), channels=2).shape == (2, 2, 3, 3)
    assert torch.equal(named_kernel("random", (3,), seed=4), named_kernel("random", (3,), seed=4))


@pytest.mark.parametrize(
    "text", ["[]", "[1, [2]]", "[1,2]/0", "import os", "__import__('os')", "[True]", "3", "[1e400]", "[1,2", "[1]*'a'"]
)
def test_what_is_no_kernel_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a kernel"):
        read_numbers(text)


@pytest.mark.parametrize("text", ["", "blur", "5x5 sobel-x", "3x3 none", "3x3 [1,2]", "0x3 blur"])
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read_kernel(text.split(" "))


TORCH_EDGES = {"zero": "constant", "wrap": "circular", "hold": "replicate"}


@pytest.mark.parametrize("edges", TORCH_EDGES)
@given(k=st.integers(1, 5), n=st.integers(5, 9), c_in=st.integers(1, 3), c_out=st.integers(1, 3), seed=st.just(0))
def test_a_line_is_convolved_as_torch_does(edges: str, k: int, n: int, c_in: int, c_out: int, seed: int) -> None:
    W, X = randn(c_out, c_in, k, seed=seed), randn(2, n, c_in, seed=seed + 1)
    routing = convolution(W, edges=edges)  # type: ignore[arg-type]
    padded = pad(X.mT, ((k - 1) // 2, k // 2), mode=TORCH_EDGES[edges])
    torch.testing.assert_close(routing.target(X, n), conv1d(padded, W).mT)


@pytest.mark.parametrize("edges", TORCH_EDGES)
@pytest.mark.parametrize("sizes", [(3, 3), (1, 3), (5, 2)])
def test_a_grid_is_convolved_as_torch_does(edges: str, sizes: tuple[int, int]) -> None:
    H, W = 6, 5
    kernel, X = randn(3, 2, *sizes), randn(2, H * W, 2, seed=1)
    image = X.mT.unflatten(2, (H, W))
    (kh, kw) = sizes
    around = ((kw - 1) // 2, kw // 2, (kh - 1) // 2, kh // 2)
    wanted = conv2d(pad(image, around, mode=TORCH_EDGES[edges]), kernel).flatten(2).mT
    routing = convolution(kernel, edges=edges)  # type: ignore[arg-type]
    torch.testing.assert_close(routing.target(X, (H, W)), wanted)


def test_a_kernel_alone_is_for_each_channel() -> None:
    X = randn(1, 7, 3)
    wanted = conv1d(X.mT, torch.tensor([1.0, 2, 1], dtype=DOUBLE).expand(3, 1, 3), padding=1, groups=3).mT
    torch.testing.assert_close(convolution([1, 2, 1], channels=3).target(X, 7), wanted)


def test_renormalised_edges_are_those_of_a_mean_without_padding() -> None:
    """avg_pool with count_include_pad=False is the renormalised box, nobody's code here."""
    X = randn(2, 9, 1)
    box = convolution([1, 1, 1], edges="renormalised")
    wanted = 3 * torch.nn.functional.avg_pool1d(X.mT, 3, 1, 1, count_include_pad=False).mT
    torch.testing.assert_close(box.target(X, 9), wanted)
    image = X[:, :, 0].reshape(2, 1, 3, 3)
    wide = convolution([[1, 1, 1]] * 3, edges="renormalised")
    wanted = 9 * torch.nn.functional.avg_pool2d(image, 3, 1, 1, count_include_pad=False).reshape(2, 9, 1)
    torch.testing.assert_close(wide.target(X, (3, 3)), wanted)


def test_shifts_and_permutations() -> None:
    X = torch.arange(1.0, 6, dtype=DOUBLE)[None, :, None]
    assert shift(2).target(X, 5).flatten().tolist() == [0, 0, 1, 2, 3]
    assert shift(2, edges="wrap").target(X, 5).flatten().tolist() == [4, 5, 1, 2, 3]
    assert shift(2, edges="hold").target(X, 5).flatten().tolist() == [1, 1, 1, 2, 3]
    assert shift(-1).target(X, 5).flatten().tolist() == [2, 3, 4, 5, 0]
    assert previous_token().target(X, 5).flatten().tolist() == [0, 1, 2, 3, 4]
    assert identity().target(X, 5).equal(X)
    assert permutation([3, 1, 2]).target(X[:, :3], 3).flatten().tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    "routing",
    [shift(1), shift(1, edges="wrap"), convolution([1, 2, 1], edges="renormalised"), permutation([2, 1, 4, 3])],
)
def test_the_ideal_weights_gather_the_target(routing: Routing) -> None:
    X = randn(1, 4, 1)
    A = routing.ideal(4)
    gathered = A @ X * (routing.weights().sum() if routing.edges == "renormalised" else 1)
    torch.testing.assert_close(gathered, routing.target(X, 4))
    assert set(A.sum(-1).round(decimals=9).tolist()) <= {0.0, 1.0}


def test_routing_mistakes() -> None:
    with pytest.raises(InputError, match="1,1 is not a permutation"):
        permutation([1, 1])
    with pytest.raises(ConfigError, match="has the weight -1, and A is never below 0"):
        convolution([-1, 2, -1], edges="renormalised")
    with pytest.raises(ConfigError, match="mixes channels"):
        convolution(torch.ones(2, 2, 3), edges="renormalised")
    with pytest.raises(ConfigError, match="edges are 'mirror'"):
        shift(1, edges="mirror")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="the permutation orders 3 tokens, but there are 4"):
        permutation([3, 1, 2]).places(4)
    with pytest.raises(ShapeError, match="for 1 dimension"):
        shift(1).places((3, 3))
    with pytest.raises(ShapeError, match="the kernel has shape"):
        convolution(torch.ones(1, 1, 1, 1, 1))
    with pytest.raises(InputError, match="has zero weights only"):
        convolution([1, 0, 0], edges="renormalised").ideal(3)
