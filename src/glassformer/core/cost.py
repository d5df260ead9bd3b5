"""Cost of a layer computed from its shapes: multiplications, parameters and activations.

Multiplications are those of matrix products and convolutions, one per multiply-add (PyTorch's counter reports two
flops). Elementwise operations (biases, norms, activation functions, the softargmax itself) are of lower order and not
counted. Activations are the values that the forward pass stores for the backward pass: the output and intermediate
results of each layer. N and M are sequence lengths, D the model width, h heads of width d = D/h.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import prod

from glassformer.errors import ConfigError, ShapeError


@dataclass(frozen=True)
class Cost:
    """Cost of a layer. Costs of layers add up, and `12 * encoder_layer(…)` is the cost of twelve layers."""

    multiplications: int = 0
    parameters: int = 0
    activations: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, times: int) -> Cost:
        return Cost(*(times * a for a in astuple(self)))

    __rmul__ = __mul__

    @property
    def flops(self) -> int:
        """Floating-point operations, two per multiply-add."""
        return 2 * self.multiplications

    def memory(self, size: int = 4) -> int:
        """Return the bytes used by parameters and activations at `size` bytes per element (4 for float32)."""
        return size * (self.parameters + self.activations)


def linear(N: int, D_in: int, D_out: int, *, bias: bool = True) -> Cost:
    """N·D_in·D_out multiplications."""
    _require(N=N, D_in=D_in, D_out=D_out)
    return Cost(N * D_in * D_out, D_in * D_out + bias * D_out, N * D_out)


def embedding(N: int, vocabulary: int, D: int) -> Cost:
    """0 multiplications, since rows are looked up. Learned position tables cost the same."""
    _require(N=N, vocabulary=vocabulary, D=D)
    return Cost(0, vocabulary * D, N * D)


def norm(N: int, D: int, *, bias: bool = True) -> Cost:
    """D gains plus, with a bias (LayerNorm, not RMSNorm), D shifts."""
    _require(N=N, D=D)
    return Cost(0, (1 + bias) * D, N * D)


def attention(
    N: int,
    M: int,
    D: int,
    heads: int,
    *,
    kv_heads: int | None = None,
    d: int | None = None,
    d_v: int | None = None,
    memory_width: int | None = None,
    bias: bool = True,
    fused: bool = False,
) -> Cost:
    """N queries over a memory of M keys: projections N·D·hd + M·D·gd + M·D·gd_v + N·hd_v·D, then hNMd + hNMd_v.

    The h query heads share g = kv_heads key/value heads. The weights A have h·N·M elements; a fused kernel stores only
    the log-sum-exp of each row, h·N elements, but performs the same multiplications.
    """
    _require(N=N, M=M, D=D, heads=heads)
    if d is None and D % heads:
        fact = f"width {D} does not split into {heads} heads"
        raise ShapeError(fact, "choose heads that divide it, or give the head width d")
    h, g, d = heads, heads if kv_heads is None else kv_heads, D // heads if d is None else d
    d_v, D_m = d if d_v is None else d_v, D if memory_width is None else memory_width
    _require(kv_heads=g, d=d, d_v=d_v, memory_width=D_m)
    if h % g:
        raise ShapeError(
            f"{h} query heads cannot share {g} key/value heads evenly", "choose kv_heads that divide heads"
        )
    Q, K = linear(N, D, h * d, bias=bias), linear(M, D_m, g * d, bias=bias)
    V, O = linear(M, D_m, g * d_v, bias=bias), linear(N, h * d_v, D, bias=bias)
    scores = Cost(h * N * M * d, 0, h * N if fused else h * N * M)
    outputs = Cost(h * N * M * d_v, 0, N * h * d_v)
    return Q + K + V + scores + outputs + O


def self_attention(
    N: int,
    D: int,
    heads: int = 1,
    *,
    kv_heads: int | None = None,
    d: int | None = None,
    d_v: int | None = None,
    bias: bool = True,
    fused: bool = False,
) -> Cost:
    """4·N·D² + 2·N²·D multiplications for any number of heads; the two terms are equal at N = 2D. See `attention`."""
    return attention(N, N, D, heads, kv_heads=kv_heads, d=d, d_v=d_v, bias=bias, fused=fused)


def feed_forward(N: int, D: int, hidden: int, *, gated: bool = False, bias: bool = True) -> Cost:
    """2·N·D·hidden multiplications, 3·N·D·hidden if gated (SwiGLU)."""
    inner = (2 if gated else 1) * linear(N, D, hidden, bias=bias)
    after = Cost(0, 0, (2 if gated else 1) * N * hidden)  # the activation and, if gated, its product with the gate
    return inner + after + linear(N, hidden, D, bias=bias)


def recurrent(N: int, D_in: int, D: int, *, kind: str = "rnn", bias: bool = True) -> Cost:
    """g·N·(D_in·D + D²) multiplications with g = 1 (rnn), 3 (gru) or 4 (lstm) gates; the N steps are sequential.

    There are two biases per gate, as in PyTorch and cuDNN. An LSTM stores its cell state as well as its output.
    """
    _require(N=N, D_in=D_in, D=D)
    gates = {"rnn": 1, "gru": 3, "lstm": 4}
    if kind not in gates:
        raise ConfigError(f"no recurrent layer is called {kind!r}", f"choose one of {', '.join(gates)}")
    g = gates[kind]
    kept = g + 1 + (kind == "lstm") if g > 1 else 1  # the gates and the output; a plain RNN has only its output
    return Cost(g * N * (D_in * D + D * D), g * (D_in * D + D * D + 2 * bias * D), kept * N * D)


def convolution(
    sizes: tuple[int, ...],
    D_in: int,
    D_out: int,
    kernel: int | tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    bias: bool = True,
) -> Cost:
    """N_out · K · D_in·D_out / groups multiplications, with K the kernel size; `sizes` is (N,) or (rows, cols).

    Each output axis has size ⌊(n + 2·padding − dilation·(k − 1) − 1) / stride⌋ + 1.
    """
    kernels = _each(sizes, kernel)
    axes = zip(sizes, kernels, _each(sizes, stride), _each(sizes, padding), _each(sizes, dilation), strict=True)
    _require(D_in=D_in, D_out=D_out, groups=groups, **{f"size {i}": n for i, n in enumerate(sizes)})
    if D_in % groups or D_out % groups:
        fact = f"{D_in} → {D_out} channels do not split into {groups} groups"
        raise ShapeError(fact, "choose groups that divide both")
    out = [(n + 2 * p - r * (k - 1) - 1) // s + 1 for n, k, s, p, r in axes]
    if min(out) < 1:
        fact = f"a kernel of {kernels} does not fit an input of {sizes}"
        raise ShapeError(fact, "choose a smaller kernel or dilation, or more padding")
    weights = prod(kernels) * D_in * D_out // groups
    return Cost(prod(out) * weights, weights + bias * D_out, prod(out) * D_out)


def encoder_layer(
    N: int,
    D: int,
    heads: int,
    hidden: int,
    *,
    kv_heads: int | None = None,
    gated: bool = False,
    bias: bool = True,
    fused: bool = False,
) -> Cost:
    """Self-attention, feed-forward network and two norms; also a decoder layer without cross-attention (GPT)."""
    attended = self_attention(N, D, heads, kv_heads=kv_heads, bias=bias, fused=fused)
    return attended + feed_forward(N, D, hidden, gated=gated, bias=bias) + 2 * norm(N, D, bias=bias)


def decoder_layer(
    N: int,
    M: int,
    D: int,
    heads: int,
    hidden: int,
    *,
    kv_heads: int | None = None,
    gated: bool = False,
    bias: bool = True,
    fused: bool = False,
) -> Cost:
    """An encoder layer plus cross-attention to a memory of length M and its norm."""
    own = encoder_layer(N, D, heads, hidden, kv_heads=kv_heads, gated=gated, bias=bias, fused=fused)
    return own + attention(N, M, D, heads, kv_heads=kv_heads, bias=bias, fused=fused) + norm(N, D, bias=bias)


def _each(sizes: tuple[int, ...], value: int | tuple[int, ...]) -> tuple[int, ...]:
    values = value if isinstance(value, tuple) else (value,) * len(sizes)
    if len(values) != len(sizes):
        raise ShapeError(f"{values} does not give each axis of {sizes} a value", f"give {len(sizes)}, or one number")
    return values


def _require(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ShapeError(f"{name} must be at least 1, got {size}", "choose a size of at least 1")
