"""A small llama2.c file, and a run of such a file in plain NumPy."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def _logits(path: Path, tokens: Sequence[int]) -> np.ndarray:
    """The logits after the last token, from the file's own bytes: no torch, none of our code."""
    data = path.read_bytes()
    m, f, L, h, g, v, n = struct.unpack_from("<7i", data)
    d, numbers, at = m // h, np.frombuffer(data, "<f4", offset=28).astype(np.float64), 0

    def take(*shape: int) -> np.ndarray:
        nonlocal at
        at += int(np.prod(shape))
        return numbers[at - int(np.prod(shape)) : at].reshape(shape)

    table, g1 = take(abs(v), m), take(L, m)
    WQ, WK, WV, WO = take(L, m, m), take(L, g * d, m), take(L, g * d, m), take(L, m, m)
    g2, W1, W2, W3, g3 = take(L, m), take(L, f, m), take(L, m, f), take(L, f, m), take(m)
    take(n * d // 2), take(n * d // 2)
    head = table if v > 0 else take(abs(v), m)
    assert at == len(numbers)
    norm = lambda X, gain: X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5) * gain
    angles = np.arange(len(tokens))[:, None] / 10000 ** (np.arange(0, d, 2) / d)

    def heads(X: np.ndarray, count: int, turn: bool) -> np.ndarray:
        X = X.reshape(len(X), count, d).transpose(1, 0, 2)
        if turn:  # neighbours (2i, 2i + 1) are a complex number
            turned = (X[..., 0::2] + 1j * X[..., 1::2]) * np.exp(1j * angles)
            X = np.stack([turned.real, turned.imag], -1).reshape(X.shape)
        return X.repeat(h // count, 0)

    X = table[list(tokens)]
    hidden = np.triu(np.full((len(tokens), len(tokens)), -np.inf), 1)
    for i in range(L):
        Y = norm(X, g1[i])
        Q, K, V = heads(Y @ WQ[i].T, h, True), heads(Y @ WK[i].T, g, True), heads(Y @ WV[i].T, g, False)
        S = Q @ K.transpose(0, 2, 1) / np.sqrt(d) + hidden
        A = np.exp(S - S.max(-1, keepdims=True))
        H = (A / A.sum(-1, keepdims=True)) @ V
        X = X + H.transpose(1, 0, 2).reshape(len(X), m) @ WO[i].T
        Y = norm(X, g2[i])
        P = Y @ W1[i].T
        X = X + (P / (1 + np.exp(-P)) * (Y @ W3[i].T)) @ W2[i].T
    return norm(X[-1], g3) @ head.T


@pytest.fixture(scope="session")
def numpy_logits() -> Callable[[Path, Sequence[int]], Any]:
    return _logits


@pytest.fixture
def llama2c(tmp_path: Path) -> Callable[..., Path]:
    """A random model.bin with a tokenizer.bin beside it; `tied` or with a head of its own."""

    def write(*, tied: bool = True, letters: bool = False) -> Path:
        m, f, L, h, g, v, n = 24, 20, 2, 3, 1, 264, 16
        random, d = np.random.default_rng(0), m // h
        shapes = [(v, m), (L, m), (L, m, m), (L, g * d, m), (L, g * d, m), (L, m, m), (L, m), (L, f, m), (L, m, f)]
        shapes += [(L, f, m), (m,), (n * d // 2,), (n * d // 2,)] + ([] if tied else [(v, m)])
        numbers = np.concatenate([random.normal(0, 0.4, int(np.prod(shape))) for shape in shapes])
        path = tmp_path / "model.bin"
        path.write_bytes(struct.pack("<7i", m, f, L, h, g, v if tied else -v, n) + numbers.astype("<f4").tobytes())
        bytes_ = [chr(i) if letters else f"<0x{i:02X}>" for i in range(256)]
        words = ["<unk>", "\n<s>\n", "\n</s>\n", *bytes_, " a", "b", "a", " ", " ab"]
        parts = [struct.pack("<i", 7)]
        for i, word in enumerate(words):
            parts.append(struct.pack("<fi", float(-max(0, i - 258)), len(word.encode())) + word.encode())
        (tmp_path / "tokenizer.bin").write_bytes(b"".join(parts))
        return path

    return write
