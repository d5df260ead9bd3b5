"""The arguments of a run: defaults, validation, YAML, and what they mean to a task."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from glassformer.data.augment_audio import AudioAugmentation
from glassformer.errors import ConfigError, InputError
from glassformer.train.args import ChangedValue, TrainArgs, difference, fixed, help_texts
from glassformer.train.objectives.image_classification import ImageAugmentation

ARGS = TrainArgs(steps=100, lr=1e-3, warmup=10, eval_every=25, save_every=50)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("lr", 0.0, "--lr is 0.0: choose a positive number"),
        ("lr", float("nan"), "--lr is nan"),
        ("schedule", "linear", "--schedule 'linear' is unknown: choose cosine, wsd, inverse_sqrt, constant"),
        ("precision", "int8", "--precision int8 has no gradients to train with: choose fp32, bf16, auto"),
        ("warmup", -1, "--warmup is -1: choose 0 or more"),
        ("weight_decay", -0.1, "--weight-decay is -0.1"),
        ("betas", (0.9, 1.0), "--betas is (0.9, 1.0): choose two numbers in [0, 1)"),
        ("betas", 0.9, "--betas is 0.9: choose two numbers in [0, 1)"),
        ("grad_clip", -1.0, "--grad-clip is -1.0"),
        ("min_lr_ratio", 1.5, "--min-lr-ratio is 1.5"),
        ("steps", 0, "--steps is 0: choose at least 1"),
        ("grad_accum", 0, "--grad-accum is 0"),
        ("patience", 0, "--patience is 0"),
        ("log_every", 0, "--log-every is 0"),
        ("num_workers", -1, "--num-workers is -1"),
        ("ema", 1.0, "--ema is 1.0: choose a decay in [0, 1)"),
        ("precision", "fp16", "--precision 'fp16' is unknown: did you mean bf16?"),
        ("device", "tpu", "--device 'tpu' is unknown: choose auto, cpu, cuda, mps"),
        ("keep", "all", "--keep 'all' is unknown: choose best, last"),
        ("label_smoothing", 1.0, "--label-smoothing is 1.0"),
        ("width", 0, "--width is 0"),
        ("task", "sing", "the task 'sing' is unknown: choose classify"),
        ("epochs", 2.0, "both --steps 100 and --epochs 2 are given: choose one of them"),
        ("lora_rank", 4, "--lora-rank 4 has no model to adapt: --lora-rank needs --from MODEL"),
    ],
)
def test_invalid_values_name_the_option(refused: Any, field: str, value: Any, said: str) -> None:
    refused(ConfigError, said, lambda: replace(ARGS, **{field: value}))


def test_options_that_contradict_each_other(refused: Any) -> None:
    refused(
        ConfigError,
        "--width 64 cannot change the model digits: leave out --width, or leave out --from",
        lambda: TrainArgs(from_="digits", width=64),
    )
    said = "--augmentation crop=… together with --no-augment"
    refused(ConfigError, said, lambda: TrainArgs(augment=False, augmentation={"crop": 1.0}))
    refused(ConfigError, "--warmup 10 leaves no steps of 10", lambda: replace(ARGS, steps=10).resolved())


def test_defaults_depend_on_the_length_of_the_run() -> None:
    resolved = TrainArgs().resolved()
    assert (resolved.steps, resolved.lr, resolved.warmup) == (2000, 1e-3, 100)
    assert (resolved.eval_every, resolved.save_every) == (200, 40)
    assert TrainArgs(steps=100_000).resolved().warmup == 500

    class Ten:
        default_lr = 2e-4

        def epoch(self, number: int) -> list[list[int]]:
            return [[0]] * 10

    resolved = TrainArgs(epochs=2.5, grad_accum=2).resolved(Ten())  # type: ignore[arg-type]
    assert (resolved.steps, resolved.lr) == (13, 2e-4)


def test_when_to_evaluate_and_save() -> None:
    assert [step for step in range(1, 101) if ARGS.evaluates(step)] == [25, 50, 75, 100]
    assert [step for step in range(1, 101) if ARGS.saves(step)] == [50, 100]
    at_the_end = replace(ARGS, eval_every=0, save_every=0)
    assert [step for step in range(1, 101) if at_the_end.evaluates(step) or at_the_end.saves(step)] == [100]


def test_every_field_has_a_help_text_of_whole_sentences() -> None:
    texts = help_texts()
    assert list(texts) == [one.name for one in fields(TrainArgs)]
    for text in texts.values():
        assert text[0].isupper() or text.startswith(("fp32",))
        assert text.endswith(".")


def test_yaml_holds_what_is_not_a_default(tmp_path: Path, refused: Any) -> None:
    args = TrainArgs(task="classify", data="photos", from_="objects", lr=3e-4, augmentation={"mixup": 0.2})
    (tmp_path / "train.yaml").write_text(args.to_yaml())
    assert yaml.safe_load(args.to_yaml()) == {
        "task": "classify", "data": "photos", "from": "objects", "augmentation": {"mixup": 0.2}, "lr": 0.0003,
    }  # fmt: skip
    assert TrainArgs.from_dict(TrainArgs.read(tmp_path / "train.yaml")) == args
    (tmp_path / "own.yaml").write_text("lr: 1e-3\nbatch-size: 8\nbetas: [0.9, 0.98]\nema: null\n")
    own = TrainArgs.from_dict(TrainArgs.read(tmp_path / "own.yaml"))
    assert (own.lr, own.batch_size, own.betas, own.ema) == (1e-3, 8, (0.9, 0.98), None)
    read = lambda text: (
        (tmp_path / "bad.yaml").write_text(text)
        and TrainArgs.from_dict(TrainArgs.read(tmp_path / "bad.yaml"), "bad.yaml")
    )
    refused(
        ConfigError, "bad.yaml: there is no option 'learning_rate': did you mean lr?", lambda: read("learning_rate: 1")
    )
    refused(ConfigError, "bad.yaml: there is no option 'epoch': did you mean epochs?", lambda: read("epoch: 3"))
    refused(ConfigError, "bad.yaml: --steps is 'many': choose a whole number", lambda: read("steps: many"))
    refused(ConfigError, "bad.yaml: --steps is 1.5: choose a whole number", lambda: read("steps: 1.5"))
    refused(ConfigError, "bad.yaml: --augment is 'sometimes': choose true or false", lambda: read("augment: sometimes"))
    refused(InputError, f"{tmp_path / 'bad.yaml'} is not YAML (", lambda: read("a: [1"))
    refused(InputError, f"{tmp_path / 'bad.yaml'} contains a list", lambda: read("- 1"))
    refused(InputError, f"{tmp_path / 'no.yaml'} cannot be read (", lambda: TrainArgs.read(tmp_path / "no.yaml"))


def test_the_architecture_and_options_of_other_tasks(refused: Callable[..., None]) -> None:
    args = TrainArgs(arch="mlp", image_size=8)
    assert TrainArgs().one_of("vit", "cnn") == "vit"
    refused(
        ConfigError, "--arch mlp is not available for this task: choose vit, cnn", lambda: args.one_of("vit", "cnn")
    )
    said = "--image-size has no effect on text: leave out --image-size"
    refused(ConfigError, said, lambda: args.reject("text", "image_size", "augment"))


def test_strengths_of_augmentations(refused: Callable[..., None]) -> None:
    made = lambda **more: TrainArgs(augmentation=more).augmented(ImageAugmentation, crop=1)
    assert made() == ImageAugmentation(crop=1)
    assert made(mixup=0.2, crop=0, rand=0.3) == ImageAugmentation(mixup=0.2, rand=0.3)
    assert made(rand_count=2, rand=0.3) == ImageAugmentation(crop=1, rand=0.3, rand_count=2)
    assert TrainArgs(augment=False).augmented(ImageAugmentation) is None
    refused(ConfigError, "--augmentation zoom is unknown: choose crop,", lambda: made(zoom=1.0))
    refused(ConfigError, "--augmentation crop=1.5 is fractional: choose a whole number", lambda: made(crop=1.5))
    refused(ConfigError, "--augmentation rand=-1 is negative", lambda: made(rand=-1.0))
    refused(ConfigError, "--augmentation flip=2 is out of range: choose 0 (no) or 1", lambda: made(flip=2.0))
    said = "--augmentation rand_count=3 has no effect while rand is 0: add --augmentation rand=…, or leave it out"
    refused(ConfigError, said, lambda: made(rand_count=3.0))
    refused(ConfigError, said, lambda: made(rand=0.0, rand_count=3.0))
    refused(ConfigError, "--augmentation rand=0.3 has no effect while", lambda: made(rand=0.3, rand_count=0.0))
    quiet = TrainArgs(augmentation={"bands": 0.0, "width": 4.0})
    fact = "--augmentation width=4 has no effect while bands is 0"
    refused(ConfigError, fact, lambda: quiet.augmented(AudioAugmentation))


def test_a_difference_is_named_with_both_values() -> None:
    kept = json.loads(json.dumps(ARGS.as_dict()))
    assert difference(kept, ARGS.as_dict()) is None
    assert difference(kept, replace(ARGS, lr=0.1).as_dict()) == ChangedValue("lr", 0.001, 0.1)
    assert difference({"a": {"b": 1}}, {"a": {"b": 2}}) == ChangedValue("a.b", 1, 2)
    assert difference({"a": 1}, {"a": 1, "b": 2}) == ChangedValue("b", "absent", 2)
    assert difference({"a": 1, "b": 2}, {"a": 1}) == ChangedValue("b", 2, "absent")


def test_what_may_change_when_a_run_is_resumed() -> None:
    other = replace(ARGS, num_workers=4, steps=300, eval_every=7, data="moved", from_="writer", device="cpu")
    assert fixed(ARGS.as_dict()) == fixed(other.as_dict())
    assert fixed(ARGS.as_dict()) != fixed(replace(ARGS, precision="bf16").as_dict())
