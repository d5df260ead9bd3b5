"""The listener: a recogniser that writes words while they are spoken; and a GRU and a convolution of its size.

Real speech is the training part of `asterisk-en`: one voice, telephone prompts, 20 minutes. So little does not teach
how English sounds, so each epoch also hears 10,000 sentences of Tatoeba read by SYNTHETIC voices (recipes/voices.py).
It is measured on real recordings alone. One core, about 40 minutes for the listener (measured.json says how many).

    python recipes/voices.py
    python recipes/listener.py train listener RUNS        # then gru and convolution, its peers
    python recipes/listener_ship.py RUNS
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import torch

from glassformer.checkpoints import load
from glassformer.checkpoints.registry import cache
from glassformer.models import ConvNet1d, Recurrent, Speech
from glassformer.tasks.data.recordings import Recordings
from glassformer.tasks.learn import recognisers
from glassformer.tasks.learn.speech import MEL, STACK, Part, SpeechLesson, save_speech
from glassformer.tasks.learn.unlike import Changed
from glassformer.tasks.sources import open_data
from glassformer.tasks.symbols import Hearing
from glassformer.tasks.training import Optimise, Plan, Progress, Show, train

HEARING = Hearing(mel=MEL, stack=STACK)
SEED, FIRST, SECOND = 7, 1691, 1600  # steps of the two parts
KINDS = {
    "listener": lambda: Speech(recognisers.listener(HEARING), seed=SEED),
    "gru": lambda: Recurrent(recognisers.gru(HEARING), seed=SEED),
    "convolution": lambda: ConvNet1d(recognisers.convolution(HEARING), seed=SEED),
}


def part(name: str, of: str) -> Recordings:
    return Recordings.open(open_data(name) / f"{of}.tsv", longest=120)


def lesson(times: int, seconds: float, changed: Changed) -> SpeechLesson:
    """Each real recording is heard `times` times for every synthetic one, which has its own speed already."""
    synthetic = Recordings.open(cache() / "synthetic-en" / "train.tsv")
    parts = [Part(part("asterisk-en", "train"), times), Part(synthetic, 1, (1.0,))]
    return SpeechLesson(
        parts, part("asterisk-en", "valid"), HEARING, seconds=seconds, changed=changed, seed=SEED, keep=True
    )


def plan(steps: int, rate: float, warmup: int) -> Plan:
    optimise = Optimise(rate=rate, warmup=warmup, betas=(0.9, 0.98), decay=0.05, floor=0.01)
    return Plan(steps=steps, optimise=optimise, average=0.998, measure_every=300, save_every=300, seed=SEED)


def shown(stop: int | None = None) -> Show:
    def show(at: Progress) -> None:
        if not at.step % 50:
            held = " ".join(f"{name} {value:.3f}" for name, value in at.held_out.items())
            print(f"{at.step}/{at.steps} loss {at.loss:.3f} {at.seconds:.0f} s, {at.left:.0f} left; {held}", flush=True)
        if stop is not None and at.step == stop - 1:  # the step under way is finished
            signal.raise_signal(signal.SIGINT)

    return show


def first(kind: str, run: Path) -> None:
    """How English sounds: a third of what is heard is real. It is left before its rate has come down."""
    heard, model = lesson(12, 30, Changed()), KINDS[kind]()
    if isinstance(model, Speech):
        some = heard.batch(heard.epoch(0)[0], SEED)
        assert some is not None
        recognisers.steadied(model, some["frames"])
    print(f"{kind}: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    train(model, heard, plan(3000, 1e-3, 200), run, show=shown(FIRST))
    save_speech(model.eval(), run / "model", HEARING, half=True)


def second(kind: str, before: Path, run: Path) -> None:
    """How this voice sounds: two thirds are real, and changed less."""
    heard = lesson(40, 20, Changed(noise=0.3, gain=0.6, bands=1, longest=10))
    model = load(before / "model")
    done = train(model, heard, plan(SECOND, 8e-4, 50), run, show=shown())
    for line in done.faults.told():
        print(line)
    save_speech(model.eval(), run / "model", HEARING, half=True)


def learn(kind: str, folder: Path) -> None:
    """Both parts of one kind, on one core; a part that is done is not done again."""
    torch.set_num_threads(1)
    begun = time.process_time()
    if not (folder / f"{kind}-first" / "model").is_dir():
        first(kind, folder / f"{kind}-first")
    if not (folder / f"{kind}-second" / "model").is_dir():
        second(kind, folder / f"{kind}-first", folder / f"{kind}-second")
    print(f"{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    learn(sys.argv[2], Path(sys.argv[3]))
