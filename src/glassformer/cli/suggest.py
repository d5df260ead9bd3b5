"""Suggestions for unknown options: the name of the option here, or the command that has it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

SYNONYMS: dict[str, str] = {
    "learning-rate": "lr", "rate": "lr", "eta": "lr", "max-lr": "lr", "peak-lr": "lr",
    "epoch": "epochs", "num-epochs": "epochs", "num-train-epochs": "epochs", "max-epochs": "epochs",
    "iterations": "steps rounds", "iters": "steps rounds", "max-iters": "steps", "max-steps": "steps",
    "num-steps": "steps",
    "bs": "batch-size", "batch": "batch-size", "batchsize": "batch-size", "train-batch-size": "batch-size",
    "per-device-train-batch-size": "batch-size", "micro-batch-size": "batch-size",
    "wd": "weight-decay", "decay": "weight-decay", "l2": "weight-decay",
    "smoothing": "label-smoothing", "label-smoothing-factor": "label-smoothing",
    "clip": "grad-clip", "clip-grad": "grad-clip", "clip-norm": "grad-clip", "max-grad-norm": "grad-clip",
    "gradient-clip-val": "grad-clip", "gradient-clipping": "grad-clip",
    "accumulate": "grad-accum", "accumulation": "grad-accum", "gradient-accumulation-steps": "grad-accum",
    "accumulate-grad-batches": "grad-accum", "grad-accumulation": "grad-accum",
    "warmup-steps": "warmup", "warmup-iters": "warmup", "num-warmup-steps": "warmup",
    "lr-schedule": "schedule", "scheduler": "schedule", "lr-scheduler": "schedule", "lr-scheduler-type": "schedule",
    "average": "ema", "ema-decay": "ema", "model-ema": "ema", "model-ema-decay": "ema",
    "low-rank": "lora-rank", "lora": "lora-rank", "lora-r": "lora-rank", "rank": "lora-rank",
    "held": "val", "validation": "val", "valid": "val", "val-data": "val", "eval-data": "val", "dev": "val",
    "val-split": "val", "validation-split": "val", "val-fraction": "val",
    "measure-every": "eval-every", "eval-interval": "eval-every", "eval-steps": "eval-every", "val-every": "eval-every",
    "save-interval": "save-every", "save-steps": "save-every", "checkpoint-every": "save-every",
    "workers": "num-workers", "dataloader-num-workers": "num-workers", "jobs": "num-workers",
    "dtype": "precision", "amp": "precision", "fp16": "precision", "bf16": "precision", "torch-dtype": "precision",
    "quantize": "precision", "int8": "precision",
    "gpu": "device", "gpus": "device", "cuda": "device", "cpu": "device", "accelerator": "device",
    "random-seed": "seed", "manual-seed": "seed", "rng": "seed",
    "pretrained": "from", "finetune": "from", "fine-tune": "from", "init-from": "from", "base": "from",
    "model": "from",  # of train; elsewhere it is an option
    "resume-from-checkpoint": "resume", "early-stopping": "patience", "early-stopping-patience": "patience",
    "gradient-checkpointing": "grad-checkpointing", "activation-checkpointing": "grad-checkpointing",
    "checkpointing": "grad-checkpointing", "shard": "fsdp", "log-interval": "log-every", "logging-steps": "log-every",
    "wandb": "report-to", "tensorboard": "report-to", "mlflow": "report-to", "logger": "report-to",
    "vocabulary": "vocab-size", "vocab": "vocab-size", "hidden-size": "width", "d-model": "width", "n-embd": "width",
    "embed-dim": "width", "dim": "width", "layers": "depth", "num-layers": "depth", "n-layer": "depth",
    "num-heads": "heads", "n-head": "heads", "image": "image-size", "img-size": "image-size", "kind": "arch",
    "architecture": "arch",
    "model-type": "arch", "change": "augmentation", "augmentations": "augmentation",
    "max-new": "max-new-tokens", "max-tokens": "max-new-tokens", "max-length": "max-new-tokens", "n-predict":
    "max-new-tokens", "num-predict": "max-new-tokens",
    "temp": "temperature", "do-sample": "temperature", "sample": "temperature", "backend": "engine",
    "open": "browser", "no-open": "no-browser",
    "topk": "top-k", "k": "top-k", "topp": "top-p", "p": "top-p", "nucleus": "top-p",
    "beam": "num-beams", "beams": "num-beams", "beam-size": "num-beams", "beam-width": "num-beams",
    "rep-penalty": "repetition-penalty", "repeat-penalty": "repetition-penalty",
    "stop-sequence": "stop", "stop-strings": "stop", "system-prompt": "system", "raw": "no-chat",
    "candidate-labels": "labels", "label": "labels",
    "left": "left-context", "chunk": "chunk-size", "lang": "language", "sampling-rate": "sample-rate",
    "sr": "sample-rate", "max-samples": "limit", "num-samples": "limit", "most": "limit",
    "out": "output", "output-dir": "output", "out-dir": "output", "save-dir": "output", "output-file": "output",
    "model-name": "model", "model-path": "model", "model-name-or-path": "model", "checkpoint": "model",
    "config-file": "config", "cfg": "config", "fmt": "format", "output-format": "format",
    "plot": "figure", "draw": "figure", "save-plot": "figure",
    "runs": "rounds", "num-runs": "rounds", "repeat": "rounds", "repeats": "rounds",
    "seq-len": "length max-length", "seq-length": "length max-length", "sequence-length": "length max-length",
    "max-seq-length": "max-length", "num-sheets": "sheets", "tol": "tolerance", "atol": "tolerance",
}  # fmt: skip
"""Common names of an option → its name on our command line, or several, of which a command has one."""


MOST = 4  # commands that a suggestion lists


def suggest(option: str, options: Sequence[str], elsewhere: Mapping[str, Sequence[str]]) -> str:
    """Suggest what to use instead of `option`: "use --lr", "--lr is an option of train", or "" if nothing is close.

    `options` are the long options of the command that was called, `elsewhere` those of every command.
    """
    name = option.lstrip("-").replace("_", "-").lower()
    exact = any(f"--{name}" in theirs for theirs in elsewhere.values())
    near = [] if exact else difflib.get_close_matches(name, SYNONYMS, n=1, cutoff=0.85)
    known = [f"--{one}" for one in SYNONYMS.get((*near, name)[0], name).split()]
    meant = next((one for one in known if one in options), known[0])
    if meant in options:
        return f"use {meant}"
    if meant == "--device":
        return "this command always runs on the CPU"
    if len(option) == 2 and option[0] == "-":
        same = [one for one in options if one.startswith(f"--{name}")]
        return f"did you mean {same[0]}?" if len(same) == 1 else ""
    if exact:
        meant = f"--{name}"
    close = difflib.get_close_matches(f"--{name}", options, n=1, cutoff=0.75)
    owners = [command for command, theirs in elsewhere.items() if meant in theirs]
    if close and not exact:
        return f"did you mean {close[0]}?"
    if owners:
        subject = "it" if meant == option else meant
        if len(owners) > MOST:
            return f"{subject} is an option of other commands, such as {' and '.join(owners[-2:])}"
        return f"{subject} is an option of {' and '.join([', '.join(owners[:-1]), owners[-1]][len(owners) < 2 :])}"
    return ""
