"""R = Ā_L ⋯ Ā_1, Ā = ½ A + ½ I: the contribution of each input to each position of the last layer.

Abnar, Zuidema, "Quantifying Attention Flow in Transformers", 2020 (rollout and max-flow); Chefer, Gur, Wolf, "Generic
Attention-model Explainability", 2021 (gradient-weighted rollout).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.errors import InputError, ShapeError
from glassformer.lens.edit import Edit, edit
from glassformer.lens.paths import match, taps
from glassformer.lens.trace import Run

Fusion = Literal["mean", "max", "min"]
SELF = "*.attention.A"  # the self-attention layers of a stack
CAPACITY = 2**30  # capacity of an edge of weight 1, since max-flow needs integers


def mixed(
    A: Float[Tensor, "b h t s"], *, fusion: Fusion = "mean", discard: float = 0.0, residual: float = 0.5
) -> Float[Tensor, "b t s"]:
    """Ā = (1 − r) fuse_h(A) + r I, rows summing to 1: one layer with its heads fused and its residual connection.

    `discard` is the fraction of the fused weights to set to 0, starting with the smallest of each input's matrix.
    """
    if A.dim() != 4 or A.shape[-2] != A.shape[-1]:
        raise ShapeError(f"weights have shape {tuple(A.shape)}", "give a layer's attention to itself, (b, h, t, t)")
    if not 0 <= discard < 1 or not 0 <= residual < 1:
        raise InputError(
            f"discard is {discard} and residual is {residual}", "choose fractions of at least 0 and below 1"
        )
    match fusion:
        case "mean":
            one = A.mean(1)
        case "max":
            one = A.amax(1)
        case "min":
            one = A.amin(1)
        case _:
            raise InputError(f"heads cannot be fused by {fusion!r}", "choose mean, max or min")
    count = int(discard * one[0].numel())
    if count:
        smallest = one.flatten(1).topk(count, largest=False).indices
        one = one.flatten(1).scatter(1, smallest, 0.0).view_as(one)
    I = torch.eye(one.shape[-1]).to(one)
    total = one.sum(-1, keepdim=True)
    one = torch.where(total > 0, one / total, I)  # a row without any weight left becomes the identity
    return (1 - residual) * one + residual * I


def weights(source: Run | Iterable[Tensor], pattern: str = SELF) -> Iterator[Tensor]:
    """Yield A of each layer of one stack, from first to last."""
    if not isinstance(source, Run):
        yield from source
        return
    names = match((pattern,), source.paths)
    stacks = sorted({name.split(".")[0] for name in names})
    if len(stacks) > 1:
        fact = f"{pattern!r} names layers of {' and '.join(stacks)}"
        raise InputError(fact, f'follow one stack: "{stacks[0]}.{pattern}"')
    yield from (A for _, A in source.each(pattern))


def rollout(
    source: Run | Iterable[Tensor],
    pattern: str = SELF,
    *,
    fusion: Fusion = "mean",
    discard: float = 0.0,
    residual: float = 0.5,
) -> Float[Tensor, "b t s"]:
    """R = Ā_L ⋯ Ā_1 of a run, or of a list of A (b, h, t, t) from first layer to last. Rows sum to 1."""
    R: Tensor | None = None
    for A in weights(source, pattern):
        step = mixed(A, fusion=fusion, discard=discard, residual=residual)
        R = step if R is None else step @ R
    if R is None:
        raise InputError("there are no layers to roll out", "give at least one")
    return R


def gradient_rollout(model: nn.Module, answer: Callable[[], Tensor], pattern: str = SELF) -> Float[Tensor, "b t s"]:
    """R = (I + Ā_L) ⋯ (I + Ā_1), Ā = mean_h (∂y/∂A ⊙ A)⁺: relevance to the output y, not only attention.

    `answer` runs the model and selects the output to explain, for example `lambda: vit(image)[:, 3]`; several numbers
    are summed.
    """
    held: dict[str, Tensor] = {}
    with ExitStack() as edits, torch.enable_grad():
        for path in match((pattern,), list(taps(model))):
            edits.enter_context(edit(model, path, _holder(held, path)))
        y = answer().sum()
    if not held:
        raise InputError("`answer` never called the model", f"call it there, so that {pattern!r} is computed")
    if not y.requires_grad:
        raise InputError("no gradient flows from the answer to the weights", "do not detach it")
    layers = list(held.values())
    slopes = torch.autograd.grad(y, layers, allow_unused=True)  # None for layers after the selected output
    if all(slope is None for slope in slopes):
        raise InputError(
            f"the answer does not depend on any weights that match {pattern!r}", "choose layers that lead to it"
        )
    R: Tensor | None = None
    for A, slope in zip(layers, slopes, strict=True):
        if R is None:
            R = torch.eye(A.shape[-1]).to(A).expand(len(A), -1, -1)
        if slope is not None:
            R = R + (slope * A.detach()).clamp_min(0).mean(1) @ R
    assert R is not None
    return R


def _holder(held: dict[str, Tensor], path: str) -> Edit:
    """Return an edit that stores A without changing it; A requires grad even if the model's parameters do not."""

    def hold(A: Tensor) -> Tensor:
        held[path] = A if A.requires_grad else A.detach().requires_grad_()
        return held[path]

    return hold


