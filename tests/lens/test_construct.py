from __future__ import annotations

import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from glassformer.errors import ShapeError
from glassformer.lens import edit, trace
from glassformer.lens.construct import build, certify, convolution, identity, named_kernel, permutation, plant, shift
from glassformer.models import Decoder, Seq2Seq, decoder, seq2seq

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
    with pytest.raises(ShapeError, match="3 queries and 5 keys"), edit(model, "decoder.0.cross.S", plant(shift(1), 0)):
        model(*pair)
