"""What training costs here: operations a second of the whole loop, beside the machine's products of matrices.

    .venv/bin/python benchmarks/training.py [--rounds 9] [--update]

The rate of a small GPT under the loop in float32 and, where the machine has it, in bfloat16, of its forward pass and of
a plain product, interleaved; then of two processes beside one, each on one thread. --update writes
results/training.json and the numbers in docs/scale.md. It takes about three minutes. Only an idle machine tells the
truth here: how many cores other processes used meanwhile is measured as well, and said if it was more than a tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.core.cost import encoder_layer, linear
from glassformer.models import Decoder
from glassformer.models.decoder import plain
from glassformer.runtime import card, interleaved
from glassformer.train import Batch, Progress, TrainArgs, fit
from glassformer.train.device import runs_bfloat16

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/scale.md"
BEGIN, END = "<!-- rates -->", "<!-- /rates -->"
VOCABULARY, WIDTH, DEPTH, HEADS, LENGTH, BATCH, STEPS = 4096, 256, 6, 4, 256, 4, 4
TOKENS = 1e8  # of the example


class NextToken:
    """Random tokens: what a step costs does not depend on what they say."""

    better: Literal["higher", "lower"] = "lower"

    def __init__(self, rows: int = BATCH) -> None:
        self.rows = rows

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return [range(self.rows)]

    def batch(self, rows: Sequence[int], seed: int) -> Batch:
        draw = torch.Generator().manual_seed(seed)
        return {"tokens": torch.randint(VOCABULARY, (len(rows), LENGTH + 1), generator=draw)}

    def count(self, batch: Batch) -> float:
        return float(batch["tokens"][:, 1:].numel())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = model(batch["tokens"][:, :-1])
        return cross_entropy(logits.flatten(0, 1), batch["tokens"][:, 1:].flatten(), reduction="sum")

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {}


def gpt() -> Decoder:
    return Decoder(plain(VOCABULARY, WIDTH, DEPTH, HEADS, LENGTH), seed=0)


def plan(precision: Literal["fp32", "bf16"] = "fp32", steps: int = STEPS) -> TrainArgs:
    return TrainArgs(
        steps=steps,
        lr=1e-4,
        ema=0.999,
        precision=precision,
        log_every=steps,
        warmup=0,
        weight_decay=0.01,
        eval_every=0,
        save_every=0,
        keep="last",
    )


def flops_per_token() -> float:
    """Forward, from the shapes; a backward pass is two more of it."""
    layers = DEPTH * encoder_layer(LENGTH, WIDTH, HEADS, 4 * WIDTH)
    return (layers + linear(LENGTH, WIDTH, VOCABULARY, bias=False)).flops / LENGTH


def measure(rounds: int) -> dict[str, float]:
    """Rates, each of the best of interleaved rounds; bfloat16 only where it runs."""
    model, objective = gpt(), NextToken()
    batch = objective.batch(range(BATCH), 0)
    A, B = torch.randn(2048, 2048), torch.randn(2048, 2048)

    def forward() -> None:
        with torch.no_grad():
            objective.loss(model, batch)

    contenders = {"train": lambda: fit(model, objective, plan()), "forward": forward, "product": lambda: A @ B}
    if runs_bfloat16(torch.device("cpu")):
        contenders["train_bf16"] = lambda: fit(model, objective, plan("bf16"))
    seconds = interleaved(contenders, rounds=rounds)
    tokens = BATCH * LENGTH
    work = {"train": 3 * STEPS, "train_bf16": 3 * STEPS, "forward": 1}
    found = {f"{name}_flops_per_second": flops_per_token() * tokens * work[name] / s
             for name, s in seconds.items() if name in work}  # fmt: skip
    return {
        "parameters": float(sum(weight.numel() for weight in model.parameters())),
        "forward_flops_per_token": flops_per_token(),
        **found,
        "product_flops_per_second": 2 * 2048**3 / seconds["product"],
        "train_tokens_per_second": tokens * STEPS / seconds["train"],
    }


# ---- two processes beside one ----------------------------------------------------------------------------------------


def worker(steps: int = 8) -> None:
    """One process of those that torchrun has started: prints the seconds of a step, the first two left out."""
    ends: list[float] = []

    def note_time(progress: Progress) -> None:
        ends.append(time.perf_counter())

    fit(gpt(), NextToken(BATCH * int(os.environ["WORLD_SIZE"])), plan(steps=steps), callbacks=[note_time])
    if os.environ["RANK"] == "0":
        print((ends[-1] - ends[1]) / (steps - 2))


def efficiency(rounds: int) -> float:
    """The part of its rate that a process keeps beside another one: same rows for each, one thread for each."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, found in seconds.items():
            start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count), "--standalone"]
            done = subprocess.run(
                [*start, __file__, "--worker"],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=True,
            )
            found.append(float(done.stdout.split()[-1]))
    return median(seconds[1]) / median(seconds[2])


