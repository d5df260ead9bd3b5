"""AdamW, θ ← θ − η (m̂/(√v̂ + ε) + λ θ), its learning rate schedule η(step), and gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from glassformer.nn.positions import LearnedPositions, RelativeBias
from glassformer.train.args import TrainArgs

DECAY = 0.3  # fraction of the steps over which the wsd schedule decays
MOMENTS = ("exp_avg", "exp_avg_sq")
# Learned vectors that stand for a position or a special token: decaying them to 0 would remove information.
_NOT_DECAYED = ("positions", "prefix", "registers", "mask")


def adamw(model: nn.Module, args: TrainArgs) -> torch.optim.AdamW:
    """Build AdamW with its moments already allocated, so that they can be loaded before the first step."""
    decayed, others = split_by_decay(model)
    groups = [{"params": decayed, "weight_decay": args.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=args.peak_lr, betas=args.betas, fused=True
    )
    for weight in (*decayed, *others):
        moments = {name: torch.zeros_like(weight, memory_format=torch.preserve_format) for name in MOMENTS}
        optimizer.state[weight] = {"step": torch.zeros((), dtype=torch.float32, device=weight.device), **moments}
    return optimizer


@torch.no_grad()
def make_contiguous(model: nn.Module) -> None:
    """Copy weights that are non-contiguous views, such as W_Q in GPT-2's c_attn, into memory of their own.

    The fused AdamW assumes that a weight is contiguous in memory, and would change its neighbours instead.
    """
    for weight in model.parameters():
        if not weight.is_contiguous():
            weight.data = weight.data.contiguous()


def split_by_decay(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return trainable weights with weight decay, and those without: biases, norm gains, positions, learned tokens."""
    positions = {
        id(weight)
        for module in model.modules()
        if isinstance(module, LearnedPositions | RelativeBias)
        for weight in module.parameters()
    }
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            leaf = name.rpartition(".")[2]
            exempt = weight.dim() < 2 or id(weight) in positions or leaf in _NOT_DECAYED
            (others if exempt else decayed).append(weight)
    return decayed, others


def lr_at(step: int, args: TrainArgs) -> float:
    """Return the learning rate at `step`, counted from 0; never below min_lr_ratio · lr after the warm-up.

    warm-up       (s + 1)/warmup
    cosine        ½(1 + cos π k/(steps − warmup)), k steps after the warm-up (Loshchilov, Hutter 2017)
    wsd           1, then linear decay to 0 in the last 30 % of the steps (warmup-stable-decay, Hu et al. 2024): a run
                  that is resumed before its decay may be given another number of steps
    inverse_sqrt  √(warmup/(s + 1)) (Vaswani et al. 2017)
    """
    peak, warmup, floor = args.peak_lr, args.warmup or 0, args.min_lr_ratio
    if step < warmup:
        return peak * (step + 1) / warmup
    if args.schedule == "constant":
        return peak
    if args.schedule == "cosine":
        factor = (1 + math.cos(math.pi * (step - warmup) / (args.total_steps - warmup))) / 2
        return peak * (floor + (1 - floor) * factor)
    if args.schedule == "wsd":
        return peak * max(floor, min(1.0, (args.total_steps - step) / (DECAY * args.total_steps)))
    return peak * max(floor, math.sqrt(max(warmup, 1) / (step + 1)))


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr


def clip_gradients(weights: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """g ← g · max_norm/‖g‖ if ‖g‖ > `max_norm` > 0; returns the norm ‖g‖ of all gradients together."""
    held = [weight for weight in weights if weight.grad is not None]
    norm = get_total_norm([weight.grad for weight in held if weight.grad is not None])
    if isinstance(norm, DTensor):  # sharded over several processes
        norm = norm.full_tensor()
    if max_norm:
        clip_grads_with_norm_(held, max_norm, norm)
    return norm
