"""The listener: a recogniser that writes words while they are spoken; and a GRU and a convolution of its size.

Real speech is the training part of `asterisk-en`: one voice, telephone prompts, 20 minutes. So little does not teach
how English sounds, so half of what is heard are texts read by SYNTHETIC voices, and short real recordings come joined
too (recipes/voices.py). It is measured on real recordings alone. All learn in turn from the same batches, on one core,
the one that is shipped for longer; measured.json says how long each took and on what machine. What was broken off goes
on where it was.

    python recipes/voices.py
    OMP_NUM_THREADS=1 python recipes/listener.py [--runs RUNS]
    OMP_NUM_THREADS=1 python recipes/listener_ship.py RUNS
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from copy import copy
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from texts import Learner, teach
from torch import nn

from glassformer.checkpoints import load
from glassformer.data.augment_audio import Augment
from glassformer.data.packages import cache
from glassformer.data.recordings import Recordings
from glassformer.data.sources import open_data
from glassformer.models import ConvNet1d, Recurrent, Speech
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.train import TrainArgs
from glassformer.train.objectives import speech_models
from glassformer.train.objectives.ctc import CTC, MEL, STACK, Part, save_speech

RECOGNIZER = RecognizerConfig(mel=MEL, stack=STACK)
SEED, SECONDS = 7, 24.0  # sound in a step
FIRST, SECOND, LONG = 1_200, 2_500, 13_000  # steps of the first part, of a peer's second, of the shipped one's
WARM = 200  # steps in which the rate rises
TIMES = 24  # that a real recording is heard for every synthetic one: then half of all sound is real
EARLY = 0.03  # nats that an alignment gains by speaking 40 ms earlier
KINDS = {
    "listener": "Transformer in chunks of 120 ms",
    "short": "the same, as many steps as its peers",
    "gru": "GRU, 3 layers of 324",
    "convolution": "causal convolutions, 7 blocks of 200",
}


def part(name: str, of: str) -> Recordings:
    return Recordings.open(open_data(name) / f"{of}.tsv", longest=120)


def objective() -> CTC:
    """Synthetic voices have their own speeds already, and joined recordings are many enough."""
    made = lambda name: Recordings.open(cache() / name / "train.tsv")
    parts = [
        Part(part("asterisk-en", "train"), TIMES),
        *(Part(made(f"{n}-en"), 1, (1.0,)) for n in ("joined", "synthetic")),
    ]
    return CTC(
        parts,
        part("asterisk-en", "valid"),
        RECOGNIZER,
        batch_seconds=SECONDS,
        augment=Augment(noise=0.3),
        seed=SEED,
        keep=True,
    )


def plan(steps: int, warmup: int, schedule: Literal["constant", "cosine"]) -> TrainArgs:
    return TrainArgs(
        steps=steps,
        lr=1e-3,
        schedule=schedule,
        warmup=warmup,
        betas=(0.9, 0.98),
        weight_decay=0.05,
        min_lr_ratio=0.01,
        ema=0.998,
        eval_every=500,
        save_every=300,
        seed=SEED,
        keep="last",
    )


def steady(heard: CTC) -> Speech:
    some = heard.batch(heard.epoch(0)[0], SEED)
    assert some is not None
    return speech_models.normalise_stem(Speech(speech_models.transformer(RECOGNIZER), seed=SEED), some["frames"])


def begun(kind: str) -> str:
    """The first part's name; the short one and the shipped one share theirs."""
    return "listener-first" if kind == "short" else f"{kind}-first"


def parts(kind: str, heard: CTC, folder: Path) -> list[tuple[Path, Learner]]:
    """First what is said, then how early: while a network hears nothing, earlier is all that it would learn."""
    build: dict[str, Callable[[], nn.Module]] = {
        "listener": partial(steady, heard),
        "short": partial(steady, heard),
        "gru": lambda: Recurrent(speech_models.gru(RECOGNIZER), seed=SEED),
        "convolution": lambda: ConvNet1d(speech_models.convolution(RECOGNIZER), seed=SEED),
    }
    first, second = folder / begun(kind), folder / kind
    soon = copy(heard)  # with the same frames
    soon.slope = EARLY
    save = partial(save_speech, recognizer=RECOGNIZER, half=True)
    both = partial(Learner, what=KINDS[kind], save=save, measure=heard.evaluate)
    hear = both(name=first.name, build=build[kind], objective=heard, plan=plan(FIRST, WARM, "constant"))
    plan_2 = plan(LONG if kind == "listener" else SECOND, WARM // 4, "cosine")
    hurry = both(name=second.name, build=lambda: load(first / "model"), objective=soon, plan=plan_2)
    return [(first, hear), (second, hurry)]


def listener(runs: Path, kinds: Collection[str] = tuple(KINDS)) -> None:
    """All of them, or some, one after the other; what is done is not done again."""
    torch.set_num_threads(1)
    heard = objective()
    for kind in kinds:
        for folder, one in parts(kind, heard, runs):
            teach(one, folder, True, measured=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/listener"), help="where the trainings are kept")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="which of them, unless all")
    given = parser.parse_args()
    listener(given.runs, given.kinds or tuple(KINDS))
