"""D[j, i] = (y_j changes when x_i does): the true receptive field of a sequence model, found by perturbing its input.

Every input frame is perturbed at several strengths, and the outputs that change by more than rounding errors depend on
it. Where the model is differentiable, ∂y_j/∂x_i is a second probe: it detects effects that are too small for the first
probe, and misses those without a derivative (a quantiser, a detached statistic), which the first probe detects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.errors import GlassError, InputError, ShapeError

Encoder = Callable[[Tensor], Any]
Progress = Callable[[int, int], None]  # (done, total)
STRENGTHS = (0.1, 1.0, 30.0)  # multiples of the example's std: small for saturating outputs, large for weak paths
ROUNDING = 64  # units in the last place by which an output may differ without depending on the input
SHAPES = 128  # the same across input lengths, which use different kernels: 7 units were measured over 12 layers
FADES = 16  # an effect below this many tolerances may continue undetected


class Field(NamedTuple):
    """Which of n outputs depend on which of t input frames, and the largest change, relative to the largest output.

    Output j covers `stride` frames starting at j·stride. `faint` marks dependences that only the gradient found;
    `noise` is the change of the outputs when every input changes in its last place, which shows how much the model
    amplifies rounding errors.
    """

    depends: Bool[Tensor, "n t"]
    effect: Float[Tensor, "n t"]
    faint: Bool[Tensor, "n t"]
    stride: int
    outputs: Float[Tensor, "b n m"]
    noise: float
    probes: tuple[str, ...]

    @property
    def tolerance(self) -> float:
        """The difference allowed between outputs for the same frames in inputs of different lengths."""
        return rounding(self.outputs, units=SHAPES) + 16 * self.noise

    @property
    def visible(self) -> float:
        """The smallest change that counts, relative to the largest output."""
        return rounding(self.outputs) / max(size_of(self.outputs), 1e-30)

    @property
    def precision(self) -> str:
        return str(self.outputs.dtype).removeprefix("torch.")

    def fades(self, j: int, i: int) -> bool:
        """Whether the effect of frame i on output j is so small that frames beyond it may have an undetected effect."""
        return bool(self.faint[j, i]) or self.effect[j, i].item() < FADES * self.visible

    @property
    def first(self) -> list[int]:
        """The first frame that each output depends on; t if there is none."""
        t = self.depends.shape[1]
        return [int(row.nonzero()[0]) if row.any() else t for row in self.depends]

    @property
    def last(self) -> list[int]:
        """The last frame that each output depends on; −1 if there is none."""
        return [int(row.nonzero()[-1]) if row.any() else -1 for row in self.depends]


def receptive_field(
    encoder: Encoder,
    example: Tensor,
    *,
    stride: int | None = None,
    strengths: Sequence[float] = STRENGTHS,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Field:
    """Measure the receptive field of an encoder on frames (b, t, f), or token ids (b, t); outputs are (b, n, m).

    A batch of several inputs detects more than a single input; the results are merged. A module is measured in eval
    mode. `progress` receives the number of frames done and the total.
    """
    _require_example(example)
    with in_eval_mode(encoder):
        Y = outputs_of(encoder, example)
        again = size_of(outputs_of(encoder, example) - Y)
        if again > 1e-3 * size_of(Y):
            fact = f"two runs of the encoder on the same input differ (by {again:.2g})"
            raise InputError(fact, "remove randomness, and state kept between calls")
        n, t = Y.shape[1], example.shape[1]
        stride = measured_stride(encoder, example, n) if stride is None else stride
        if stride < 1:
            raise InputError(f"stride is {stride}", "give the number of input frames per output, at least 1")
        generator = torch.Generator().manual_seed(seed)
        effect = torch.zeros(n, t, dtype=torch.float64)
        depends = torch.zeros(n, t, dtype=torch.bool)
        for i in range(t):
            for strength in strengths:
                change = change_of(outputs_of(encoder, perturbed(example, i, strength, generator)), Y).amax((0, 2))
                depends[:, i] |= (change > rounding(Y, size_of(change)) + 4 * again).cpu()
                effect[:, i] = torch.maximum(effect[:, i], change.double().cpu() / max(size_of(Y), 1e-30))
            progress(i + 1, t)
        noise = max(again, noise_of(encoder, example, Y, generator))
        slope = _by_gradient(encoder, example, generator)
    faint = torch.zeros_like(depends) if slope is None else slope & ~depends
    probes = (f"{len(strengths)} perturbations of every frame", *(() if slope is None else ("the gradient",)))
    return Field(depends | faint, effect, faint, stride, Y, noise, probes)


def rounding(Y: Tensor, change: float = 0.0, units: int = ROUNDING) -> float:
    """The difference allowed without dependence: `units` in the last place of the largest output plus the change."""
    return units * torch.finfo(Y.dtype).eps * (size_of(Y) + change)


def size_of(Y: Tensor) -> float:
    """The largest finite absolute value in Y."""
    return Y.abs().nan_to_num(0.0, posinf=0.0).amax().item() if Y.numel() else 0.0


def change_of(Y: Tensor, before: Tensor) -> Tensor:
    """|y − y₀|; 0 where both are the same infinity, ∞ where only one is infinite."""
    return torch.where(Y.eq(before), 0.0, (Y - before).abs().nan_to_num(torch.inf, posinf=torch.inf))


@contextmanager
def in_eval_mode(encoder: Encoder) -> Iterator[None]:
    """Run the block in eval mode without gradients; afterwards restore the mode of every module."""
    module = module_of(encoder)
    modules = [] if module is None else list(module.modules())
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        with torch.no_grad():
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def module_of(encoder: Encoder) -> nn.Module | None:
    """Return the encoder if it is a module, the module that it is a method of, or None."""
    owner = getattr(encoder, "__self__", encoder)
    return owner if isinstance(owner, nn.Module) else None


def outputs_of(encoder: Encoder, X: Tensor) -> Tensor:
    """Return the encoder's outputs (b, n, m), or the first element if it returns several."""
    try:
        Y = encoder(X)
    except GlassError:
        raise
    except Exception as error:  # user code may raise anything
        words = str(error).strip().splitlines() or [type(error).__name__]
        fact = f"the encoder failed on an input of shape {tuple(X.shape)} ({type(error).__name__}: {words[0]})"
        raise InputError(fact, "give an example input that the encoder takes") from error
    Y = _first(Y)
    if Y.dim() < 3 or len(Y) != len(X) or not Y.is_floating_point():
        dtype = str(Y.dtype).removeprefix("torch.")
        fact = f"the encoder returned {tuple(Y.shape)} ({dtype}) for an input of {tuple(X.shape)}"
        raise ShapeError(fact, "give an encoder that returns one vector per frame: floats (b, n, m)")
    if Y.isnan().any():
        raise InputError("the encoder's output contains NaN", "check its weights and the example for NaN")
    return Y.detach().flatten(2)


