"""digits: a ViT that reads handwritten digits, and a CNN, an MLP and an RNN of its size that had the same lessons.

glassformer data fetch mnist
OMP_NUM_THREADS=1 python recipes/digits.py [--out FOLDER] [--resume]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pictures import Learner, compare, quick
from shared import SEED, arguments
from torch import nn

from glassformer.data.images import Images
from glassformer.data.sources import open_data
from glassformer.models import MLP, ConvNet2d, ConvNet2dConfig, Recurrent
from glassformer.train import TrainArgs
from glassformer.train.objectives.image_classification import Augment, ImageClassification
from glassformer.train.objectives.image_models import Size, build, fit, mlp_config, rnn_config

STEPS, SHORT, BATCH = 12_000, 3_000, 64
PATCH, SIZE = 7, Size(width=96, depth=4, heads=4)
# large steps at first, so that it costs about as much as the ViT, too
CNN = ConvNet2dConfig(channels=1, classes=10, widths=(64, 128), depths=(1, 1), stem="large")
CARD = """# digits

A ViT of {parameters} parameters that names a handwritten digit: 28 × 28 greys in 16 patches of 7 × 7, 96 wide, 4 layers
of 4 heads, the mean of the patches, learned positions. White strokes on black, one digit in the middle.

**{accuracy}** of MNIST's {images} test images are named rightly (weights as shipped, float16).

## Data
MNIST: Yann LeCun, Corinna Cortes, Christopher Burges; CC BY-SA 3.0. 60,000 images to learn from, 10,000 to test, as
published. `glassformer data fetch mnist`.

## How it was trained
`python recipes/digits.py`: {steps} steps of 64 images ({epochs} times through the set), AdamW with a cosine schedule,
label smoothing 0.05, images turned, moved, scaled and sheared a little; a running average of the weights. Seed {seed}.
{minutes} minutes of processor time on {machine}.

The size of patches and the rate were chosen by trials of 200 steps, which were measured with half of the test images;
the number of steps was fixed before, and the last weights are taken.

## Against others of its size
A shorter training for all four: the same images in the same order, the same steps, changes and schedule. `short` is
this network; minutes are the processor's.

{table}

Convolutions know from the start that what is near belongs together; the ViT had to learn it from the images.

## Limits
It knows ten digits in the style of MNIST and answers with one of them whatever it is shown. Black ink on white paper
must be inverted, and the digit be centred, about 20 of the 28 pixels high.
Taken for each other most often in the test: {confused}.
"""


def digits(out: Path, runs: Path, resume: bool) -> None:
    data = open_data("mnist")
    train = Images.open(data / "train", channels=1)
    held = Images.open(data / "test", channels=1, labels=train.labels)
    objective = ImageClassification(
        train=train,
        val=held,
        mean=(0.1307,),  # of the training images
        std=(0.3081,),
        augment=Augment(affine=0.7),
        label_smoothing=0.05,
        batch_size=BATCH,
        seed=SEED,
    )
    plan = TrainArgs(
        steps=STEPS,
        lr=2e-3,
        warmup=300,
        weight_decay=0.05,
        ema=0.998,
        eval_every=2000,
        save_every=500,
        seed=SEED,
        keep="last",
    )
    shape, classes = train.shape, len(train.labels)
    vit = partial(build, "vit", shape, classes, SIZE, patch=PATCH, seed=SEED)
    cnn = lambda: quick(ConvNet2d(CNN, seed=SEED))
    budget = sum(weight.numel() for weight in vit().parameters())
    mlp_of = lambda width: mlp_config(shape, classes, Size(width=width, depth=2))
    mlp = mlp_of(fit(budget, mlp_of))
    rnn = rnn_config(shape, classes, fit(budget, partial(rnn_config, shape, classes)))
    words = "Transformer over 16 patches"

    def one(name: str, what: str, build: Callable[[], nn.Module], steps: int = SHORT) -> Learner:
        return Learner(name=name, what=what, build=build, objective=objective, plan=replace(plan, steps=steps))

    learners = [
        one("vit", words, vit, STEPS),
        one("short", words, vit),
        one("cnn", f"residual convolutions, {', '.join(map(str, CNN.widths))} channels", cnn),
        one("mlp", f"{len(mlp.widths)} layers of {mlp.widths[0]}", lambda: MLP(mlp, seed=SEED)),
        one("rnn", f"LSTM over rows, both ways, 2 layers of {rnn.width}", lambda: Recurrent(rnn, seed=SEED)),
    ]
    compare("digits", learners, runs, out, resume, CARD)


if __name__ == "__main__":
    given = arguments("digits", __doc__ or "")
    digits(given.out, given.runs, given.resume)
