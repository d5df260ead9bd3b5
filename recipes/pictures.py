"""Shared by the recipes of image classifiers: train, calibrate, measure, and write the card."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from shared import SEED, learn, machine
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer import lens
from glassformer.checkpoints import Preprocess, open_image, origin_of, read_preprocess
from glassformer.data import order
from glassformer.data.images import Images
from glassformer.data.packages import Package, cache, download, extract
from glassformer.models.protocols import require
from glassformer.pipelines.calibration import Calibration, fit_calibration, head_inputs
from glassformer.runtime import card as circumstances
from glassformer.train import TrainArgs
from glassformer.train.device import autocast_of
from glassformer.train.objectives.image_classification import ImageClassification, save_images

FIXED = "all layers, mean over the images"
FEATURES = 4000  # training images whose features the calibration is fitted to
SAMPLES = Package(
    registry="pip",
    name="scikit-image",
    version="0.26.0",
    sha256="74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
    megabytes=13.0,
)
SAMPLE_NAMES = (
    "astronaut.png", "brick.png", "camera.png", "cell.png", "chessboard_RGB.png", "clock_motion.png", "coffee.png",
    "coins.png", "color.png", "grass.png", "gravel.png", "hubble_deep_field.jpg", "ihc.png", "logo.png",
    "microaneurysms.png", "moon.png", "motorcycle_left.png", "page.png", "phantom.png", "retina.jpg", "rocket.jpg",
    "text.png",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Learner:
    """An image classifier to train."""

    name: str
    build: Callable[[], nn.Module]
    objective: ImageClassification
    plan: TrainArgs
    preprocess: Preprocess


def teach(learner: Learner, folder: Path, resume: bool) -> dict[str, Any]:
    """Train a model, or resume its run, and save it beside the run. Returns how it was trained."""
    done = folder / "trained.json"
    if resume and done.is_file():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    objective, plan = learner.objective, learner.plan
    trained, seconds = learn(learner.name, learner.build(), objective, plan, folder, resume)
    save_images(trained.model.eval(), folder / "model", objective.labels, learner.preprocess, half=True)
    cast = autocast_of(plan.precision, torch.device("cpu"))
    told = {
        "machine": circumstances(),
        "steps": plan.steps,
        "batch": objective.batch_size,
        "images_seen": (plan.steps or 0) * objective.batch_size,
        "precision": "float32" if cast is None else "bfloat16",
        "validation": trained.metrics,
        **seconds,
    }
    done.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return told


# ---- measurement -----------------------------------------------------------------------------------------------------


@torch.inference_mode()
def predicted(model: nn.Module, images: Sequence[Image.Image]) -> tuple[Tensor, Tensor]:
    """Return logits and the inputs of the head, with the preprocessing of `classify`."""
    origin = origin_of(model)
    assert origin is not None
    prepare, classifier = read_preprocess(origin), require(model, "classify")
    with head_inputs(model) as features:
        batches = [torch.stack([prepare(one) for one in images[i : i + 64]]) for i in range(0, len(images), 64)]
        logits = torch.cat([classifier.class_logits(batch.to(next(model.parameters()))) for batch in batches])
    return logits.float(), torch.cat(features).float()


def opened(images: Images, rows: Sequence[int]) -> tuple[list[Image.Image], Tensor]:
    files = [open_image(images.root / images.files[i]) for i in rows]
    return files, torch.tensor([images.label(i) for i in rows])


def calibrate(model: nn.Module, train: Images, val: Images, rows: Sequence[int]) -> tuple[Calibration, dict[str, Any]]:
    """Fit the calibration; also return the cross-entropy of the validation images before and after."""
    pictures, y = opened(train, order.spread(len(train), FEATURES))
    _, features = predicted(model, pictures)
    seen, val_y = opened(val, rows)
    logits, val_features = predicted(model, seen)
    made = fit_calibration(features, y, val_features, logits, val_y)
    return made, {
        "images": len(rows),
        "temperature": made.temperature,
        "threshold": made.threshold,
        "cross_entropy_before": float(cross_entropy(logits, val_y)),
        "cross_entropy_after": float(cross_entropy(logits / made.temperature, val_y)),
    }


def expected_calibration_error(logits: Tensor, y: Tensor, bins: int = 15) -> float:
    """Σ (share of a bin) · |accuracy − mean confidence|, over bins of confidence (Guo et al. 2017)."""
    p, best = logits.softmax(-1).max(-1)
    place = (p * bins).long().clamp(max=bins - 1)
    error = 0.0
    for i in range(bins):
        there = place == i
        if there.any():
            right = (best[there] == y[there]).float().mean()
            error += float(there.float().mean() * (right - p[there].mean()).abs())
    return error


def detection(model: nn.Module, made: Calibration, outside: Mapping[str, Sequence[Image.Image]]) -> dict[str, Any]:
    """Return the share of each collection that is found to be out of distribution."""
    found = {}
    for name, pictures in outside.items():
        _, features = predicted(model, pictures)
        far = float((made.distance(features) > made.threshold).float().mean())
        found[name] = {"images": len(pictures), "detected": round(far, 4)}
    return found


def confused(y: Tensor, answers: Tensor, labels: Sequence[str], most: int = 3) -> list[list[Any]]:
    """Return the pairs of classes that are confused most often, in either direction, and how often."""
    n = len(labels)
    C = torch.bincount(y * n + answers, minlength=n * n).reshape(n, n)
    both = (C + C.T).triu(1).flatten()
    order_ = both.argsort(descending=True)[:most].tolist()
    return [[labels[i // n], labels[i % n], int(both[i])] for i in order_]


def ablations(model: nn.Module, pictures: Sequence[Image.Image], y: Tensor) -> dict[str, float]:
    """Accuracy with attention replaced by its mean over the keys, layer by layer and everywhere.

    `FIXED`: with the mean over the pictures instead, which leaves what a position attends to in every picture.
    """
    paths = list(lens.attention_layers(model))
    means: dict[str, Tensor] = {}

    def summed(path: str, A: Tensor) -> Tensor:
        means[path] = means.get(path, 0) + A.sum(0) / len(pictures)
        return A

    uniform = lambda A: torch.full_like(A, 1 / A.shape[-1])
    cases: dict[str, dict[str, Callable[[Tensor], Tensor]]] = {
        "unchanged": {path: partial(summed, path) for path in paths},
        **{path: {path: uniform} for path in paths},
        "all layers": dict.fromkeys(paths, uniform),
        FIXED: {path: lambda A, path=path: means[path].expand_as(A) for path in paths},
    }
    found = {}
    for name, edits in cases.items():
        with ExitStack() as stack:
            for path, edit in edits.items():
                stack.enter_context(lens.edit(model, f"{path}.A", edit))
            logits, _ = predicted(model, pictures)
        found[name] = round(float((logits.argmax(-1) == y).float().mean()), 4)
    return found


# ---- pictures outside the classes ------------------------------------------------------------------------------------


def samples() -> list[Image.Image]:
    """Sample pictures of scikit-image: objects, textures, text and microscopy; no animal and no vehicle of CIFAR-10."""
    folder = cache() / "scikit-image-samples"
    if not folder.is_dir():
        extract(download(SAMPLES, cache() / "downloads"), {f"skimage/data/{n}": n for n in SAMPLE_NAMES}, folder)
    return [open_image(folder / name).convert("RGB") for name in SAMPLE_NAMES]


def noise(count: int = 100) -> list[Image.Image]:
    random = np.random.default_rng(SEED)
    return [Image.fromarray(random.integers(0, 256, (32, 32, 3), dtype=np.uint8)) for _ in range(count)]


def drawings(side: int = 128) -> list[Image.Image]:
    """Simple drawings and patterns: a coin, houses, a face, a star, a tree, a cup, letters, boards, blank pages."""
    random = np.random.default_rng(SEED)
    made: list[Image.Image] = []

    def page(colour: str = "white") -> ImageDraw.ImageDraw:
        made.append(Image.new("RGB", (side, side), colour))
        return ImageDraw.Draw(made[-1])

    def points(*places: float) -> list[float]:
        return [place * side for place in places]

    for colour in ("white", "black", "grey", "red", "skyblue"):
        page(colour)
    for back, fill in (("saddlebrown", "goldenrod"), ("white", "lightgrey")):
        pen = page(back)
        pen.ellipse(points(0.15, 0.15, 0.85, 0.85), fill=fill, outline="black", width=3)
        pen.ellipse(points(0.25, 0.25, 0.75, 0.75), outline="black", width=2)
    for back, wall, roof in (("skyblue", "indianred", "maroon"), ("white", None, None)):
        pen = page(back)
        pen.rectangle(points(0.25, 0.5, 0.75, 0.85), fill=wall, outline="black", width=2)
        pen.polygon(points(0.2, 0.5, 0.5, 0.2, 0.8, 0.5), fill=roof, outline="black")
        pen.rectangle(points(0.45, 0.65, 0.55, 0.85), fill=roof, outline="black")
    pen = page()
    pen.ellipse(points(0.2, 0.2, 0.8, 0.8), fill="yellow", outline="black")
    for x in (0.4, 0.6):
        pen.ellipse(points(x - 0.04, 0.38, x + 0.04, 0.48), fill="black")
    pen.arc(points(0.35, 0.4, 0.65, 0.68), 20, 160, fill="black", width=3)
    spikes = [(0.4 if k % 2 else 0.16, 0.2 * math.pi * k) for k in range(10)]
    page("midnightblue").polygon(
        points(*(0.5 + r * f(a) for r, a in spikes for f in (math.sin, math.cos))), fill="gold"
    )
    pen = page("lightblue")
    pen.rectangle(points(0.45, 0.6, 0.55, 0.95), fill="saddlebrown")
    pen.ellipse(points(0.2, 0.1, 0.8, 0.65), fill="forestgreen")
    pen = page()
    pen.rectangle(points(0.25, 0.3, 0.65, 0.8), outline="black", width=3)
    pen.arc(points(0.55, 0.4, 0.8, 0.7), -90, 90, fill="black", width=3)
    for text, size in (("A", 0.9), ("R", 0.9), ("hello", 0.3)):
        page().text((0.15 * side, 0.05 * side), text, fill="black", font=ImageFont.load_default(size * side))
    for step in (8, 16):
        board = np.add(*np.indices((side, side)) // step)
        made.append(Image.fromarray((board % 2 * 255).astype(np.uint8)).convert("RGB"))
    made.append(Image.linear_gradient("L").resize((side, side)).convert("RGB"))
    made.append(Image.fromarray(random.integers(0, 256, (28, 28), dtype=np.uint8)).convert("RGB"))
    return made


def some(folder: Path, count: int = 500) -> list[Image.Image]:
    images = Images.open(folder)
    return opened(images, order.spread(len(images), count))[0]


# ---- the card --------------------------------------------------------------------------------------------------------


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def write(out: Path, measured: dict[str, Any], card: str, fields: Mapping[str, str]) -> None:
    """Write measured.json and card.md."""
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    held, made = measured["held_out"], measured["trained"]
    outside = "\n".join(
        f"| {name} | {one['images']} | {percent(one['detected'])} |" for name, one in measured["outside"].items()
    )
    (out / "card.md").write_text(
        card.format(
            accuracy=percent(held["accuracy"], 2),
            images=f"{held['images']:,}",
            parameters=f"{measured['parameters']:,}",
            machine=machine(measured),
            precision=made["precision"],
            minutes=f"{made['processor_seconds'] / 60:.0f}",
            seed=measured["seed"],
            confused=", ".join(f"{one} and {other} ({n})" for one, other, n in measured["confused"]),
            steps=f"{made['steps']:,}",
            temperature=measured["calibration"]["temperature"],
            ece_before=percent(held["calibration_error_before"], 2),
            ece=percent(held["calibration_error"], 2),
            false_alarms=percent(held["false_alarms"]),
            outside=f"| images | count | detected |\n|---|---|---|\n{outside}",
            **fields,
        ),
        encoding="utf-8",
    )
    print(f"{measured['model']}: {percent(held['accuracy'], 2)} in {out}", flush=True)