def _first(Y: Any) -> Tensor:
    """Return a tensor, or the first tensor of a collection: a recurrent layer also returns its states."""
    while not isinstance(Y, Tensor):
        if not isinstance(Y, Sequence | dict) or not len(Y):
            raise ShapeError(
                f"the encoder returned {type(Y).__name__}", "give an encoder that returns a tensor (b, n, m)"
            )
        Y = next(iter(Y.values())) if isinstance(Y, dict) else Y[0]
    return Y


def measured_stride(encoder: Encoder, example: Tensor, n: int) -> int:
    """Input frames per output, from the number of outputs lost when the input is halved; t / n if that fails."""
    t = example.shape[1]
    try:
        fewer = n - outputs_of(encoder, example[:, : t - t // 2]).shape[1]
    except GlassError:
        fewer = 0
    return max(1, round(t // 2 / fewer) if fewer > 0 else round(t / n))


def perturbed(example: Tensor, i: int | slice, strength: float, generator: torch.Generator) -> Tensor:
    """Perturb frame i of the example, or a range, by noise; token ids are replaced by others of the example."""
    X = example.clone()
    if not X.is_floating_point():
        kinds = X.unique().cpu()
        rank = torch.searchsorted(kinds, X[:, i].cpu().contiguous())
        jump = torch.randint(1, len(kinds), rank.shape, generator=generator)
        X[:, i] = kinds[(rank + jump) % len(kinds)].to(X)
        return X
    scale = X.std().item() or 1.0
    X[:, i] += strength * scale * torch.randn(X[:, i].shape, generator=generator).to(X)
    return X


def noise_of(encoder: Encoder, example: Tensor, Y: Tensor, generator: torch.Generator) -> float:
    """The change of Y when every number of the example changes in its last place."""
    if not example.is_floating_point():
        return 0.0
    ulp = torch.finfo(example.dtype).eps * torch.randn(example.shape, generator=generator).to(example)
    return size_of(change_of(outputs_of(encoder, example * (1 + ulp)), Y))


def _by_gradient(encoder: Encoder, example: Tensor, generator: torch.Generator) -> Tensor | None:
    """∂(w·y_j)/∂x_i ≠ 0 beyond rounding, for a random w; None where there is no gradient."""
    if not example.is_floating_point():
        return None
    X = example.clone().requires_grad_()
    rows = []
    try:
        with torch.enable_grad():
            Y = _first(encoder(X)).flatten(2)
            if not Y.requires_grad:
                return None
            w = torch.randn(Y.shape[2], generator=generator).to(Y)
            for j in range(Y.shape[1]):
                y = (Y[:, j].nan_to_num(0.0, 0.0, 0.0) * w).sum()
                (slope,) = torch.autograd.grad(y, X, retain_graph=True, allow_unused=True)
                rows.append(torch.zeros(X.shape[1]) if slope is None else slope.abs().amax((0, 2)).cpu())
    except (RuntimeError, InputError):  # an operation without a derivative, or a model prepared for int8 or bf16
        return None
    slopes = torch.stack(rows).nan_to_num(0.0)
    return slopes > ROUNDING * torch.finfo(X.dtype).eps * slopes.amax(1, keepdim=True)


def _require_example(example: Tensor) -> None:
    floating = example.is_floating_point()
    if example.dim() != (3 if floating else 2) or example.numel() == 0 or example.shape[1] < 4:
        fact = f"the example has shape {tuple(example.shape)}"
        raise ShapeError(fact, "give frames (b, t, f) or token ids (b, t), at least 4 of them")
    if not floating and len(example.unique()) < 2:
        raise InputError("all tokens of the example are the same", "give different tokens, because the test swaps them")
    if floating and not example.isfinite().all():
        raise InputError("the example contains values that are not finite", "give finite frames")