# ---- other processes -------------------------------------------------------------------------------------------------


class OtherLoad:
    """Cores that other processes use on average from here on, from Linux's count of busy ticks."""

    def __init__(self) -> None:
        self.start, self.busy = time.perf_counter(), self._others()

    @staticmethod
    def _others() -> float:
        """Processor seconds of everything but this process and its children that have ended."""
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return busy - sum(os.times()[:4])

    def cores(self) -> float:
        return max(0.0, (self._others() - self.busy) / (time.perf_counter() - self.start))


# ---- what the page says ----------------------------------------------------------------------------------------------


def amount(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{seconds / 60:.0f} minutes"


def power(number: float) -> str:
    """1.3e7"""
    return f"{number:.1e}".replace("e+0", "e").replace("e+", "e").replace(".0e", "e")


def measured_section(card: dict[str, Any], found: dict[str, float]) -> str:
    """Return the section of docs/scale.md that contains measurements."""
    giga = {name: found[f"{name}_flops_per_second"] / 1e9 for name in ("train", "product")}
    share, kept = giga["train"] / giga["product"], found["two_processes_efficiency"]
    work = TOKENS * 3 * found["forward_flops_per_token"]
    threads = f"{card['threads']} thread{'s' if card['threads'] > 1 else ''}"
    rows = [(f"{threads} of the measured machine", giga["train"] * 1e9)]
    half = ""
    if bf16 := found.get("train_bf16_flops_per_second"):
        rows.append(("the same in bfloat16 (`--precision bf16`)", bf16))
        half = f", {bf16 / 1e9:.1f} in bfloat16"
    rows.append((f"a machine with 1 TFLOP/s in matrix products, at {share:.2f} of that rate", share * 1e12))
    rows.append((f"8 of these machines, at an efficiency of {kept:.2f}", 8 * kept * share * 1e12))
    lines = "\n".join(f"| {name} | {rate / 1e9:,.1f} GFLOP/s | {amount(work / rate)} |" for name, rate in rows)
    busy = " **The machine was busy with other work.**" if found.get("cores_used_by_others", 1.0) > 0.1 else ""
    where = f"{threads} of {card['cores']} cores, {card['processor']}, torch {card['torch']}"
    sent, forward = 8 * found["parameters"], power(found["forward_flops_per_token"])
    return f"""Measured on {card["date"]}: {where}.{busy}
{giga["train"]:.1f} GFLOP/s in training{half}, {giga["product"]:.1f} in the matrix product: training reaches {share:.2f}
of the rate of the product. Each of two processes with one thread reaches {kept:.2f} of the rate of a single process.

For example, {power(TOKENS)} tokens take 3 · {forward} · {power(TOKENS)} = {power(work)} FLOPs.

| | rate | time |
|---|---|---|
{lines}

Communication lowers the efficiency: each process sends its gradients (4 bytes per parameter) about twice per step (DDP)
or three times (`--fsdp`). For {power(found["parameters"])} parameters that is {sent / 1e6:.0f} MB per step, or
{sent / 1e9:.2f} s at 1 GB/s between machines, compared with the seconds of computation per step."""


def rewrite(page: Path, text: str) -> None:
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return worker()
    others = OtherLoad()
    found = measure(given.rounds)
    found["two_processes_efficiency"] = efficiency(max(1, given.rounds // 3))
    found["cores_used_by_others"] = others.cores()
    for name, number in found.items():
        print(f"{name:28} {number:.4g}")
    print(f"{'share of the product rate':28} {found['train_flops_per_second'] / found['product_flops_per_second']:.2f}")
    if given.update:
        made = {"card": card(), "measured": found}
        (ROOT / "results" / "training.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        rewrite(PAGE, measured_section(made["card"], found))
    return None


if __name__ == "__main__":
    main()
