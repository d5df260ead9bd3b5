"""A model card (README.md) made from a training run: data, split, metrics, environment and licence.

Mitchell et al., "Model Cards for Model Reporting", 2019. The front matter is metadata for the Hugging Face Hub.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from torch import nn

from glassformer.checkpoints.origin import reads_pairs
from glassformer.data.faults import Faults
from glassformer.models.protocols import TextEncoder, inputs_of
from glassformer.runtime.measure import card as machine_card
from glassformer.train.objective import TaskObjective
from glassformer.train.progress import format_seconds
from glassformer.train.splits import validation_source
from glassformer.train.state import write_atomic

if TYPE_CHECKING:
    from glassformer.train.loop import Trained

CARD = "README.md"
HUB_IDS = {  # of models that `glassformer data fetch` can download
    "all-minilm-l6-v2": "sentence-transformers/all-MiniLM-L6-v2",
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "whisper-tiny.en": "openai/whisper-tiny.en",
}
TAGS = {
    "generate": "text-generation",
    "translate": "translation",
    "transcribe": "automatic-speech-recognition",
    "embed": "sentence-similarity",
}


def write_card(trained: Trained, folder: str | Path) -> Path:
    """Write the model card of a run to README.md, replacing the one from before the run was resumed."""
    path = Path(folder) / CARD
    write_atomic(path, model_card(trained, path.parent.resolve().name))
    return path


def model_card(trained: Trained, name: str) -> str:
    """Return the card of a run as Markdown with YAML front matter.

    Since a card may be published, it names files without their folders and quotes no examples of the data.
    """
    args = trained.effective_args
    args |= {key: Path(str(args[key])).name for key in ("data", "val", "from") if args[key]}
    front = yaml.safe_dump(_metadata(trained, name, args), sort_keys=False, allow_unicode=True)
    sections = {
        "Use": _use(trained, name),
        "Evaluation": _evaluation(trained),
        "Training data": _data(trained, args),
        "Training": _training(trained, args),
        "Licence": args["license"] or "Not stated. State one before you publish the model (`--license apache-2.0`).",
        "Limitations": "Not described by the training run. Measure the model on data like yours before you rely on it.",
    }
    body = "\n\n".join(f"## {title}\n{text}" for title, text in sections.items())
    return f"---\n{front}---\n\n# {name}\n\n{_summary(trained, args)}\n\n{body}\n"


def pipeline_tag(task: str, model: nn.Module) -> str:
    """Return the hub's `pipeline_tag`, its name for the model's task."""
    if task != "classify":
        return TAGS[task]
    if inputs_of(model) == ("image",):
        return "image-classification"
    return "token-classification" if isinstance(model, TextEncoder) and model.per_token else "text-classification"


def _metadata(trained: Trained, name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the front matter; metrics have the form of the hub's `model-index`."""
    tag = pipeline_tag(args["task"], trained.model)
    found: dict[str, Any] = {"license": args["license"]} if args["license"] else {}
    found |= {"library_name": "glassformer", "pipeline_tag": tag, "tags": ["glassformer"]}
    if trained.args.from_ in HUB_IDS:
        found["base_model"] = HUB_IDS[trained.args.from_]
    if trained.metrics:
        result = {
            "task": {"type": tag},
            "dataset": {"name": args["data"], "type": args["data"], "split": "validation"},
            "metrics": [{"type": key, "value": round(value, 6)} for key, value in trained.metrics.items()],
        }
        found["model-index"] = [{"name": name, "results": [result]}]
    return found


def _summary(trained: Trained, args: dict[str, Any]) -> str:
    count = sum(weight.numel() for weight in trained.model.parameters())
    origin = f"fine-tuned from {args['from']}" if args["from"] else "trained from scratch"
    return f"Architecture: {type(trained.model).__name__}, {count:,} parameters. Task: {args['task']}, {origin}."


def _use(trained: Trained, name: str) -> str:
    task, given = trained.args.task, {"image": "picture.png", "audio": "recording.wav"}
    example = given.get(inputs_of(trained.model)[0], '"…"')
    quoted = example if example == '"…"' else f'"{example}"'
    if task == "classify" and reads_pairs(trained.model):
        example, quoted = "$'…\\t…'", '("…", "…")'
    return (
        f"```sh\nglassformer {task} {example} -m {name}\n```\n"
        f'```python\nimport glassformer as gf\n\nmodel = gf.load("{name}")\ngf.{task}(model, {quoted})\n```'
    )


def _evaluation(trained: Trained) -> str:
    if not trained.metrics:
        return "The run ended before its first evaluation."
    rows = "\n".join(f"| {name} | {value:.4g} |" for name, value in trained.metrics.items())
    step = trained.best_step or trained.history[-1]["step"]
    chosen = " They were chosen by the first of these metrics, which is therefore optimistic." * bool(trained.best_step)
    opening = f"On the validation data, with the weights of step {step:,}.{chosen}"
    return f"{opening}\n\n| metric | value |\n|---|---|\n{rows}"


def _data(trained: Trained, args: dict[str, Any]) -> str:
    objective = trained.objective
    lines = [f"Data: {args['data']}. Validation: {validation_source(trained.args)}."]
    if isinstance(objective, TaskObjective):
        if (stream := objective.stream) is None:
            lines.append(f"{objective.summary()}.")
        else:
            lines.append(f"A stream, of which {stream.seen:,} examples were read. Of the first window:")
        lines += [f"- {line}" for line in objective.understood if not line.startswith("example ")]
    if isinstance(trained.faults, Faults):
        lines += [f"- left out: {line}" for line in trained.faults.summary()]
    return "\n".join(lines)


def _training(trained: Trained, args: dict[str, Any]) -> str:
    steps = trained.history[-1]["step"] if trained.history else 0
    seconds = trained.history[-1]["seconds"] if trained.history else 0.0
    how = {"finished": "The run finished", "early": "Early stopping ended the run", "interrupted": "It was interrupted"}
    machine = machine_card()
    threads = f"{machine['threads']} thread{'s' if machine['threads'] != 1 else ''}"
    where = f"{machine['processor']}, {threads} of {machine['cores']} cores"
    versions = f"glassformer {version('glassformer')}, torch {machine['torch']}, Python {machine['python']}"
    options = yaml.safe_dump({key: value for key, value in args.items() if value is not None}, allow_unicode=True)
    objective = trained.objective
    batch = f" Batch size: {objective.batch_summary()}." if isinstance(objective, TaskObjective) else ""
    return (
        f"{how[trained.stopped]} after {steps:,} steps and {format_seconds(seconds)} on {machine['date']}: {where}; "
        f"{versions}.{batch}\n\n```yaml\n{options}```"
    )
