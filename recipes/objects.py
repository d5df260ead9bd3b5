"""objects: convolutions and attention that classify small photographs.

A model with seven convolutions is trained first. Attention then takes the place of its last three: each begins as the
convolution that it replaces and is trained further (d'Ascoli et al., "Transformed CNNs", 2021). The model is the mean
of the weights before and after that (Wortsman et al., "Robust fine-tuning of zero-shot models", 2022).

glassformer data fetch cifar10 mnist fashion-mnist
OMP_NUM_THREADS=2 python recipes/objects.py [--out FOLDER] [--resume] [--describe | --compare FOLDER]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from pictures import (
    FIXED,
    Learner,
    ablations,
    calibrate,
    confused,
    detection,
    drawings,
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
from torch import Tensor, nn

from glassformer.checkpoints import load_folder
from glassformer.data import order
from glassformer.data.images import Images
from glassformer.data.sources import open_data
from glassformer.models import Hybrid, HybridConfig, StemConfig
from glassformer.models.convolutional import BatchNorm
from glassformer.models.hybrid import KERNEL, REACH, Attend, Convolve, compact
from glassformer.train import Batch, TrainArgs
from glassformer.train.objectives.image_classification import ImageAugmentation, ImageClassification, save_images
from glassformer.train.objectives.image_models import Shape, initialise_small

STEPS, BATCH = 13_000, 128
RECAST_STEPS, RECAST_LR = 640, 2.5e-4
CALIBRATED, ABLATED = 2000, 1000  # test images for the calibration and for the ablation
STEM = StemConfig(
    widths=(32, 64, 64, 256, 256, 256, 256),
    halves=(False, True, False, True, False, True, False),
    norm=BatchNorm(),
    residual=True,
)
DEPTH, HEADS = 2, 4
ATTENDING = 3  # convolutions at 8 × 8 and 4 × 4 cells, whose place attention takes
KEPT_DEPTH = 1  # of the two Transformer layers; the attention of the second changed no answer
SHARP = 8.0  # score of a head's own offset: 97 % of its weight among 100 cells
NORM_BATCHES = 60  # of training images, from which the batch norms of the averaged model are estimated
HELD_OUT = 64  # training images on which numbers of replaced convolutions are compared
CARD = """# objects

Classifies small photographs into ten classes ({labels}): a hybrid of
convolutions and attention with {parameters} parameters. Four 3 × 3 convolutions turn 32 × 32 pixels into 8 × 8 cells of
width 256. From there on, cells exchange information only by attention and by pooling: three layers with 9 heads each,
two over 8 × 8 and one over 4 × 4 cells, then a Transformer layer of 4 heads over 16 tokens and attention pooling
(Hassani et al. 2021).

Each of the three layers was initialised as a convolution: head i attended to offset i of a 3 × 3 kernel, by a learned
score per offset, and its output matrix was the kernel's matrix at that offset (Cordonnier et al. 2020; d'Ascoli et al.,
"Transformed CNNs", 2021). Scores from queries and keys, which depend on the image, started near 0 and were learned.

## Evaluation
**{accuracy}** of CIFAR-10's {images} test images are classified correctly (weights as shipped, float16;
`glassformer evaluate -m objects cifar10`). The most frequent confusions are {confused}.

**What attention contributes.** Accuracy on {ablated} test images with attention weights replaced by their mean over the
keys, so that every cell has the same weight:

{ablation}

Where to attend is decided mostly by position. The last row replaces the weights of every layer by their mean over the
{ablated} images, which keeps what depends on position and removes what depends on the image: that costs {content}.
Only attention and pooling move information between cells, so uniform weights ruin the accuracy. That is not
evidence that attention is better here than convolutions: the model with seven convolutions, from which this one was
made, classified {first_accuracy} of the test images correctly.

**Probabilities** are calibrated by a temperature of {temperature}: the expected calibration error is {ece}
({ece_before} without).

**Out-of-distribution images** are flagged if the Mahalanobis distance of the head's input exceeds that of 95 % of the
calibration images. The false-alarm rate is {false_alarms}. Detection rates:

{outside}

The images that are not detected get a confident label. This distance was chosen among six scores (largest probability,
largest logit, energy, Mahalanobis distance of logits and of features, nearest neighbours) by how many of these images
they detect with an earlier version of the model, so the rates are somewhat optimistic, except that of the drawings,
which were added later. All training images were used
for training, so {calibrated} of the test images, spread over the classes, serve to fit temperature and threshold;
calibration error and false alarms are those of the other test images.

