"""Arguments of a training run: one class for Python, the command line and `--config FILE.yaml`."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from glassformer.errors import ConfigError, InputError

if TYPE_CHECKING:
    from glassformer.train.objective import Objective

TASKS = ("classify", "translate", "transcribe", "generate", "embed")
SCHEDULES = ("cosine", "wsd", "inverse_sqrt", "constant")
PRECISIONS = ("fp32", "bf16", "auto")
DEVICES = ("auto", "cpu", "cuda", "mps")
DEFAULT_STEPS = 2000
AUTO = "auto"
LR = "choose a positive number, or auto"
BETAS = "choose two numbers in [0, 1)"
LR_ARGS = ("lr", "schedule", "warmup", "min_lr_ratio")  # that define the learning rate of every step
A = TypeVar("A", bound=Any)  # a dataclass of augmentations, which has `needs`

# Arguments that may change when a run is resumed: length, learning rate, speed and intervals, and the location of the
# data (its content is compared by fingerprint).
FREE = frozenset((
    "task", "data", "val", "from_", "steps", "epochs", *LR_ARGS, "patience", "eval_every", "save_every", "log_every",
    "num_workers", "device", "fsdp", "report_to", "compile", "license",
))  # fmt: skip


PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression", "token_classification")
CHOICES = {
    "task": TASKS,
    "problem_type": PROBLEM_TYPES,
    "schedule": SCHEDULES,
    "precision": PRECISIONS,
    "device": DEVICES,
    "keep": ("best", "last"),
}


FROM_PYTHON = " from Python"  # ends the description of data that is not a file


def from_python(data: Any) -> bool:
    return isinstance(data, str) and data.startswith("a ") and data.endswith(FROM_PYTHON)


def flag(name: str) -> str:
    """The command-line option of an argument."""
    return "--" + name.rstrip("_").replace("_", "-")


def _require(args: Any, name: str, holds: Any, remedy: str) -> None:
    value = getattr(args, name)
    if value is not None and not holds(value):
        raise ConfigError(f"{flag(name)} is {value!r}", remedy)


class TrainOptions(TypedDict, total=False):
    """The keyword arguments of `gf.train`, for editors: the fields of `TrainArgs` except task and data."""

    val: str | Any | None
    columns: str | None
    from_: str | None
    lora_rank: int | None
    arch: str | None
    width: int | None
    depth: int | None
    heads: int | None
    image_size: int | None
    max_length: int | None
    problem_type: str | None
    language: str | None
    vocab_size: int | None
    augment: bool
    augmentation: Mapping[str, float]
    label_smoothing: float | None
    batch_size: int | None
    grad_accum: int
    epochs: float | None
    steps: int | None
    lr: str | float | None
    schedule: str
    warmup: int | None
    min_lr_ratio: float
    weight_decay: float
    betas: tuple[float, float]
    grad_clip: float
    ema: float | None
    patience: int | None
    keep: str
    eval_every: int | None
    save_every: int | None
    log_every: int
    report_to: str
    device: str
    precision: str
    compile: bool
    grad_checkpointing: bool
    fsdp: bool
    num_workers: int
    seed: int
    license: str | None


@dataclass(frozen=True, kw_only=True)
class TrainArgs:
    """Arguments of a training run, shared by all tasks. None means the task's own default."""

    task: str | None = None
    """What to train for: classify, translate, transcribe, generate or embed."""
    data: str | Any | None = None
    """Training data: a dataset name (see `glassformer data list`), a folder, a file or an archive."""
    val: str | Any | None = None
    """Validation data. Defaults to the dataset's own split, or 10 % of the training data (stratified by class)."""
    columns: str | None = None
    """Columns of a table, for example text=review,label=stars. Defaults to columns with common names."""
    from_: str | None = None
    """Fine-tune this model: the name of a shipped or fetched model, or a folder. Defaults to training from scratch."""
    lora_rank: int | None = None
    """Fine-tune with LoRA adapters of this rank; all other weights stay frozen."""
    arch: str | None = None
    """Architecture: hybrid, vit, cnn, mlp or rnn for images; transformer, rnn or cnn otherwise."""
    width: int | None = None
    """Model width (embedding dimension)."""
    depth: int | None = None
    """Number of layers."""
    heads: int | None = None
    """Attention heads per layer."""
    image_size: int | None = None
    """Resize images to squares of this many pixels. Defaults to their own size, at most 96."""
    max_length: int | None = None
    """Maximum length of a text in tokens; longer texts are truncated. Defaults to 256, or the model's context."""
    problem_type: str | None = None
    """Problem type of text classification: single_label_classification, multi_label_classification, regression or
    token_classification. Inferred from the labels by default."""
    language: str | None = None
    """Language of the recordings for a multilingual Whisper, for example fr. By default the model detects it."""
    vocab_size: int | None = None
    """Vocabulary size of the tokenizer that is trained on the data."""
    augment: bool = True
    """Augment images and recordings at random."""
    augmentation: Mapping[str, float] = field(default_factory=dict)
    """Strength of one augmentation, for example mixup=0.2 (0 disables it). May be given several times."""
    label_smoothing: float | None = None
    """Label smoothing, between 0 and 1."""
    batch_size: int | None = None
    """Batch size, in images, blocks of text, target tokens (translate, embed) or seconds of audio."""
    grad_accum: int = 1
    """Batches to accumulate before each optimizer step."""
    epochs: float | None = None
    """Passes over the training data. Alternative to --steps."""
    steps: int | None = None
    """Optimizer steps. Defaults to 2000, but at most 34 epochs of images (10 when fine-tuning), and to 8 epochs for
    text classification (3 when fine-tuning, except for regression)."""
    lr: str | float | None = None
    """Peak learning rate, or auto to find it with a range test. Defaults to the task's own; 1e-3 from scratch."""
    schedule: str = "cosine"
    """Learning rate schedule after the warm-up: cosine, wsd (constant, then linear decay), inverse_sqrt or constant."""
    warmup: int | None = None
    """Warm-up steps. Defaults to 5 % of the steps, at most 500."""
    min_lr_ratio: float = 0.0
    """Lower bound of the schedule, as a fraction of the peak learning rate."""
    weight_decay: float = 0.05
    """AdamW weight decay, applied to matrices only."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW momentum coefficients."""
    grad_clip: float = 1.0
    """Maximum gradient norm; 0 disables clipping."""
    ema: float | None = None
    """Decay of the exponential moving average of the weights, for example 0.998."""
    patience: int | None = None
    """Stop early after this many evaluations without improvement."""
    keep: str = "best"
    """Which weights to keep: best (by the validation metric) or last."""
    eval_every: int | None = None
    """Steps between evaluations; 0 evaluates at the end only. Defaults to 10 % of the run."""
    save_every: int | None = None
    """Steps between checkpoints; 0 saves at the end only. Defaults to 2 % of the run, at least 20."""
    log_every: int = 10
    """Steps between log entries."""
    report_to: str = "auto"
    """Experiment trackers besides log.jsonl and log.csv: tensorboard, wandb, mlflow (comma-separated), none, or auto,
    which is TensorBoard if it is installed."""
    device: str = "auto"
    """Device: auto, cpu, cuda or mps. auto uses an accelerator if there is one."""
    precision: str = "fp32"
    """Precision: fp32, bf16 (mixed precision), or auto, which is bf16 if the device supports it."""
    compile: bool = False
    """Compile the model with torch.compile: slower to start, then often faster. Needs a C++ compiler on the CPU."""
    grad_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more time."""
    fsdp: bool = False
    """Under torchrun: shard weights, gradients and optimizer state over the processes (FSDP2)."""
    num_workers: int = 0
    """Worker processes that load data; 0 loads in the main process."""
    seed: int = 0
    """Random seed."""
    license: str | None = None
    """Licence of the trained weights, for the model card: an identifier such as apache-2.0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "augmentation", dict(self.augmentation))
        if not isinstance(self.betas, Sequence):
            raise ConfigError(f"--betas is {self.betas!r}", BETAS)
        object.__setattr__(self, "betas", tuple(self.betas))
        self._check_ranges()
        self._check_combinations()
        _ = self.column_names  # raises an error if it cannot be parsed

    def _check_ranges(self) -> None:
        if self.precision == "int8":
            raise ConfigError("--precision int8 has no gradients to train with", f"choose {', '.join(PRECISIONS)}")
        for name in CHOICES:
            value, known = getattr(self, name), CHOICES[name]
            if value is not None and value not in known:
                what = "the task" if name == "task" else flag(name)  # the first argument of `train`
                raise ConfigError(f"{what} {value!r} is unknown", _closest(str(value), known))
        sizes = "width depth heads image_size max_length vocab_size lora_rank"
        for name in f"{sizes} batch_size grad_accum steps patience log_every".split():
            _require(self, name, lambda x: x >= 1, "choose at least 1")
        for name in ("eval_every", "save_every", "num_workers", "seed", "warmup", "weight_decay", "grad_clip"):
            _require(self, name, lambda x: x >= 0, "choose 0 or more")
        positive = lambda x: isinstance(x, int | float) and x > 0 and math.isfinite(x)
        _require(self, "epochs", positive, "choose a positive number")
        _require(self, "lr", lambda x: x == AUTO or positive(x), LR)
        _require(self, "label_smoothing", lambda x: 0 <= x < 1, "choose a number from 0 to 1, such as 0.1")
        _require(self, "min_lr_ratio", lambda x: 0 <= x <= 1, "choose a number from 0 to 1")
        _require(self, "ema", lambda x: 0 <= x < 1, "choose a decay in [0, 1), such as 0.998")
        both = len(self.betas) == 2 and all(isinstance(beta, int | float) and 0 <= beta < 1 for beta in self.betas)
        _require(self, "betas", lambda _: both, BETAS)

    def _check_combinations(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise ConfigError(f"both --steps {self.steps} and --epochs {self.epochs:g} are given", "choose one of them")
        if self.lora_rank is not None and self.from_ is None:
            raise ConfigError(f"--lora-rank {self.lora_rank} has no model to adapt", "--lora-rank needs --from MODEL")
        if self.augmentation and not self.augment:
            name = next(iter(self.augmentation))
            raise ConfigError(f"--augmentation {name}=… together with --no-augment", "leave one of them out")
        if self.from_ is not None:
            for name in ("arch", "width", "depth", "heads", "vocab_size"):
                if getattr(self, name) is not None:
                    fact = f"{flag(name)} {getattr(self, name)} cannot change the model {self.from_}"
                    raise ConfigError(fact, f"leave out {flag(name)}, or leave out --from to train from scratch")

    # ---- for the tasks ------------------------------------------------------------------------------------------

    @property
    def column_names(self) -> dict[str, str]:
        """The columns by role: {"text": "review", "label": "stars"}."""
        if self.columns is None:
            return {}
        from glassformer.data.columns import parse  # imports torch, which --help does not need

        return parse(self.columns)

    def one_of(self, *known: str) -> str:
        """Return the chosen architecture; defaults to the first that the task supports."""
        if self.arch is not None and self.arch not in known:
            raise ConfigError(f"--arch {self.arch} is not available for this task", f"choose {', '.join(known)}")
        return self.arch or known[0]

    def reject(self, what: str, *names: str) -> None:
        """Raise an error for an option that has no effect on the task or the architecture."""
        for name in names:
            if getattr(self, name) != DEFAULTS[name]:
                raise ConfigError(f"{flag(name)} has no effect on {what}", f"leave out {flag(name)}")

    def augmented(self, kind: type[A], **usual: float) -> A | None:
        """The augmentation of a task: its default strengths, overridden by --augmentation; None with --no-augment."""
        if not self.augment:
            return None
        known: dict[str, Any] = {one.name: type(one.default) for one in fields(kind)}
        for name, value in self.augmentation.items():
            if name not in known:
                raise ConfigError(f"--augmentation {name} is unknown", f"choose {', '.join(known)}")
            if value < 0:
                raise ConfigError(f"--augmentation {name}={value:g} is negative", "choose 0 (none) or more")
            if known[name] is not float and value != int(value):
                raise ConfigError(f"--augmentation {name}={value:g} is fractional", "choose a whole number")
            if known[name] is bool and value > 1:
                raise ConfigError(f"--augmentation {name}={value:g} is out of range", "choose 0 (no) or 1 (yes)")
            usual[name] = known[name](value)
        made = kind(**usual)
        for name, value in self.augmentation.items():
            if value and name in kind.needs and not getattr(made, kind.needs[name]):
                other = kind.needs[name]
                fact = f"--augmentation {name}={value:g} has no effect while {other} is 0"
                raise ConfigError(fact, f"add --augmentation {other}=…, or leave it out")
        return made

    # ---- for the loop -------------------------------------------------------------------------------------------

    def resolved(self, objective: Objective | None = None, *, warmup: int | None = None) -> TrainArgs:
        """Return the arguments with every default filled in; `warmup` is that of a resumed run."""
        steps = self.steps
        epochs = self.epochs if self.epochs is not None else getattr(objective, "default_epochs", None)
        if steps is None and epochs is not None:
            batches = 1 if objective is None else len(objective.epoch(0))
            steps = max(1, math.ceil(epochs * batches / self.grad_accum))
        steps = steps or DEFAULT_STEPS
        usual = derived(steps)
        if warmup is None or warmup >= steps:
            warmup = usual["warmup"] if self.warmup is None else self.warmup
        if self.schedule in ("cosine", "wsd") and warmup >= steps:
            raise ConfigError(f"--warmup {warmup} leaves no steps of {steps}", "choose a shorter warm-up")
        lr = getattr(objective, "default_lr", 1e-3) if self.lr is None else self.lr
        return replace(
            self,
            steps=steps,
            epochs=None,
            lr=lr,
            warmup=warmup,
            eval_every=usual["eval_every"] if self.eval_every is None else self.eval_every,
            save_every=usual["save_every"] if self.save_every is None else self.save_every,
        )

    @property
    def peak_lr(self) -> float:
        """The peak learning rate of resolved arguments; 0 until the range test has run."""
        return self.lr if isinstance(self.lr, int | float) else 0.0

    @property
    def total_steps(self) -> int:
        return self.steps or DEFAULT_STEPS

    def evaluates(self, step: int) -> bool:
        return step == self.total_steps or bool(self.eval_every and step % self.eval_every == 0)

    def saves(self, step: int) -> bool:
        return step == self.total_steps or bool(self.save_every and step % self.save_every == 0)

    # ---- files --------------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON and YAML; `from_` is called `from`."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain |= {"betas": list(self.betas), "augmentation": dict(self.augmentation)}
        for name in ("data", "val"):  # Python objects are represented by the name of their type
            if plain[name] is not None and not isinstance(plain[name], str):
                plain[name] = f"a {type(plain[name]).__name__}{FROM_PYTHON}"
        return {name.rstrip("_"): value for name, value in plain.items()}

    def to_yaml(self) -> str:
        """Return the arguments that differ from their defaults as YAML that `--config` reads."""
        import yaml

        own = self.as_dict()
        kept = {name: own[name] for name, value in DEFAULTS_PLAIN.items() if own[name] != value}
        return str(yaml.safe_dump(kept, sort_keys=False, allow_unicode=True))

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], where: str = "") -> TrainArgs:
        """Create arguments from options by name (`batch_size` or `batch-size`); suggests a name for an unknown one.

        `where` names the file that they were read from, if any.
        """
        values: dict[str, Any] = {}
        for name, value in given.items():
            key = str(name).replace("-", "_")
            key = "from_" if key == "from" else key
            if key not in DEFAULTS:
                raise ConfigError(f"{where}{': ' if where else ''}there is no option {name!r}", _suggestion(key))
            values[key] = _converted(key, value, where)
        return cls(**values)

    @classmethod
    def read(cls, path: str | Path) -> dict[str, Any]:
        """Read the options in a YAML file, for `from_dict`."""
        import yaml

        try:
            found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror})", "give a YAML file to --config") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:100]
            raise InputError(f"{path} is not YAML ({reason})", "write one `option: value` per line") from None
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise InputError(f"{path} contains a {type(found).__name__}", "write one `option: value` per line")
        return found


