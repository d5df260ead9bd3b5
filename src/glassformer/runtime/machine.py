"""Which kernels work on this machine, and which is the fastest for each precision: measured once and kept in a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import torch
from torch.nn.functional import linear

from glassformer.core.precision import advertises_amx, survives
from glassformer.runtime.kernels import KERNELS, PackedKernel
from glassformer.runtime.measure import interleaved, one_thread, processor

TORCH = "torch"  # the ordinary product, F.linear
ROWS, OUT, IN = (1, 128), 1536, 384  # one token, and a short sequence, through a feed-forward net


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The kernel chosen for each precision, how fast each kernel is here, and why others are not used."""

    processor: str
    threads: int
    torch: str
    chosen: Mapping[str, str]
    """Precision → the name of its kernel; a precision that does not work here is missing."""
    relative: Mapping[str, float] = field(default_factory=dict)
    """Kernel → time relative to `F.linear` in float32: the geometric mean over 1 and 128 rows, on one thread."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Kernel → why it is not used."""

    def kernel(self, precision: str) -> type[PackedKernel] | None:
        """The kernel class of a precision; None is torch's own product."""
        return next((kernel for kernel in KERNELS[precision] if kernel.__name__ == self.chosen.get(precision)), None)


@cache
def machine() -> Machine:
    """What was measured on this machine before, or is measured now (a fraction of a second)."""
    key = {"processor": processor(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer" / "machine.json"
    with suppress(OSError, ValueError, TypeError):
        kept = Machine(**json.loads(path.read_text(encoding="utf-8")))
        if {name: getattr(kept, name) for name in key} == key:
            return kept
    found = measure()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with suppress(OSError):  # a home that cannot be written to: measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
        os.replace(part, path)
    return found


def measure(rounds: int = 10) -> Machine:
    """Try every kernel, the dangerous ones in a child process first, and time them in turn."""
    refused = {}
    kernels: dict[str, PackedKernel] = {}
    for kind in (kernel for kernels in KERNELS.values() for kernel in kernels):
        reason = why_not(kind)
        if reason is None:
            kernels[kind.__name__] = kind()
        else:
            refused[kind.__name__] = reason
    relative = dict.fromkeys(kernels, 1.0)
    weight, bias = torch.randn(OUT, IN, generator=torch.Generator().manual_seed(0)), torch.zeros(OUT)
    for rows in ROWS:
        x = torch.randn(rows, IN, generator=torch.Generator().manual_seed(1))

        def run(kernel: PackedKernel, x: torch.Tensor = x) -> None:
            for _ in range(10):
                kernel(x, weight, bias)

        contenders = {name: (lambda kernel=kernel: run(kernel)) for name, kernel in kernels.items()}
        every = {TORCH: lambda: run(linear), **contenders}  # type: ignore[arg-type]
        with torch.no_grad(), one_thread():
            times = interleaved(every, rounds=rounds, clock=time.thread_time)
        for name in kernels:
            relative[name] *= (times[name] / times[TORCH]) ** (1 / len(ROWS))
    chosen = {}
    for precision, kinds in KERNELS.items():
        able = [kind.__name__ for kind in kinds if kind.__name__ in kernels]
        if able:
            chosen[precision] = min(able, key=lambda name: relative[name])
    if "fp32" not in chosen or relative[chosen["fp32"]] > 1:
        chosen["fp32"] = TORCH
    return Machine(
        processor=processor(),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        chosen=chosen,
        relative={name: round(value, 3) for name, value in relative.items()},
        refused=refused,
    )


def why_not(kernel: type[PackedKernel]) -> str | None:
    """Why a kernel cannot be used here; None if it can. What could end the process is tried in a child process."""
    if kernel.precision == "bf16" and not torch.cpu._is_avx512_bf16_supported():
        return "the processor has no bfloat16 products"
    if kernel.uses_amx and advertises_amx() and not survives(_TRY.format(name=kernel.__name__)):
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
