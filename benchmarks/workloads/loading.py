"""Loading a folder, and the first answer of a fresh process. Processor time of a new process each time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from workloads import Ready, Target, Workload, assets

LOAD = """
import time
{imports}
start = time.process_time()
{load}
print(time.process_time() - start)
"""
WHOLE = """
import time
{imports}
{load}
print(time.process_time())
"""


def timed(template: str, imports: str, load: str) -> Callable[[], Ready]:
    """Runs the code in a new process and returns the seconds that it prints."""

    def ready() -> Ready:
        folders = {"gpt2": assets.gpt2(), "small": assets.fetched("stories15m")}
        code = template.format(imports=imports, load=load.format(**folders))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}

        def run() -> float:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            return float(done.stdout.strip().splitlines()[-1])

        return Ready(run)

    return ready


OURS = "import glassformer as gf, glassformer.models; gf.load"
HF = "from transformers import AutoModelForCausalLM; import torch"

WORKLOADS = (
    Workload(
        name="load",
        title="load a 500 MB folder, processor time",
        contenders={
            "glassformer": timed(LOAD, OURS, 'gf.load("{gpt2}")'),
            "HF from_pretrained": timed(LOAD, HF, 'AutoModelForCausalLM.from_pretrained("{gpt2}")'),
        },
        today="HF from_pretrained",
        targets=(Target("glassformer", "HF from_pretrained", 1.5),),
        bytes_read={"glassformer": 4 * 124.4e6},
        limited_by="30 % is the check that every weight is finite; the rest is building the modules",
    ),
    Workload(
        name="first-load",
        title="import, then load a small model, processor time of the process",
        contenders={
            "glassformer": timed(WHOLE, OURS, 'gf.load("{small}")'),
            "HF from_pretrained": timed(WHOLE, HF, 'AutoModelForCausalLM.from_pretrained("{small}")'),
        },
        today="HF from_pretrained",
        targets=(Target("glassformer", "HF from_pretrained", 1.0),),
        bytes_read={"glassformer": 4 * 15.2e6},
        limited_by="the machine's limit is that of reading the weights; "
        "60 % is the import of torch, 32 % the first load, 7 % our own imports",
        rounds=3,
    ),
)
