"""Overhead of tracing: one encoder plain, traced, read and explicit, beside torch's own that returns weights.

    .venv/bin/python benchmarks/tracing.py [--rounds 15] [--tokens 512 2048] [--threads 2] [--update]

Prints ratios to the plain forward pass; --update writes results/tracing.json and the table in README.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn

from glassformer.lens import edit, trace
from glassformer.models import Encoder, EncoderConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, heads
from glassformer.nn.text import TextConfig
from glassformer.runtime import card, interleaved

ROOT = Path(__file__).parent.parent
DEPTH, WIDTH, HEADS = 6, 384, 12


def ours(tokens: int) -> Encoder:
    block = BlockConfig(attention=heads(WIDTH, HEADS), ffn=FeedForwardConfig(width=WIDTH, hidden=4 * WIDTH))
    text = TextConfig(vocabulary=1000, depth=DEPTH, block=block, positions=Learned(length=tokens))
    return Encoder(EncoderConfig(text=text, word_head=False)).eval()


class WithWeights(nn.Module):
    """The same block as people write it to see the weights: nn.MultiheadAttention(need_weights=True)."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm1(x)
        y, A = self.attention(y, y, y, need_weights=True, average_attn_weights=False)
        x = x + y
        return x + self.ffn(self.norm2(x)), A


@torch.no_grad()
def measure(tokens: int, rounds: int) -> dict[str, float]:
    model = ours(tokens)
    ids = torch.arange(tokens)[None] % 1000
    embedded = torch.randn(1, tokens, WIDTH, generator=torch.Generator().manual_seed(0))
    peer = nn.ModuleList(WithWeights() for _ in range(DEPTH)).eval()
    fused = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, activation="gelu", batch_first=True, norm_first=True)
    fast = nn.TransformerEncoder(fused, DEPTH, enable_nested_tensor=False).eval()
    every = "encoder.*.attention.A"

    def traced(*patterns: str, read: bool = False) -> None:
        with trace(model, *patterns) as run:
            model(ids)
        for _ in run.each(patterns[0]) if read else ():
            pass

    def reading() -> None:
        with trace(model, every, read=lambda path, A: None):
            model(ids)

    def explicit() -> None:
        with edit(model, every, lambda A: A):
            model(ids)

    def weights() -> None:
        x = embedded
        for block in peer:
            x, _ = block(x)

    return interleaved(
        {
            "plain forward pass": lambda: model(ids),
            "inside a trace of one embedding": lambda: traced("encoder.embed.X"),
            "every layer's A traced, not read": lambda: traced(every),
            "every layer's A read during the pass": reading,
            "every layer's A read afterwards": lambda: traced(every, read=True),
            "every layer explicit (A edited)": explicit,
            "nn.TransformerEncoder, no weights": lambda: fast(embedded),
            "nn.MultiheadAttention(need_weights=True), all weights": weights,
        },
        rounds=rounds,
        warm=2,
        clock=time.process_time if torch.get_num_threads() == 1 else time.perf_counter,
    )


def table(results: dict[int, dict[str, float]]) -> str:
    """A row for each way of tracing, a column for each length: time relative to the plain pass of that length."""
    plain = {tokens: result["plain forward pass"] for tokens, result in results.items()}
    names = next(iter(results.values()))
    rows = [
        " | ".join([f"| {name}", *(f"{result[name] / plain[tokens]:.2f}" for tokens, result in results.items())]) + " |"
        for name in names
    ]
    head = " | ".join(["| × plain pass", *(f"{tokens:,} tokens" for tokens in results)]) + " |"
    return "\n".join([head, "|---" * (1 + len(results)) + "|", *rows])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--tokens", type=int, nargs="+", default=[512, 2048])
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    options.add_argument("--update", action="store_true")
    wanted = options.parse_args()
    torch.set_num_threads(wanted.threads)
    # a longer pass is disturbed less by what else goes on, and needs fewer rounds
    results = {tokens: measure(tokens, max(3, wanted.rounds * 512 // max(512, tokens))) for tokens in wanted.tokens}
    print(table(results))
    if wanted.update:
        facts = {"card": card(), "rounds at 512": wanted.rounds, "best_seconds by tokens": results}
        (ROOT / "results" / "tracing.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        readme = ROOT / "README.md"
        before, _, rest = readme.read_text(encoding="utf-8").partition("<!-- tracing -->\n")
        after = rest.partition("<!-- /tracing -->")[2]
        text = f"{before}<!-- tracing -->\n{table(results)}\n<!-- /tracing -->{after}"
        readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
