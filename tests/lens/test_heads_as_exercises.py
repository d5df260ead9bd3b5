"""One row of any head as an exercise: solved exactly, it gives the head's own weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.exercises.solution import solve
from glassformer.lens import edit, on_paper, paper_row, trace
from glassformer.models import Decoder, Seq2Seq, decoder, seq2seq
from glassformer.nn import Alibi, AttentionConfig, BlockConfig, FeedForwardConfig, Relative, Rotary, Stack, View, heads
from glassformer.nn.linear import initialise

POSITIONS: dict[str, Any] = {
    "none": None,
    "rotary": Rotary(width=8),
    "relative": Relative(heads=4),
    "alibi": Alibi(heads=4),
}


def solved(row: Any) -> tuple[list[float], list[float]]:
    solution = solve(row.exercise)
    return [float(x) for x in solution["A"].rows[0]], [float(x) for x in solution["H"].rows[0]]


def stack(positions: str, grouped: bool, beta: float, seed: int) -> Stack:
    attention: AttentionConfig = heads(32, 4, kv_heads=2 if grouped else 4, beta=beta)
    block = BlockConfig(attention=attention, ffn=FeedForwardConfig(width=32, hidden=8))
    made = Stack(block, 1, positions=POSITIONS[positions])
    initialise(made, seed)
    return made.double()


@settings(max_examples=40, deadline=None)
@given(
    positions=st.sampled_from(sorted(POSITIONS)),
    grouped=st.booleans(),
    causal=st.booleans(),
    padded=st.booleans(),
    beta=st.sampled_from([8**-0.5, 1.0, 0.02, 3.0]),
    n=st.integers(1, 40),
    keys=st.integers(1, 7),
    coordinates=st.integers(1, 9),
    query=st.integers(0, 39),
    head=st.integers(0, 3),
    seed=st.integers(0, 10**6),
)
def test_the_exercise_solves_to_the_weights_of_the_head(
    positions: str,
    grouped: bool,
    causal: bool,
    padded: bool,
    beta: float,
    n: int,
    keys: int,
    coordinates: int,
    query: int,
    head: int,
    seed: int,
) -> None:
    query %= n
    made = stack(positions, grouped, beta, seed)
    X = 2 * torch.randn(1, n, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    mask = None
    if padded:
        mask = torch.rand(1, 1, n, n, generator=torch.Generator().manual_seed(seed + 1)) > 0.4
        mask = mask | torch.eye(n, dtype=torch.bool)
    with torch.no_grad(), trace(made) as run:
        made(X, View(mask=mask, causal=causal))
    row = paper_row(run, "0.attention", head, query, keys, coordinates)
    A, H = run["0.attention.A"][0, head, query], run["0.attention.H"][0, head, query]
    weights, output = solved(row)
    assert len(weights) == len(row.keys) + bool(row.others)
    assert row.exercise.K is not None
    assert row.exercise.K.shape[1] == min(coordinates, 8) + 1
    for s, weight in zip(row.keys, weights, strict=False):
        assert weight == pytest.approx(A[s].item(), abs=1e-4)
    if row.others:
        assert weights[-1] == pytest.approx(1 - sum(A[s].item() for s in row.keys), abs=1e-4)
        assert min(A[s].item() for s in row.keys) >= max(
            A[s].item() for s in range(n) if s not in row.keys
        )  # the heaviest are kept
    assert [round(w, 3) for w in weights] == [round(w, 3) for w in row.weights]  # what a page shows
    V = run["0.attention.V"]
    for c, h in zip(row.value_coordinates, output, strict=True):
        assert h == pytest.approx(H[c].item(), abs=1e-3 + 1e-3 * V.abs().max().item())
        assert round(h, 2) == round(H[c].item(), 2)
    assert row.exercise.V is not None
    kv = V[0, head * V.shape[1] // 4]
    for s, values in zip(row.keys, row.exercise.V.rows, strict=False):
        assert [round(float(v), 2) for v in values] == [round(kv[s, c].item(), 2) for c in row.value_coordinates]


@torch.no_grad()
def test_a_thousand_keys_of_64_coordinates_become_six_keys_of_three() -> None:
    block = BlockConfig(attention=heads(64, 1), ffn=FeedForwardConfig(width=64, hidden=8))
    made = Stack(block, 1, positions=Rotary(width=64))
    initialise(made, 1)
    with trace(made, "0.attention.A", "0.attention.V") as run:
        made(3 * torch.randn(1, 1000, 64, generator=torch.Generator().manual_seed(0)))
    row = paper_row(run, "0.attention.A", 0, 999)
    assert row.exercise.K is not None
    assert row.exercise.K.shape == (6, 3)
    assert row.others == 995
    weights, _ = solved(row)
    A = run["0.attention.A"][0, 0, 999]
    assert weights[:5] == pytest.approx([A[s].item() for s in row.keys], abs=1e-4)
    assert row.exercise.scale == "1/sqrt(64)"


@torch.no_grad()
def test_rows_of_loaded_models_and_their_memories() -> None:
    model = Decoder(decoder.tiny(), seed=5).eval()
    with trace(model) as run:
        model(torch.tensor([[3, 1, 4, 1, 5, 9, 2]]))
    exercise = on_paper(run, "decoder.1.attention", 1, -1, tokens=list("abcdefg"))
    assert exercise.title == "decoder.1.attention, head 1, query 6"
    assert "query 'g' (6)" in str(exercise.text)
    pair = Seq2Seq(seq2seq.tiny())
    with trace(pair, "decoder.0.cross.A", "decoder.0.cross.V") as run:
        pair(torch.ones(1, 9, dtype=torch.long), torch.ones(1, 3, dtype=torch.long))
    row = paper_row(run, "decoder.0.cross", 0, 2, keys=3)
    assert sum(solved(row)[0]) == pytest.approx(1)


def test_a_run_that_autograd_recorded_will_do() -> None:
    model = Decoder(decoder.tiny(), seed=5).eval()
    with trace(model) as run:
        model(torch.tensor([[3, 1, 4]]))
    assert on_paper(run, "decoder.0.attention", 0, 2).Q is not None


@torch.no_grad()
def test_mistakes(refused: Any) -> None:
    model = Decoder(replace(decoder.tiny())).eval()
    tokens = torch.tensor([[3, 1, 4]])
    with trace(model) as run:
        model(tokens)
    path = "decoder.0.attention"
    refused(InputError, "there is no query 3: choose one from 0 to 2", lambda: on_paper(run, path, 0, 3))
    refused(InputError, "there is no head 9", lambda: on_paper(run, path, 9, 0))
    refused(InputError, "keys is 0: choose from 1 to 32", lambda: on_paper(run, path, 0, 0, keys=0))
    with trace(model, f"{path}.A") as less:
        model(tokens)
    refused(InputError, f'the run has no values of {path}: trace "{path}.V" too', lambda: on_paper(less, path, 0, 0))
    with edit(model, f"{path}.beta", 0), trace(model) as flat:
        model(tokens)
    refused(InputError, "β is 0", lambda: on_paper(flat, path, 0, 0))
