"""What training costs here: operations a second of the whole loop, beside the machine's products of matrices.

    .venv/bin/python benchmarks/training.py [--rounds 9] [--update]

Prints the rate of a small GPT under the loop, of its forward pass and of a plain product, interleaved; --update writes
results/training.json, from which docs/scale.md computes its example.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.core.cost import encoder_layer, linear
from glassformer.models import Decoder
from glassformer.models.decoder import plain
from glassformer.runtime import card, interleaved
from glassformer.tasks.training import Batch, Optimise, Plan, train

ROOT = Path(__file__).parent.parent
VOCABULARY, WIDTH, DEPTH, HEADS, LENGTH, BATCH, STEPS = 4096, 256, 6, 4, 256, 4, 2


class NextToken:
    """Random tokens: what a step costs does not depend on what they say."""

    better: Literal["higher", "lower"] = "lower"

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return [range(BATCH)]

    def batch(self, rows: Sequence[int], seed: int) -> Batch:
        draw = torch.Generator().manual_seed(seed)
        return {"tokens": torch.randint(VOCABULARY, (len(rows), LENGTH + 1), generator=draw)}

    def weigh(self, batch: Batch) -> float:
        return float(batch["tokens"][:, 1:].numel())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = model(batch["tokens"][:, :-1])
        return cross_entropy(logits.flatten(0, 1), batch["tokens"][:, 1:].flatten(), reduction="sum")

    def measure(self, model: nn.Module) -> dict[str, float]:
        return {}


def flops_per_token() -> float:
    """Forward, from the shapes; a backward pass is two more of it."""
    layers = DEPTH * encoder_layer(LENGTH, WIDTH, HEADS, 4 * WIDTH)
    return (layers + linear(LENGTH, WIDTH, VOCABULARY, bias=False)).flops / LENGTH


def measure(rounds: int) -> dict[str, float]:
    model, lesson = Decoder(plain(VOCABULARY, WIDTH, DEPTH, HEADS, LENGTH), seed=0), NextToken()
    plan = Plan(steps=STEPS, optimise=Optimise(rate=1e-4), average=0.999, log_every=STEPS)
    batch = lesson.batch(range(BATCH), 0)
    A, B = torch.randn(2048, 2048), torch.randn(2048, 2048)

    def forward() -> None:
        with torch.no_grad():
            lesson.loss(model, batch)

    contenders = {"train": lambda: train(model, lesson, plan), "forward": forward, "product": lambda: A @ B}
    seconds = interleaved(contenders, rounds=rounds)
    once = flops_per_token() * BATCH * LENGTH
    return {
        "parameters": float(sum(weight.numel() for weight in model.parameters())),
        "forward_flops_per_token": flops_per_token(),
        "train_flops_per_second": 3 * once * STEPS / seconds["train"],
        "forward_flops_per_second": once / seconds["forward"],
        "product_flops_per_second": 2 * 2048**3 / seconds["product"],
        "train_tokens_per_second": BATCH * LENGTH * STEPS / seconds["train"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--update", action="store_true")
    given = parser.parse_args()
    found = measure(given.rounds)
    for name, number in found.items():
        print(f"{name:28} {number:.4g}")
    print(f"{'share of the product rate':28} {found['train_flops_per_second'] / found['product_flops_per_second']:.2f}")
    if given.update:
        text = json.dumps({"card": card(), "measured": found}, indent=1)
        (ROOT / "results" / "training.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
