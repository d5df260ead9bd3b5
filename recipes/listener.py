"""listener: a streaming speech recogniser.

The real speech is the training split of `asterisk-en`: one voice, telephone prompts, 20 minutes. That is too little to
learn how English sounds, so half of the training audio is SYNTHETIC speech, and combinations of short real recordings
are added (recipes/voices.py). Evaluation uses real recordings only. Interrupted runs are resumed.

    python recipes/voices.py
    OMP_NUM_THREADS=1 python recipes/listener.py [--runs RUNS]
    OMP_NUM_THREADS=1 python recipes/listener_ship.py RUNS
"""

from __future__ import annotations

import argparse
from copy import copy
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from texts import Learner, teach

from glassformer.checkpoints import load_folder
from glassformer.data.augment_audio import AudioAugmentation
from glassformer.data.packages import cache
from glassformer.data.recordings import Recordings
from glassformer.data.sources import open_data
from glassformer.models import Speech
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.train import TrainArgs
from glassformer.train.objectives import speech_models
from glassformer.train.objectives.ctc import CTC, MEL, STACK, Part, save_speech

RECOGNIZER = RecognizerConfig(mel=MEL, stack=STACK)
SEED, SECONDS = 7, 24.0  # seconds of audio per step
FIRST, SECOND = 1_200, 13_000  # steps of the two stages
WARM = 200  # warmup steps
TIMES = 24  # repetitions of a real recording for every synthetic one, so that half of the audio is real
EARLY = 0.03  # nats that an alignment gains by emitting a symbol 40 ms earlier
FIRST_STAGE, SECOND_STAGE = "listener-first", "listener"
WHAT = "Transformer in chunks of 120 ms"


def part(name: str, of: str) -> Recordings:
    return Recordings.open(open_data(name) / f"{of}.tsv", longest=120)


def objective() -> CTC:
    """CTC on real, joined and synthetic recordings; only real recordings are changed in speed."""
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
        augment=AudioAugmentation(noise=0.3),
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


def initial_model(objective: CTC) -> Speech:
    """Return an untrained model whose stem is normalised on one batch."""
    some = objective.batch(objective.epoch(0)[0], SEED)
    assert some is not None
    return speech_models.normalise_stem(Speech(speech_models.transformer(RECOGNIZER), seed=SEED), some["frames"])


def stages(objective: CTC, runs: Path) -> list[tuple[Path, Learner]]:
    """Recognition first, low latency second: a network that recognises nothing would learn nothing but to be early."""
    first, second = runs / FIRST_STAGE, runs / SECOND_STAGE
    early = copy(objective)  # shares the cached frames
    early.slope = EARLY
    save = partial(save_speech, recognizer=RECOGNIZER, half=True)
    both = partial(Learner, what=WHAT, save=save, measure=objective.evaluate)
    build = partial(initial_model, objective)
    hear = both(name=first.name, build=build, objective=objective, plan=plan(FIRST, WARM, "constant"))
    plan_2 = plan(SECOND, WARM // 4, "cosine")
    hurry = both(name=second.name, build=lambda: load_folder(first / "model"), objective=early, plan=plan_2)
    return [(first, hear), (second, hurry)]


def listener(runs: Path) -> None:
    """Train both stages; a finished stage is not trained again."""
    torch.set_num_threads(1)
    for folder, stage in stages(objective(), runs):
        teach(stage, folder, True, measured=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/listener"), help="Folder of the training runs.")
    listener(parser.parse_args().runs)
