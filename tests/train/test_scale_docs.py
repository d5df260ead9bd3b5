"""Scripts and manifests of docs/scale.md, checked by what their systems provide."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml
from kubeflow_trainer_api.models import JobsetV1alpha2JobSet

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_jobset_is_one_by_its_own_schema() -> None:
    (text,) = blocks("yaml")
    manifest = yaml.safe_load(text)
    read = JobsetV1alpha2JobSet.from_dict(manifest)
    assert read is not None
    assert read.to_dict() == manifest, "a key that the schema does not know is dropped"
    inside = read.spec.replicated_jobs[0].template.spec
    assert inside.completions == inside.parallelism == 2
    assert "--nnodes 2" in inside.template.spec.containers[0].args[0]


def test_the_slurm_script_is_a_shell_script() -> None:
    (text,) = blocks("bash")
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).stderr == ""
    assert text.startswith("#!/bin/bash\n#SBATCH")
