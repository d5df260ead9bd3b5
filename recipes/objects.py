"""objects: convolutions and attention that classify small photographs.

glassformer data fetch cifar10 mnist fashion-mnist
OMP_NUM_THREADS=2 python recipes/objects.py [--out FOLDER] [--resume] [--describe]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pictures import (
    Learner,
    ablations,
    calibrate,
    confused,
    detection,
    expected_calibration_error,
    noise,
    opened,
    percent,
    predicted,
    samples,
    some,
    teach,
    write,
)
from shared import FOLDER, SEED
from torch import nn

from glassformer.checkpoints import load
from glassformer.data import order
from glassformer.data.images import Images
from glassformer.data.sources import open_data
from glassformer.models import Hybrid, HybridConfig, StemConfig
from glassformer.models.convolutional import BatchNorm
from glassformer.models.hybrid import compact
from glassformer.train import TrainArgs
from glassformer.train.objectives.image_classification import ImageAugmentation, ImageClassification, save_images
from glassformer.train.objectives.image_models import Shape, initialise_small

STEPS, BATCH = 13_000, 128
CALIBRATED, ABLATED = 2000, 2000  # test images for the calibration and for the ablation
STEM = StemConfig(
    widths=(32, 64, 64, 256, 256, 256, 256),
    halves=(False, True, False, True, False, True, False),
    norm=BatchNorm(),
    residual=True,
)
DEPTH, HEADS = 2, 4
CARD = """# objects

Classifies small photographs into ten classes ({labels}): a compact convolutional Transformer (Hassani et al. 2021) with
{parameters} parameters. Seven 3 × 3 convolutions, three of them residual, turn 32 × 32 pixels into 16 tokens of width
256; two Transformer layers of 4 heads and attention pooling follow.

## Evaluation
**{accuracy}** of CIFAR-10's {images} test images are classified correctly (weights as shipped, float16;
`glassformer evaluate -m objects cifar10`). Most frequent confusions: {confused}.

**What attention contributes.** Accuracy on {ablated} test images with attention weights replaced by their mean, so that
every token has the same weight:

{ablation}

Attention matters little in this model: the convolutions do most of the work. The model is an example of a hybrid
architecture, not evidence for the benefit of attention. `recipes/objects_search.py` searches for an architecture in
which attention matters more.

**Probabilities** are calibrated by a temperature of {temperature}: the expected calibration error is {ece}
({ece_before} without).

**Out-of-distribution images** are flagged if the Mahalanobis distance of the head's input exceeds that of 95 % of the
calibration images. False alarms: {false_alarms}. Detection:

{outside}

About a third of such images are not detected and get a confident label. This distance was chosen among six scores
(largest probability, largest logit, energy, Mahalanobis distance of logits and of features, nearest neighbours) by how
many of these images they detect, so the rates are somewhat optimistic. All training images were used for training, so
{calibrated} of the test images, spread over the classes, serve to fit temperature and threshold; calibration error and
false alarms are those of the other test images.

## Training data
CIFAR-10: Alex Krizhevsky, Vinod Nair, Geoffrey Hinton; published for research without an explicit licence. 50,000
training and 10,000 test images as published (`glassformer data fetch cifar10`). No image is part of this package.

## Training
`python recipes/objects.py`: {steps} steps of 128 images, AdamW, cosine schedule, weight decay 0.3, label smoothing 0.1,
random crops, horizontal flips and erased rectangles, {precision} matrix products, exponential moving average of the
weights, seed {seed}. {minutes} minutes of processor time on {machine}.

Stem and weight decay were chosen on 5,000 held-out training images in runs of up to 750 steps; the number of steps was
fixed beforehand and the last weights are kept. The test images were not used for any of these choices.

