"""θ ← θ − η (m̂/(√v̂ + ε) + λ θ): AdamW, whose decay λ is for matrices that multiply, not for places and offsets."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from glassformer.nn.positions import LearnedPositions, RelativeBias
from glassformer.tasks.training.plan import Optimise

# Learned vectors that stand for a place or a token of their own: pulling them to 0 would say that they do not matter.
_STANDING = ("positions", "prefix", "registers", "mask")


def adamw(model: nn.Module, optimise: Optimise) -> torch.optim.AdamW:
    """The optimiser with its moments in place, so that they can be loaded before the first step."""
    decays, rests = split(model)
    groups = [{"params": decays, "weight_decay": optimise.decay}, {"params": rests, "weight_decay": 0.0}]
    made = torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=optimise.rate, betas=optimise.betas, fused=True
    )
    for weight in (*decays, *rests):
        moments = {name: torch.zeros_like(weight, memory_format=torch.preserve_format) for name in MOMENTS}
        made.state[weight] = {"step": torch.zeros((), dtype=torch.float32, device=weight.device), **moments}
    return made


MOMENTS = ("exp_avg", "exp_avg_sq")


def split(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Weights that decay, and those that do not: biases, gains of norms, positions, learned tokens."""
    standing = {
        id(weight)
        for module in model.modules()
        if isinstance(module, LearnedPositions | RelativeBias)
        for weight in module.parameters()
    }
    decays: list[nn.Parameter] = []
    rests: list[nn.Parameter] = []
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            leaf = name.rpartition(".")[2]
            rest = weight.dim() < 2 or id(weight) in standing or leaf in _STANDING
            (rests if rest else decays).append(weight)
    return decays, rests


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def clip(weights: Iterable[nn.Parameter], length: float | None) -> Tensor:
    """‖g‖ of all gradients together; if it is over `length`, g ← g · length/‖g‖."""
    held = [weight for weight in weights if weight.grad is not None]
    norm = get_total_norm([weight.grad for weight in held if weight.grad is not None])
    if isinstance(norm, DTensor):  # of parts that lie in several processes
        norm = norm.full_tensor()
    if length is not None:
        clip_grads_with_norm_(held, length, norm)
    return norm