DEFAULTS: dict[str, Any] = {one.name: {} if one.name == "augmentation" else one.default for one in fields(TrainArgs)}
DEFAULTS_PLAIN = TrainArgs().as_dict()
# Names of these options in other libraries.
ELSEWHERE = {
    "learning_rate": "lr", "rate": "lr", "num_epochs": "epochs", "num_train_epochs": "epochs", "max_steps": "steps",
    "decay": "weight_decay", "wd": "weight_decay", "batch": "batch_size", "bs": "batch_size", "clip": "grad_clip",
    "max_grad_norm": "grad_clip", "gradient_accumulation_steps": "grad_accum", "accumulate": "grad_accum",
    "smoothing": "label_smoothing", "warmup_steps": "warmup", "workers": "num_workers", "rank": "lora_rank",
    "logger": "report_to", "max_seq_length": "max_length", "torch_compile": "compile",
    "model": "from", "kind": "arch", "lr_scheduler_type": "schedule", "eval_steps": "eval_every",
    "save_steps": "save_every", "logging_steps": "log_every", "image": "image_size", "average": "ema",
}  # fmt: skip


@cache
def help_texts() -> dict[str, str]:
    """The docstring of every field of `TrainArgs`."""
    (cls,) = ast.parse(inspect.getsource(TrainArgs)).body
    assert isinstance(cls, ast.ClassDef)
    texts = {}
    for one, after in zip(cls.body, cls.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            assert isinstance(after, ast.Expr)
            assert isinstance(after.value, ast.Constant), f"{one.target.id} has no docstring"
            texts[one.target.id] = " ".join(str(after.value.value).split())
    return texts


def derived(steps: int) -> dict[str, int]:
    """The defaults of a run that depend on its length."""
    return {"warmup": min(steps // 20, 500), "eval_every": max(1, steps // 10), "save_every": max(20, steps // 50)}


@dataclass(frozen=True)
class ChangedValue:
    """A value that differs between two nested dictionaries, named by its path, such as `data.count`."""

    name: str
    old: Any
    new: Any


def difference(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> ChangedValue | None:
    """Return the first value that differs between two nested dictionaries, or None."""
    for name in [*old, *(name for name in new if name not in old)]:
        here = f"{path}{name}"
        if name in old and name in new and old[name] == new[name]:
            continue
        if isinstance(old.get(name), dict) and isinstance(new.get(name), dict):
            if (inner := difference(old[name], new[name], f"{here}.")) is not None:
                return inner
            continue
        return ChangedValue(here, old.get(name, "absent"), new.get(name, "absent"))
    return None


def fixed(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments (of `as_dict`) that must not change when a run is resumed."""
    return {name: value for name, value in args.items() if name not in FREE and f"{name}_" not in FREE}


def _suggestion(key: str) -> str:
    known = [name.rstrip("_") for name in DEFAULTS]
    return f"did you mean {ELSEWHERE[key]}?" if key in ELSEWHERE else _closest(key, known)


def _closest(value: str, known: Sequence[str]) -> str:
    """Suggest the known name that is most similar, or list all of them."""
    close = get_close_matches(value, known, 1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else f"choose {', '.join(known)}"


def _converted(key: str, value: Any, where: str) -> Any:
    """Convert a YAML value to the type of its field: YAML reads 1e-3 as text. Raise an error if it does not fit."""
    kind = str(TrainArgs.__annotations__[key])
    if value is None:
        return None
    if key in ("data", "val"):
        return str(value) if isinstance(value, str | Path) else value
    if key == "lr" and value != AUTO:
        kind = "float"
    if key == "columns" and isinstance(value, Mapping):
        return ",".join(f"{role}={name}" for role, name in value.items())
    if key == "betas":
        return tuple(float(one) for one in value) if isinstance(value, list | tuple) else value
    if key == "augmentation":
        if not isinstance(value, Mapping):
            fact = f"{where}{': ' if where else ''}--augmentation is {value!r}"
            raise ConfigError(fact, "give names and strengths, such as {mixup: 0.2}")
        return {str(name): float(strength) for name, strength in value.items()}
    try:
        if kind.startswith("bool"):
            if not isinstance(value, bool):
                raise ValueError
            return value
        if kind.startswith("int"):
            if isinstance(value, bool) or int(value) != float(value):
                raise ValueError
            return int(value)
        if kind.startswith("float"):
            return float(value)
        return str(value)
    except (TypeError, ValueError):
        remedy = LR if key == "lr" else f"choose {_ARTICLES[kind.split()[0]]}"
        raise ConfigError(f"{where}{': ' if where else ''}{flag(key)} is {value!r}", remedy) from None


_ARTICLES = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text"}