## Limitations
Images are scaled to 32 × 32 pixels, so small objects are lost. The model knows ten classes, one object per image.
"""


def config(shape: Shape, classes: int) -> HybridConfig:
    made = compact(shape[1], STEM.widths, DEPTH, HEADS, classes=classes, channels=shape[0])
    return replace(made, stem=STEM)


def hybrid(made: HybridConfig) -> nn.Module:
    model = Hybrid(made, seed=SEED)
    initialise_small(model, SEED)
    return model


def objective_of(train: Images, val: Images) -> ImageClassification:
    return ImageClassification(
        train=train,
        val=val,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        augment=ImageAugmentation(crop=4, flip=True, erase=0.5),
        label_smoothing=0.1,
        batch_size=BATCH,
        seed=SEED,
    )


def plan(steps: int) -> TrainArgs:
    return TrainArgs(
        steps=steps,
        lr=2e-3,
        warmup=min(300, steps // 4),
        weight_decay=0.3,
        ema=0.998 if steps > 1000 else 0.99,
        precision="auto",
        eval_every=1000,
        save_every=250,
        seed=SEED,
        keep="last",
    )


def objects(out: Path, runs: Path, resume: bool) -> None:
    data = open_data("cifar10")
    train = Images.open(data / "train", channels=3)
    test = Images.open(data / "test", channels=3, labels=train.labels)
    objective = objective_of(train, test)  # the test images are evaluated and choose nothing: the last weights are kept
    made = config(train.shape, len(train.labels))
    learner = Learner(
        name="objects",
        build=lambda: hybrid(made),
        objective=objective,
        plan=plan(STEPS),
        preprocess=objective.preprocess,
    )
    trained = teach(learner, runs / "objects", resume)
    save_images(load(runs / "objects" / "model"), out, train.labels, objective.preprocess, half=True)
    described(out, train, test, trained)


def described(out: Path, train: Images, test: Images, trained: dict[str, Any]) -> None:
    """Calibrate and measure the model in `out`, and write its card."""
    model = load(out)
    rows = order.spread(len(test), CALIBRATED)
    calibration, fitted = calibrate(model, train, test, rows)
    calibration.save(out)
    pictures, y = opened(test, range(len(test)))
    logits, features = predicted(model, pictures)
    answers = logits.argmax(-1)
    others = [i for i in range(len(test)) if i not in set(rows)]
    chosen = order.spread(len(test), ABLATED)
    ablation = ablations(model, [pictures[i] for i in chosen], y[chosen])
    outside = {
        "MNIST": some(open_data("mnist") / "test"),
        "Fashion-MNIST": some(open_data("fashion-mnist") / "test"),
        "sample pictures of scikit-image": samples(),
        "random noise": noise(),
    }
    measured = {
        "model": "objects",
        "seed": SEED,
        "machine": trained["machine"],
        "kind": type(model).__name__,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "held_out": {
            "images": len(test),
            "accuracy": float((answers == y).float().mean()),
            "false_alarms": round(
                float((calibration.distance(features[others]) > calibration.threshold).float().mean()), 4
            ),
            "calibration_error_before": expected_calibration_error(logits[others], y[others]),
            "calibration_error": expected_calibration_error(logits[others] / calibration.temperature, y[others]),
        },
        "uniform_attention": {"images": len(chosen), **ablation},
        "calibration": fitted,
        "outside": detection(model, calibration, outside),
        "confused": confused(y, answers, test.labels),
        "trained": trained,
    }
    lines = "\n".join(f"| {name} | {percent(share)} |" for name, share in ablation.items())
    fields = {
        "labels": ", ".join(test.labels),
        "ablated": f"{len(chosen):,}",
        "ablation": f"| uniform attention in | correct |\n|---|---|\n{lines}",
        "calibrated": f"{len(rows):,}",
    }
    write(out, measured, CARD, fields)


def describe(out: Path) -> None:
    """Measure the model that is in `out` already; how it was trained is read from its measured.json."""
    data = open_data("cifar10")
    train = Images.open(data / "train", channels=3)
    test = Images.open(data / "test", channels=3, labels=train.labels)
    before = json.loads((out / "measured.json").read_text(encoding="utf-8"))
    described(out, train, test, {"machine": before["machine"]} | before["trained"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, default=FOLDER / "objects", help="Folder of the model.")
    parser.add_argument("--runs", type=Path, default=Path("runs/objects"), help="Folder of the training run.")
    parser.add_argument("--resume", action="store_true", help="Continue the training run.")
    parser.add_argument("--describe", action="store_true", help="Only measure the model in --out and write its card.")
    given = parser.parse_args()
    if given.describe:
        describe(given.out)
    else:
        objects(given.out, given.runs, given.resume)