## Training data
CIFAR-10: Alex Krizhevsky, Vinod Nair, Geoffrey Hinton; published for research without an explicit licence. 50,000
training and 10,000 test images as published (`glassformer data fetch cifar10`). No image is part of this package.

## Training
`python recipes/objects.py`, two stages, AdamW, cosine schedules, weight decay 0.3, label smoothing 0.1, random crops,
horizontal flips and erased rectangles, batches of 128 images, {precision} matrix products, exponential moving average
of the weights, seed {seed}:
1. {first_steps} steps of a model with seven convolutions and two Transformer layers: {first_minutes} minutes of
   processor time.
2. {steps} steps with attention in place of the last three convolutions and with one Transformer layer; the second was
   removed because its attention had changed no answer. The four convolutions are not trained. This stage took
   {minutes} minutes on {machine}.
3. The mean of the weights before and after the second stage (Wortsman et al. 2022), with the batch norms of the
   attention layers estimated anew on {norm_images} training images. Equal weights were decided on beforehand; no
   other ratio was tried. The weights after the second stage alone classify 92.53 % of the test images correctly.

Stem and weight decay of the first stage were chosen on 5,000 held-out training images in runs of up to 750 steps. How
many convolutions to replace was decided without test images (`--compare`): with one, uniform attention costs about 20
points on 64 held-out training images, which the model had seen; with two or three about 80.
A second stage with a learning rate of 7e-4 was stopped after about 200 steps because its training loss rose. A run with
2.5e-4 was used instead; it was planned for 1,300 steps and shortened while it ran, because time was short.

## Limitations
Images are scaled to 32 × 32 pixels, so small objects are lost. The model knows ten classes and expects one object per
image.
"""


def config(shape: Shape, classes: int) -> HybridConfig:
    made = compact(shape[1], STEM.widths, DEPTH, HEADS, classes=classes, channels=shape[0])
    return replace(made, stem=STEM)


def hybrid(made: HybridConfig) -> nn.Module:
    model = Hybrid(made, seed=SEED)
    initialise_small(model, SEED)
    return model


def objective_of(
    train: Images, val: Images, kind: type[ImageClassification] = ImageClassification
) -> ImageClassification:
    return kind(
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


@torch.no_grad()
def recast(model: Hybrid, attending: int, depth: int) -> Hybrid:
    """Return the model with attention in the place of its last convolutions, and only its first Transformer layers.

    A head attends to one offset of the 3 × 3 kernel, and its part of W_O is the kernel's matrix there. The scores of
    queries and keys, which depend on the image, start near 0.
    """
    c, old = model.config, model.state_dict()
    made = Hybrid(replace(c, stem=replace(c.stem, attending=attending), depth=depth), seed=SEED)
    made.load_state_dict(made.state_dict() | {name: old[name] for name in made.state_dict() if name in old})
    for layer, convolution in zip(made.stem, model.stem, strict=True):
        if isinstance(layer, Attend):
            kernel, attention = convolution.W.weight, layer.grid
            attention.WV.weight.copy_(torch.eye(len(kernel)))
            attention.WO.weight.copy_(kernel.permute(0, 2, 3, 1).flatten(1))
            for i in range(KERNEL**2):
                layer.positions[i, (2 * REACH + 1) * (i // KERNEL + REACH - 1) + i % KERNEL + REACH - 1] = SHARP
    return made


class FrozenConvolutions(ImageClassification):
    """Image classification with convolutions that are not trained: their batch norms keep their statistics."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        for layer in model.modules():
            if isinstance(layer, Convolve):
                layer.eval()
        return super().loss(model, batch)


def attentive(model: Hybrid) -> Hybrid:
    """The model of the second stage as it starts: its convolutions are not trained."""
    made = recast(model, ATTENDING, KEPT_DEPTH)
    for layer in made.stem:
        layer.requires_grad_(isinstance(layer, Attend))
    return made


