"""Parse convolution kernels from text: "[1,2,1]/4", "3x3 blur", "3x3 [[0,1,0],[1,-4,1],[0,1,0]]"."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import InputError

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_HOW = 'write it as "[1,2,1]/4", "3x3 blur" or "3x3 [[0,1,0],[1,-4,1],[0,1,0]]"'


def _binomial(k: int) -> Tensor:
    return torch.tensor([math.comb(k - 1, i) for i in range(k)], dtype=torch.float64) / 2 ** (k - 1)


def _identity(sizes: tuple[int, ...]) -> Tensor:
    kernel = torch.zeros(sizes, dtype=torch.float64)
    kernel[tuple((k - 1) // 2 for k in sizes)] = 1.0
    return kernel


def _blur(sizes: tuple[int, ...]) -> Tensor:
    kernel = torch.ones((), dtype=torch.float64)
    for k in sizes:
        kernel = kernel[..., None] * _binomial(k)
    return kernel


_FIXED: dict[str, list[list[float]]] = {
    "sobel-x": [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]],
    "sobel-y": [[-1, -2, -1], [0, 0, 0], [1, 2, 1]],
    "laplacian": [[0, 1, 0], [1, -4, 1], [0, 1, 0]],
    "sharpen": [[0, -1, 0], [-1, 5, -1], [0, -1, 0]],
}
_NAMED: dict[str, Callable[[tuple[int, ...]], Tensor]] = {
    "identity": _identity,
    "blur": _blur,
    "box": lambda sizes: torch.full(sizes, 1 / math.prod(sizes), dtype=torch.float64),
}
NAMES = (*_NAMED, *_FIXED, "random")


def named_kernel(name: str, sizes: tuple[int, ...], *, channels: int = 1, seed: int = 0) -> Tensor:
    """Return a kernel by name: blur (binomial), box, identity and random (mixes channels) of any size; others 3×3."""
    if name == "random":
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(channels, channels, *sizes, dtype=torch.float64, generator=generator)
    if name in _FIXED:
        if sizes != (3, 3):
            raise InputError(f"{name} is not defined for {'x'.join(map(str, sizes))}", "ask for 3x3")
        return torch.tensor(_FIXED[name], dtype=torch.float64)
    if name not in _NAMED:
        raise InputError(f"there is no kernel {name!r}", f"choose one of {', '.join(NAMES)}, or {_HOW}")
    return _NAMED[name](sizes)


def read_kernel(words: Sequence[str], *, channels: int = 1, seed: int = 0) -> Tensor:
    """Parse a kernel from command-line words: an optional size, then a name or an expression."""
    text = " ".join(words).strip()
    parts = re.fullmatch(r"(?:(\d+(?:[x×]\d+)?)\s+)?(\S.*)", text)
    if parts is None:
        raise InputError(f"there is no kernel in {text!r}", _HOW)
    sizes = tuple(int(k) for k in re.split("[x×]", parts[1])) if parts[1] else ()
    if any(k < 1 for k in sizes):
        raise InputError(f"the size of the kernel is {parts[1]}", "choose sizes of at least 1")
    if re.fullmatch(r"[a-z-]+", parts[2]):
        if not sizes:
            raise InputError(f"{parts[2]} has no size", f"add one: 3x3 {parts[2]}, or 5 {parts[2]} in one dimension")
        return named_kernel(parts[2], sizes, channels=channels, seed=seed)
    kernel = read_numbers(parts[2])
    if sizes and kernel.shape[-len(sizes) :] != sizes:
        if kernel.dim() != 1 or kernel.numel() != math.prod(sizes):
            raise InputError(f"the kernel has shape {tuple(kernel.shape)} instead of {parts[1]}", _HOW)
        kernel = kernel.reshape(sizes)
    return kernel


def read_numbers(text: str) -> Tensor:
    """Parse a nested list of numbers with + − × ÷, also applied to a whole list: [1,2,1]/4."""
    try:
        value = _value(ast.parse(text, mode="eval").body)
        kernel = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError):
        raise InputError(f"{text!r} is not a kernel", _HOW) from None
    if kernel.dim() == 0 or kernel.numel() == 0 or not bool(kernel.isfinite().all()):
        raise InputError(f"{text!r} is not a kernel", _HOW)
    return kernel


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        items = [_value(item) for item in node.elts]
        return torch.stack([torch.as_tensor(item, dtype=torch.float64) for item in items]) if items else torch.empty(0)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError(type(node).__name__)
