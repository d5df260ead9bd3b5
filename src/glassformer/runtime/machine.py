"""Which kernels work on this machine, and which is the fastest for each precision: measured once and cached."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from hashlib import sha256
from itertools import product
from statistics import geometric_mean, median

import torch
from torch.nn.functional import linear

from glassformer.core.fused import attend_fused, attend_in_bfloat16
from glassformer.core.precision import advertises_amx, runs_in_child_process
from glassformer.files import replacing, user_cache
from glassformer.runtime.kernels import KERNELS, Int8Kernel, OneDNNInt8Kernel, PackedKernel, TransposedKernel
from glassformer.runtime.measure import instructions, interleaved, one_thread, processor

TORCH = "torch"  # the ordinary product, F.linear
OUT, IN = 3072, 768  # the feed-forward net of a BERT or GPT-2
ROWS = {1: 10, 128: 1}  # one token, and a short sequence; how often each runs per round
SMALL = ((576, 144), (1536, 384))  # the feed-forward nets of the shipped recogniser and of MiniLM
FEW_ROWS = {1: 50, 32: 10}
MANY_ROWS = 512
ATTENTION = (1, 12, 197, 64)  # that of ViT-B/16
REPEATS = 3


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The kernel chosen for each precision, the speed of each kernel on this machine, and why others are not used."""

    processor: str
    threads: int
    torch: str
    chosen: Mapping[str, str]
    """The kernel's name by precision; precisions that do not work on this machine are missing."""
    small: str
    """The name of the float32 kernel of layers with up to a million weights that the chosen one does not take."""
    many_rows: str
    """The name of the int8 kernel of layers that process many rows at a time and have no more inputs than outputs."""
    attention: str
    """How int8 and bf16 models compute attention without weights: torch, or bf16 if its products are faster."""
    relative: Mapping[str, float] = field(default_factory=dict)
    """By kernel: median time relative to `F.linear` in float32, on one thread (see `_relative_times`)."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By kernel: why it is not used."""

    def __str__(self) -> str:
        lines = [f"{self.processor}, {self.threads} threads, torch {self.torch}"]
        for precision, kernel in self.chosen.items():
            ratio = self.relative.get(kernel, 1.0)
            lines.append(f"{precision:5} {kernel}, {ratio:.2f} × the time of torch's float32 product")
        ratio = self.relative.get(self.small, 1.0)
        lines.append(f"small layers in fp32: {self.small}, {ratio:.2f} × the time of torch's product")
        lines.append(f"many rows in int8: {self.many_rows}; attention of int8 and bf16 models: {self.attention}")
        lines += [f"{name} is not used: {reason}." for name, reason in self.refused.items()]
        return "\n".join(lines)

    def kernel(self, precision: str) -> type[PackedKernel] | None:
        """The kernel class of a precision; None is torch's own product."""
        return next((kernel for kernel in KERNELS[precision] if kernel.__name__ == self.chosen.get(precision)), None)

    def int8_kernel(self, *, many_rows: bool = False) -> type[Int8Kernel]:
        """The int8 kernel class, or that of layers that process many rows and have no more inputs than outputs."""
        name = self.many_rows if many_rows else self.chosen["int8"]
        return next(kernel for kernel in (Int8Kernel, OneDNNInt8Kernel) if kernel.__name__ == name)


@cache
def machine() -> Machine:
    """Return the measurements of this machine, from the cache or measured now (about a second).

    Measurements are stored in the user's cache, keyed by processor and its instructions, number of threads, and
    versions of torch and Glassformer.
    """
    path = user_cache() / f"machine-{_key()}.json"
    with suppress(OSError, ValueError, TypeError):
        return Machine(**json.loads(path.read_text(encoding="utf-8")))
    found = measure()
    with suppress(OSError):  # if the cache is not writable, the machine is measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    return found


def _key() -> str:
    """A hash of what a measurement depends on."""
    from glassformer import __version__

    parts = (processor(), instructions(), str(torch.get_num_threads()), torch.__version__, __version__)
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def measure(rounds: int = 5) -> Machine:
    """Try every kernel, first in a child process if it could crash, and time them in interleaved rounds.

    The default kernel of a precision is replaced only by one that was faster in every repetition, so that a moment of
    load on the machine does not decide.
    """
    refused = {}
    kernels: dict[str, PackedKernel] = {}
    for kind in (kernel for kernels in KERNELS.values() for kernel in kernels):
        reason = why_not(kind)
        if reason is None:
            kernels[kind.__name__] = kind()
        else:
            refused[kind.__name__] = reason
    repeats = [_relative_times(kernels, rounds) for _ in range(REPEATS)]
    relative = {name: median(one[name] for one in repeats) for name in kernels}
    chosen = {}
    for precision, kinds in KERNELS.items():
        able = [kind.__name__ for kind in kinds if kind.__name__ in kernels]
        if able:  # the first is the default: another one must be faster every time
            faster = [name for name in able[1:] if all(one[name] < one[able[0]] for one in repeats)]
            chosen[precision] = min(faster or able[:1], key=lambda name: relative[name])
    packed = chosen.get("fp32")
    if packed is None or min(one[packed] for one in repeats) > 1:
        chosen["fp32"] = TORCH
    transposed = [_relative_time_of_few_rows(rounds) for _ in range(REPEATS)]
    relative[TransposedKernel.__name__] = median(transposed)
    int8 = {name: kernel for name, kernel in kernels.items() if isinstance(kernel, Int8Kernel)}
    several = [_times_of_many_rows(int8, rounds) for _ in range(REPEATS)] if int8 else []
    many = _always_fastest(several, chosen.get("int8", Int8Kernel.__name__))
    bf16 = "bf16" in chosen
    attention = _always_fastest([_times_of_attention(rounds) for _ in range(REPEATS)], TORCH) if bf16 else TORCH
    return Machine(
        processor=processor(),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        chosen=chosen,
        small=TransposedKernel.__name__ if max(transposed) < 1 else TORCH,
        many_rows=many,
        attention=attention,
        relative={name: round(value, 3) for name, value in relative.items()},
        refused=refused,
    )


