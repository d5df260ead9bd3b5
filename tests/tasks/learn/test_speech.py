from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch.nn.functional import pad

from glassformer.checkpoints import load
from glassformer.core.audio import MelConfig
from glassformer.errors import InputError
from glassformer.models import Recurrent, Speech
from glassformer.tasks import listen, transcribe
from glassformer.tasks.data.faults import Fault, Faults
from glassformer.tasks.data.recordings import Recordings
from glassformer.tasks.learn import recognisers
from glassformer.tasks.learn.speech import AFTER, Part, SpeechLesson, fitting, save_speech, transcripts
from glassformer.tasks.learn.unlike import Changed, silence
from glassformer.tasks.symbols import Hearing, Symbols
from glassformer.tasks.training import Optimise, Plan, train

RATE = 16_000
HEARING = Hearing(symbols=Symbols(tuple(" ab")), mel=MelConfig(bands=12, high=4000.0), stack=4)
PITCH = {"a": 500.0, "b": 1800.0}
MILD = Changed(gain=0.3, noise=0.2, silence=0.2, bands=1, width=2, longest=3)


def tones(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A language of two letters: each a tone of 120 ms and a short gap; a space is 160 ms of silence."""
    parts = []
    for letter in text:
        t = np.arange(int(0.12 * RATE)) / RATE
        sound = 0 * t if letter == " " else 0.3 * np.sin(2 * np.pi * PITCH[letter] * t)
        parts += [sound, np.zeros(int(0.04 * RATE))]
    return np.concatenate([*parts, np.zeros(RATE // 4)]).astype(np.float32)


def write(folder: Path, sentences: list[str]) -> Recordings:
    folder.mkdir()
    rows = ["path\tsentence"]
    for i, text in enumerate(sentences):
        soundfile.write(folder / f"{i}.wav", tones(text), RATE)
        rows.append(f"{i}.wav\t{text}")
    (folder / "train.tsv").write_text("\n".join(rows) + "\n")
    return Recordings.open(folder / "train.tsv")


def sentences(count: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    word = lambda: "".join(random.choice(["a", "b"], random.integers(1, 4)))
    return [" ".join(word() for _ in range(random.integers(1, 4))) for _ in range(count)]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recordings, Recordings]:
    folder = tmp_path_factory.mktemp("tones")
    return write(folder / "learnt", sentences(30, 1)), write(folder / "held", sentences(8, 2))


def test_it_learns_to_read_tones(recordings: tuple[Recordings, Recordings], tmp_path: Path) -> None:
    """From files to words: trained, saved in half precision, loaded, and heard whole and live."""
    learnt, held = recordings
    lesson = SpeechLesson([learnt], held, HEARING, seconds=16, changed=MILD, seed=1, keep=True)
    model = Speech(recognisers.listener(HEARING, width=32, depth=1, count=2, drop=0.0), seed=1)
    some = lesson.batch(range(8), 0)
    assert some is not None
    recognisers.steadied(model, some["frames"])
    optimise = Optimise(rate=5e-3, warmup=5, betas=(0.9, 0.98))
    train(model, lesson, Plan(steps=45, optimise=optimise, measure_every=45, save_every=45))
    assert lesson.measure(model)["wer"] < 0.15
    loaded = load(save_speech(model.eval(), tmp_path / "model", HEARING, half=True))
    assert (tmp_path / "model" / "model.safetensors").stat().st_size < 3 * sum(p.numel() for p in model.parameters())
    right = 0
    for i in range(len(held)):
        told = transcribe(loaded, held.wave(i))
        live = " ".join(word.text for word in listen(loaded, held.wave(i).split(777)))
        assert live == told.text
        right += told.text == held.sentence(i)
    assert right >= 6


def test_a_batch_by_its_seed(recordings: tuple[Recordings, Recordings]) -> None:
    learnt, held = recordings
    lesson = SpeechLesson([Part(learnt, 2, (0.9, 1.0)), held], held, HEARING, seconds=10, changed=MILD, seed=4)
    batches = lesson.epoch(3)
    rows = sorted(row for batch in (batches[i] for i in range(len(batches))) for row in batch)
    assert rows == sorted([*range(30), *range(30), *range(30, 38)])
    first, again = lesson.batch(batches[0], 9), pickle.loads(pickle.dumps(lesson)).batch(batches[0], 9)
    assert first is not None
    assert again is not None
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert lesson.weigh(first) == float(first["sizes"].sum())
    kept = SpeechLesson([Part(learnt, 2, (0.9, 1.0)), held], held, HEARING, seconds=10, changed=MILD, seed=4, keep=True)
    for _ in range(2):  # the second time from memory
        halves = kept.batch(batches[0], 9)
        assert halves is not None
        torch.testing.assert_close(halves["frames"], first["frames"], rtol=0, atol=3e-3)


def test_the_loss_is_that_of_the_model(recordings: tuple[Recordings, Recordings]) -> None:
    """Σ of −log p by torch's own CTC, of all rows but those in which a recording's end is heard."""
    learnt, held = recordings
    lesson = SpeechLesson([learnt], held, HEARING, changed=None)
    model = Speech(recognisers.listener(HEARING, width=16, depth=1, count=2), seed=1).eval()
    batch = lesson.batch([3, 4], 0)
    assert batch is not None
    lengths = batch["lengths"]
    logp = model(batch["frames"], lengths).log_softmax(-1).transpose(0, 1)
    rows = model.rows(lengths) - AFTER
    theirs = torch.nn.functional.ctc_loss(logp, batch["targets"], rows, batch["sizes"], reduction="sum")
    torch.testing.assert_close(lesson.loss(model, batch), theirs)


def test_what_is_learned_does_not_hear_the_end(recordings: tuple[Recordings, Recordings]) -> None:
    """Live, silence goes on: rows that the loss reads are the same if it does, all but one where chunks fall badly."""
    learnt, held = recordings
    lesson = SpeechLesson([learnt], held, HEARING, changed=None)
    model = Speech(recognisers.listener(HEARING, width=16, depth=2, count=2), seed=1).eval()
    for row in range(6):  # of different lengths, so their last chunks end anywhere
        batch = lesson.batch([row], 0)
        assert batch is not None
        frames = batch["frames"]
        longer = pad(frames, (0, 0, 0, 40), value=silence(HEARING.mel))
        n = int(model.rows(batch["lengths"])[0]) - AFTER - 1
        torch.testing.assert_close(model(frames)[:, :n], model(longer)[:, :n])


def test_what_does_not_fit_is_counted(recordings: tuple[Recordings, Recordings]) -> None:
    assert fitting("Ab ba.", 100, HEARING, "here").tolist() == [2, 3, 1, 3, 2, 1]
    for text, frames, reason in (
        ("!", 100, "transcript without a word"),
        ("cab", 100, "letters that are not among"),
        ("aaaa", 28, "too short for its transcript"),  # blanks between the same letters need rows too
        ("ab", 900, "too long for its transcript"),
    ):
        with pytest.raises(Fault, match=reason):
            fitting(text, frames, HEARING, "here")
    learnt, held = recordings
    strange = Hearing(symbols=Symbols(tuple(" a")), mel=HEARING.mel, stack=4)
    lesson = SpeechLesson([learnt], held, strange, changed=None)
    only_a = [i for i in range(30) if "b" not in learnt.sentence(i)]
    batch = lesson.batch(range(30), 0)
    assert (0 if batch is None else len(batch["frames"])) == len(only_a)
    assert lesson.faults.counts["transcript with letters that are not among the symbols"] == 30 - len(only_a)


def broken(folder: Path, good: int, bad: int, silent: int = 0) -> Recordings:
    whole = write(folder, sentences(good, 3) + ["ab"] * (bad + silent))
    for i in range(good, good + bad):
        (folder / f"{i}.wav").write_bytes(b"no sound")
    for i in range(good + bad, good + bad + silent):
        soundfile.write(folder / f"{i}.wav", np.zeros(RATE, dtype=np.float32), RATE)
    return Recordings.open(whole.root / "train.tsv")


def test_unreadable_recordings_do_not_come_together(recordings: tuple[Recordings, Recordings], tmp_path: Path) -> None:
    """Most of them would be a batch of nothing else, after which more than half of what was tried is faulty."""
    lesson = SpeechLesson([broken(tmp_path / "mixed", 90, 70)], recordings[1], HEARING, seconds=2000.0)
    assert lesson.faults.counts == {"unreadable recording": 70}
    seen = [row for batch in lesson.epoch(0) for row in batch]
    assert sorted(seen) == list(range(90))
    for batch in lesson.epoch(0):
        assert lesson.batch(batch, 0) is not None


def test_held_out_recordings_that_cannot_be_used(
    recordings: tuple[Recordings, Recordings], tmp_path: Path, refused: Any
) -> None:
    model = Recurrent(recognisers.gru(HEARING, width=8, layers=1))
    some = SpeechLesson([recordings[0]], broken(tmp_path / "some", 2, 1, 1), HEARING)
    assert some.measure(model)["wer"] > 0
    assert some.faults.counts == {"unreadable recording": 1, "silent recording": 1}
    none = SpeechLesson([recordings[0]], broken(tmp_path / "none", 0, 1, 1), HEARING)
    refused(InputError, "none of the held-out recordings can be used", lambda: none.measure(model))


def test_nothing_to_learn_from(recordings: tuple[Recordings, Recordings], tmp_path: Path, refused: Any) -> None:
    refused(InputError, "there are 0 recordings", lambda: SpeechLesson([], recordings[1], HEARING))
    unreadable = broken(tmp_path / "all", 0, 3)
    refused(InputError, "none of 3 recordings can be used", lambda: SpeechLesson([unreadable], recordings[1], HEARING))


def test_measuring_leaves_the_model_as_it_was(recordings: tuple[Recordings, Recordings]) -> None:
    model = Recurrent(recognisers.gru(HEARING, width=8, layers=1)).train()
    found = transcripts(model, recordings[1], HEARING, Faults())
    assert model.training
    assert [meant for _, meant in found] == [recordings[1].sentence(i) for i in range(8)]