@torch.no_grad()
def averaged(start: Hybrid, end: Hybrid, objective: ImageClassification) -> Hybrid:
    """Return the model whose weights are the mean of both, with batch norms of its attention layers estimated anew."""
    other = end.state_dict()
    for name, weight in start.state_dict().items():
        if weight.is_floating_point():
            other[name].add_(weight).div_(2)
    end.eval()
    norms = [layer.norm for layer in end.stem if isinstance(layer, Attend)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
        norm.train()
    rows = torch.randperm(len(objective.train), generator=torch.Generator().manual_seed(0)).tolist()
    for i in range(NORM_BATCHES):
        batch = objective.batch(rows[i * BATCH : (i + 1) * BATCH], i)
        assert batch is not None
        end(batch["X"])
    return end.eval()


def objects(out: Path, runs: Path, resume: bool) -> None:
    data = open_data("cifar10")
    train = Images.open(data / "train", channels=3)
    test = Images.open(data / "test", channels=3, labels=train.labels)
    objective = objective_of(train, test)  # the test images are evaluated and choose nothing: the last weights are kept
    made = config(train.shape, len(train.labels))
    first = Learner(
        name="convolutional",
        build=lambda: hybrid(made),
        objective=objective,
        plan=plan(STEPS),
        preprocess=objective.preprocess,
    )
    before = teach(first, runs / first.name, resume)
    second = Learner(
        name="objects",
        build=lambda: attentive(cast(Hybrid, load_folder(runs / first.name / "model").float())),
        objective=objective_of(train, test, FrozenConvolutions),
        plan=replace(plan(RECAST_STEPS), lr=RECAST_LR, warmup=50, ema=0.998, eval_every=0, save_every=50),
        preprocess=objective.preprocess,
    )
    trained = teach(second, runs / second.name, resume)
    end = cast(Hybrid, load_folder(runs / second.name / "model").float())
    model = averaged(cast(Hybrid, second.build()), end, objective)
    save_images(model, out, train.labels, objective.preprocess, half=True)
    described(out, train, test, trained | {"convolutional": before})


def described(out: Path, train: Images, test: Images, trained: dict[str, Any]) -> None:
    """Calibrate and measure the model in `out`, and write its card."""
    model = load_folder(out)
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
        "sample images of scikit-image": samples(),
        "random noise": noise(),
        "simple drawings and patterns": drawings(),
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
        "ablation": f"| mean attention in | correct |\n|---|---|\n{lines}",
        "content": f"{100 * (ablation['unchanged'] - ablation[FIXED]):.1f} points",
        "first_accuracy": percent(trained["convolutional"]["validation"]["accuracy"], 2),
        "first_steps": f"{trained['convolutional']['steps']:,}",
        "first_minutes": f"{trained['convolutional']['processor_seconds'] / 60:.0f}",
        "calibrated": f"{len(rows):,}",
        "norm_images": f"{NORM_BATCHES * BATCH:,}",
    }
    write(out, measured, CARD, fields)


def describe(out: Path) -> None:
    """Measure the model that is in `out` already; how it was trained is read from its measured.json."""
    data = open_data("cifar10")
    train = Images.open(data / "train", channels=3)
    test = Images.open(data / "test", channels=3, labels=train.labels)
    before = json.loads((out / "measured.json").read_text(encoding="utf-8"))
    described(out, train, test, {"machine": before["machine"]} | before["trained"])


def compare(model: Hybrid) -> None:
    """Print what attention contributes on held-out training images for each number of replaced convolutions.

    Nothing is trained: all of these compute nearly the same function. The model has seen these images.
    """
    train = Images.open(open_data("cifar10") / "train", channels=3)
    _, held = order.held_out(len(train), HELD_OUT / len(train), SEED, most=HELD_OUT)
    pictures, y = opened(train, held)
    with tempfile.TemporaryDirectory() as folder:
        for attending in range(ATTENDING + 1):
            made = recast(model, attending, KEPT_DEPTH)
            save_images(made, folder, train.labels, objective_of(train, train).preprocess)
            rates = ablations(load_folder(folder), pictures, y)
            print(attending, *(f"{name}: {percent(share)}" for name, share in rates.items()), sep="\n  ", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, default=FOLDER / "objects", help="Folder of the model.")
    parser.add_argument("--runs", type=Path, default=Path("runs/objects"), help="Folder of the training run.")
    parser.add_argument("--resume", action="store_true", help="Continue the training run.")
    parser.add_argument("--describe", action="store_true", help="Only measure the model in --out and write its card.")
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="Only compare models recast from this one.")
    given = parser.parse_args()
    if given.compare:
        compare(cast(Hybrid, load_folder(given.compare)))
    elif given.describe:
        describe(given.out)
    else:
        objects(given.out, given.runs, given.resume)
