"""W + (α/r) B A: a trained model learns something else, whole or by a low-rank change of some of its matrices.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021. B starts at 0, so that the model starts as it
was; what was learned is added to W when it is done, so that a tuned model is saved, loaded and used like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from glassformer.checkpoints import load
from glassformer.checkpoints.origin import origin_of, with_origin
from glassformer.errors import ConfigError, InputError
from glassformer.models import MLP, ConvNet2d, Frames, Hybrid, ImageInput, Recurrent, ViT
from glassformer.nn import Linear
from glassformer.nn.linear import initialise, normal

ATTENTION = ("*.WQ", "*.WV")  # what the paper adapts


@dataclass(frozen=True, kw_only=True)
class LowRank:
    """Rank r, scale α, and patterns of the paths of linear layers (`encoder.*.attention.WQ`)."""

    rank: int = 4
    alpha: float = 8.0
    layers: tuple[str, ...] = ATTENTION

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0:
            fact = f"a change of rank {self.rank}, scaled by {self.alpha}"
            raise ConfigError(fact, "choose a rank of at least 1 and a positive alpha")


class Adapted(Linear):
    """y = W x + b + (α/r) B (A x); W and b rest."""

    def __init__(self, base: nn.Linear, how: LowRank, generator: torch.Generator) -> None:
        nn.Module.__init__(self)  # takes the weights of the base instead of making its own
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.weight.requires_grad_(False)
        if self.bias is not None:
            self.bias.requires_grad_(False)
        r, like = how.rank, base.weight
        self.scale = how.alpha / r
        bound = 1 / math.sqrt(self.in_features)
        start = torch.empty(r, self.in_features).uniform_(-bound, bound, generator=generator)
        self.A = nn.Parameter(start.to(like))
        self.B = nn.Parameter(torch.zeros(self.out_features, r).to(like))

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + self.scale * linear(linear(input, self.A), self.B)

    @torch.no_grad()
    def merged(self) -> Linear:
        """W + (α/r) B A in a layer like the one it was."""
        layer = Linear(self.in_features, self.out_features, bias=self.bias is not None).to(self.weight)
        layer.weight.copy_(self.weight + self.scale * (self.B @ self.A))
        if layer.bias is not None:
            layer.bias.copy_(self.bias)
        return layer


class Resting(nn.BatchNorm2d):
    """A norm whose statistics stay as they were learned, while the rest of the model trains."""

    def train(self, mode: bool = True) -> Self:
        return super().train(False)


def _become(layer: nn.Module, kind: type[nn.Module]) -> nn.Module:
    layer.__class__ = kind
    return layer


def adapt(model: nn.Module, how: LowRank, *, seed: int = 0, head: bool = True) -> list[str]:
    """Freezes the model but for low-rank changes of the layers that `how` names, and the head for classes, if `head`.

    Gives the paths of the layers that were adapted. In place: the model's weights stay where they are.
    """
    paths = [
        path
        for path, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and any(fnmatchcase(path, pattern) for pattern in how.layers)
    ]
    if not paths:
        known = [path for path, layer in model.named_modules() if isinstance(layer, nn.Linear)]
        fact = f"no linear layer is called {' or '.join(how.layers)}"
        raise ConfigError(fact, f"there are {', '.join(known[:4])}, …")
    model.requires_grad_(False)
    for path in heads_of(model) if head else ():
        model.get_submodule(path).requires_grad_(True)
    for layer in model.modules():
        if type(layer) is nn.BatchNorm2d:
            _become(layer, Resting).eval()
    generator = torch.Generator().manual_seed(seed)
    for path in paths:
        put(model, path, Adapted(_linear(model, path), how, generator))
    return paths


def merge(model: nn.Module) -> nn.Module:
    """Every low-rank change added to its matrix; what is left is a model of the usual layers. In place."""
    for path, layer in list(adapted(model)):
        put(model, path, layer.merged())
    for norm in model.modules():
        if isinstance(norm, Resting):
            _become(norm, nn.BatchNorm2d).train(model.training)
    return model.requires_grad_(True)


def tuned(
    rank: int | None, seed: int, model: nn.Module, save: Callable[[nn.Module, Path], Path]
) -> Callable[[nn.Module, Path], Path]:
    """With a rank the model is frozen but for a change of that rank, which `save` merges first; without, all learns."""
    if rank is None:
        model.requires_grad_(True)
        return save
    adapt(model, LowRank(rank=rank, alpha=2.0 * rank), seed=seed)
    return lambda model, folder: save(merge(model), folder)


def adapted(model: nn.Module) -> Iterator[tuple[str, Adapted]]:
    return ((path, layer) for path, layer in model.named_modules() if isinstance(layer, Adapted))


def put(model: nn.Module, path: str, layer: nn.Module) -> None:
    above, _, name = path.rpartition(".")
    setattr(model.get_submodule(above), name, layer)


def _linear(model: nn.Module, path: str) -> nn.Linear:
    layer = model.get_submodule(path)
    assert isinstance(layer, nn.Linear)
    return layer


# ---- another head, another size --------------------------------------------------------------------------------------


def retarget(
    source: nn.Module | str | Path, *, classes: int, image: tuple[int, int] | None = None, seed: int = 0
) -> nn.Module:
    """A new model with the source's weights, a new head for other classes, and positions for another image size.

    The source is a loaded model or a folder. What its head knew is gone: the new one starts small and at random. An
    image size can be changed where positions are interpolated (ViT, hybrid) or do not matter (convolutions).
    """
    base = load(source) if isinstance(source, str | Path) else source
    if classes < 2:
        raise InputError(f"a head for {classes} classes", "choose at least 2")
    new = _with_head(base, classes, image, seed)
    state, own = base.state_dict(), new.state_dict()
    if isinstance(base, ViT | Hybrid) and isinstance(new, ViT | Hybrid):
        state["positions"] = base.table(new.config.grid).detach()
    heads = {name for name in own if name.split(".")[0] in heads_of(new)}
    kept = {name: state[name].to(tensor) for name, tensor in own.items() if name not in heads}
    new.load_state_dict(kept, strict=False)
    for path in heads_of(new):
        initialise(new.get_submodule(path), seed, normal(0.02))
    origin = origin_of(base)
    return new if origin is None else with_origin(new, origin)


def heads_of(model: nn.Module) -> tuple[str, ...]:
    """Names of the parts that answer with classes."""
    match model:
        case ViT() if model.config.classes:
            return ("head", "teacher_head") if model.config.teacher else ("head",)
        case Hybrid() | Recurrent():
            return ("head",)
        case ConvNet2d() | MLP():
            return ("W",)
    return ()


def _same_size(base: MLP | Recurrent, image: tuple[int, int]) -> bool:
    reads = base.config.reads
    if isinstance(reads, ImageInput):
        return image == (reads.height, reads.width)
    return isinstance(reads, Frames) and reads.features % image[1] == 0  # any number of rows, of so many columns


def _with_head(base: nn.Module, classes: int, image: tuple[int, int] | None, seed: int) -> nn.Module:
    """An empty model like the base, for other classes and another size."""
    changes: dict[str, Any] = {"classes": classes}
    match base:
        case ViT() | Hybrid():
            if image is not None:
                changes["image"] = image
        case ConvNet2d():
            pass  # sees images of any size
        case MLP() | Recurrent():
            if image is not None and not _same_size(base, image):
                raise InputError(f"a {type(base).__name__} sees one size only", "keep it, or tune a ViT or a hybrid")
        case _:
            raise InputError(f"a {type(base).__name__} has no head for classes", "tune one that names pictures")
    kind: Any = type(base)
    model: nn.Module = kind(replace(base.config, **changes), seed=seed)
    return model.to(next(base.parameters()).dtype)
