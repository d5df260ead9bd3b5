"""Attention on its own: what the weights cost, windows, and watching an int8 model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workloads import THREADS, Ready, Target, Workload
from workloads.encoders import layers

PRODUCT = 2 * 12 * 64 * 2048**2  # operations of Q Kᵀ, or of A V, at n = 2,048


def qkv(n: int) -> tuple[Any, Any, Any]:
    import torch

    torch.set_num_threads(THREADS)
    draw = torch.Generator().manual_seed(0)
    Q, K, V = (torch.randn(1, 12, n, 64, generator=draw) for _ in range(3))
    return Q, K, V


def sdpa(n: int, causal: bool) -> Callable[[], Ready]:
    def load() -> Ready:
        from torch.nn.functional import scaled_dot_product_attention as attention

        Q, K, V = qkv(n)
        return Ready(lambda: attention(Q, K, V, is_causal=causal) is None)

    return load


def fused(n: int, read: Any = None) -> Callable[[], Ready]:
    def load() -> Ready:
        from glassformer.core.fused import Pattern, attend_fused

        Q, K, V = qkv(n)

        def run() -> None:
            found = attend_fused(Q, K, V)
            if read is not None:
                Pattern(Q, K, found.L, beta=64**-0.5).A(**read)

        return Ready(run)

    return load


def naive(n: int) -> Callable[[], Ready]:
    def load() -> Ready:
        Q, K, V = qkv(n)
        return Ready(lambda: ((Q @ K.mT) / 8).softmax(-1) @ V is None)

    return load


def windowed(n: int, width: int) -> Callable[[], Ready]:
    def load() -> Ready:
        from glassformer.core.windowed import attend_window

        Q, K, V = qkv(n)
        return Ready(lambda: attend_window(Q, K, V, width=width) is None)

    return load


def watched(names: tuple[str, ...]) -> Callable[[], Ready]:
    def load() -> Ready:
        import torch

        import glassformer as gf
        from workloads.encoders import minilm, sentences

        model, x = gf.load(minilm(), precision="int8"), sentences(8, 128)

        def run() -> None:
            with torch.inference_mode():
                if not names:
                    model(x["tokens"], x["real"])
                    return
                with gf.trace(model, *names):
                    model(x["tokens"], x["real"])

        return Ready(run)

    return load


WORKLOADS = (
    Workload(
        name="attention-weights",
        title="attention, 12 heads, n = 2,048",
        contenders={
            "glassformer, one head's A": fused(2048, {"heads": [3]}),
            "glassformer, all of A": fused(2048, {}),
            "glassformer, no weights": fused(2048),
            "SDPA, no weights": sdpa(2048, False),
            "naive softmax(QKᵀ)V": naive(2048),
        },
        today="naive softmax(QKᵀ)V",
        targets=(
            Target("glassformer, one head's A", "SDPA, no weights", 1.08),
            Target("glassformer, all of A", "SDPA, no weights", 1.5),
        ),
        operations={"glassformer, one head's A": (2 + 1 / 12) * PRODUCT, "glassformer, all of A": 3 * PRODUCT},
        limited_by="90 % are the fused kernel with one head's A; if all of A is read, most of the difference is "
        "writing 200 MB of new memory",
        rounds=9,
    ),
    Workload(
        name="attention-window",
        title="windowed attention, n = 8,192, window 256",
        contenders={"glassformer, window 256": windowed(8192, 256), "SDPA, causal, no window": sdpa(8192, True),
                    "SDPA, no window": sdpa(8192, False)},
        targets=(Target("glassformer, window 256", "SDPA, no window", 0.25),),
        operations={"glassformer, window 256": 2 * 2 * 12 * 64 * 8192 * 256},
        limited_by="each chunk of queries is multiplied with twice as many keys as the window has",
        today="SDPA, no window",
    ),
    Workload(
        name="watching-int8",
        title="MiniLM-L6 int8, every A watched, not read",
        contenders={"glassformer, A watched": watched(("*.A",)), "not watched": watched(())},
        targets=(Target("glassformer, A watched", "not watched", 1.02),),
        operations={"glassformer, A watched": layers(6, 384, 128, 8)},
        limited_by="starting the trace takes 0.7 ms, 0.5 % of the pass",
        rounds=15,
    ),
)  # fmt: skip