def _relative_times(kernels: Mapping[str, PackedKernel], rounds: int) -> dict[str, float]:
    """Time of each kernel relative to `F.linear` on one thread: the geometric mean over one row and many.

    With several threads, packed float32 is compared on many rows only: on one row it uses all threads and `F.linear`
    does not, which a measurement on one thread cannot show.
    """
    found = {rows: _ratios(kernels, (OUT, IN), rows, often, rounds) for rows, often in ROWS.items()}
    several = torch.get_num_threads() > 1
    many, mean = found[max(ROWS)], lambda name: geometric_mean(ratios[name] for ratios in found.values())
    return {
        name: many[name] if several and kernel.precision == "fp32" else mean(name) for name, kernel in kernels.items()
    }


def _relative_time_of_few_rows(rounds: int) -> float:
    """Time of `TransposedKernel` relative to `F.linear` on one thread: the geometric mean over small layers.

    The checks of a call are not timed: most layers are run by `nn/flat.py`, which performs them once per pass.
    """
    kernel, ratios = TransposedKernel(), list[float]()
    for shape, (rows, often) in product(SMALL, FEW_ROWS.items()):
        packed = kernel.pack(torch.ones(shape), None)
        run = lambda x, _, bias, W=packed: kernel.product(x, W, bias)
        ratios += _ratios({"": run}, shape, rows, often, rounds).values()
    return geometric_mean(ratios)


def _times_of_many_rows(kernels: Mapping[str, PackedKernel], rounds: int) -> dict[str, float]:
    """Time of each int8 kernel on one thread for a layer with GELU and many rows."""
    weight, bias = torch.randn(OUT, IN, generator=torch.Generator().manual_seed(0)), torch.zeros(OUT)
    x = torch.randn(MANY_ROWS, IN, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), one_thread():
        layers = {name: kernel.activated("gelu", kernel.pack(weight, bias), bias) for name, kernel in kernels.items()}
        runs = {name: partial(layer, x) for name, layer in layers.items()}
        return interleaved(runs, rounds=rounds, clock=time.thread_time)


def _times_of_attention(rounds: int) -> dict[str, float]:
    """Time of torch's fused kernel and of products in bfloat16, on one thread."""
    Q, K, V = torch.randn(3, *ATTENTION, generator=torch.Generator().manual_seed(0))
    runs: dict[str, Callable[[], object]] = {
        TORCH: partial(attend_fused, Q, K, V),
        "bf16": partial(attend_in_bfloat16, Q, K, V, beta=ATTENTION[-1] ** -0.5),
    }
    with torch.no_grad(), one_thread():
        return interleaved(runs, rounds=rounds, clock=time.thread_time)


def _always_fastest(repeats: Sequence[Mapping[str, float]], default: str) -> str:
    """Return the default, or the alternative that was fastest in every repetition."""
    best = {min(times, key=times.__getitem__) for times in repeats}
    return best.pop() if len(best) == 1 else default


def _ratios(
    kernels: Mapping[str, Callable[..., torch.Tensor]], shape: tuple[int, int], rows: int, often: int, rounds: int
) -> dict[str, float]:
    """Time of each kernel relative to `F.linear` on one thread, for one layer and one number of rows."""
    weight, bias = torch.randn(shape, generator=torch.Generator().manual_seed(0)), torch.zeros(shape[0])
    x = torch.randn(rows, shape[1], generator=torch.Generator().manual_seed(1))

    def run(kernel: Callable[..., torch.Tensor]) -> None:
        for _ in range(often):
            kernel(x, weight, bias)

    every: dict[str, Callable[..., torch.Tensor]] = {TORCH: linear, **kernels}
    with torch.no_grad(), one_thread():
        times = interleaved(
            {name: partial(run, kernel) for name, kernel in every.items()}, rounds=rounds, clock=time.thread_time
        )
    return {name: times[name] / times[TORCH] for name in kernels}


def why_not(kernel: type[PackedKernel]) -> str | None:
    """Return why a kernel cannot be used here, or None. Kernels that could crash are tried in a child process."""
    if kernel.precision == "bf16" and not torch.cpu._is_avx512_bf16_supported():
        return "the processor has no bfloat16 products"
    if kernel.uses_amx and advertises_amx() and not runs_in_child_process(_TRY.format(name=kernel.__name__)):
        return "the processor advertises AMX and cannot run it"
    try:
        with torch.no_grad():
            kernel()(torch.ones(2, 64), torch.ones(64, 64), None)
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        return f"torch refuses it: {str(error).splitlines()[0][:80]}"
    return None


_TRY = (
    "import torch; from glassformer.runtime.kernels import {name}; torch.set_grad_enabled(False); "
    "{name}()(torch.ones(64, 64), torch.ones(64, 64), None).sum().item()"
)
