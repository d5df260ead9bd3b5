"""max_t Σ allocated − freed: the most memory that torch's allocator holds at once while something runs.

Taken from the events of torch's own profiler, so that what kernels allocate inside is counted too; what was there
before (weights, input) is not. Scratch memory that a kernel library takes from the system by itself is not seen.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate

from torch.profiler import ProfilerActivity, profile


def peak(run: Callable[[], object]) -> int:
    """Bytes above what was held at the start."""
    with warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")  # of the profiler's own, about runs that it has not seen
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            run()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = (int(event.nbytes()) for event in sorted(events, key=lambda event: event.start_ns()))
    return max(accumulate(changes, initial=0))


@contextmanager
def _quiet() -> Iterator[None]:
    """The profiler's library writes to standard error when it starts and stops."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