def max_flow(
    source: Run | Iterable[Tensor],
    query: int,
    pattern: str = SELF,
    *,
    keys: Sequence[int] | None = None,
    fusion: Fusion = "mean",
    residual: float = 0.5,
) -> Float[Tensor, "b s"]:
    """The maximum flow from position `query` of the last layer to each input, with capacities Ā between layers.

    Each input position is one max-flow problem; `keys` selects positions, and the others are NaN.
    """
    layers = [mixed(A, fusion=fusion, residual=residual).detach() for A in weights(source, pattern)]
    if not layers:
        raise InputError("there are no layers to flow through", "give at least one")
    t = layers[0].shape[-1]
    wanted = range(t) if keys is None else keys
    outside = [place for place in (query, *wanted) if not 0 <= place < t]
    if outside:
        raise InputError(f"there is no position {outside[0]}", f"they are 0 to {t - 1}")
    flows = torch.full((len(layers[0]), t), torch.nan, dtype=layers[0].dtype)
    for b in range(len(flows)):
        graph = _graph([layer[b] for layer in layers])
        for key in wanted:
            flows[b, key] = _flow(graph, len(layers) * t + query, key)
    return flows


def _graph(layers: list[Tensor]) -> object:
    """Build the graph: node l·t + i is position i after l layers, with an edge of capacity Ā_ij to each j."""
    import scipy.sparse  # imported here because only max-flow needs it

    t = layers[0].shape[-1]
    tails, heads, capacities = [], [], []
    for l, A in enumerate(layers):
        capacity = (A.double() * CAPACITY).round().int()
        i, j = capacity.nonzero(as_tuple=True)
        tails.append((l + 1) * t + i)
        heads.append(l * t + j)
        capacities.append(capacity[i, j])
    parts = (torch.cat(part).cpu().numpy() for part in (capacities, tails, heads))
    size = (len(layers) + 1) * t
    values, rows, columns = parts
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(size, size), dtype="int32")


def _flow(graph: object, source: int, sink: int) -> float:
    from scipy.sparse.csgraph import maximum_flow

    return maximum_flow(graph, source, sink).flow_value / CAPACITY


def cls_to_patches(
    R: Float[Tensor, "*b t s"], grid: tuple[int, int], *, query: int = 0
) -> Float[Tensor, "*b rows cols"]:
    """Reshape row `query` (CLS) of A or R to the grid of patches, the last rows · cols positions of a ViT."""
    rows, cols = grid
    if R.shape[-1] < rows * cols:
        fact = f"{R.shape[-1]} positions are not a grid of {rows} × {cols} patches"
        raise ShapeError(fact, "give the grid of the model, ViTConfig.grid, or that of the image's size")
    return R[..., query, R.shape[-1] - rows * cols :].unflatten(-1, (rows, cols))
