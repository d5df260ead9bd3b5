from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch.nn.functional import pad

from glassformer.checkpoints import load_folder
from glassformer.core.audio import MelConfig
from glassformer.data.augment_audio import AudioAugmentation, silence
from glassformer.data.faults import Fault, Faults
from glassformer.data.recordings import Recordings
from glassformer.errors import InputError
from glassformer.models import Recurrent, Speech
from glassformer.pipelines import transcribe, transcribe_stream
from glassformer.pipelines.speech.charset import Charset, RecognizerConfig
from glassformer.train import TrainArgs, fit
from glassformer.train.objectives import speech_models
from glassformer.train.objectives.ctc import AFTER, CTC, Part, save_speech, target_of, transcripts

RATE = 16_000
RECOGNIZER = RecognizerConfig(charset=Charset(tuple(" ab")), mel=MelConfig(bands=12, high=4000.0), stack=4)
PITCH = {"a": 500.0, "b": 1800.0}
MILD = AudioAugmentation(gain=0.3, noise=0.2, silence=0.2, bands=1, width=2, longest=3)


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


@pytest.mark.slow
def test_it_learns_to_read_tones(recordings: tuple[Recordings, Recordings], tmp_path: Path) -> None:
    """From files to words: trained, saved in half precision, loaded, and heard whole and live."""
    learnt, held = recordings
    objective = CTC([learnt], held, RECOGNIZER, batch_seconds=16, augment=MILD, seed=1, keep=True)
    model = Speech(speech_models.transformer(RECOGNIZER, width=32, depth=1, count=2, drop=0.0), seed=1)
    some = objective.batch(range(8), 0)
    assert some is not None
    speech_models.normalise_stem(model, some["frames"])
    fit(model, objective, TrainArgs(steps=45, lr=5e-3, warmup=5, betas=(0.9, 0.98), eval_every=45, save_every=45))
    assert objective.evaluate(model)["wer"] < 0.15
    loaded = load_folder(save_speech(model.eval(), tmp_path / "model", RECOGNIZER, half=True))
    assert (tmp_path / "model" / "model.safetensors").stat().st_size < 3 * sum(p.numel() for p in model.parameters())
    right = 0
    for i in range(len(held)):
        told = transcribe(loaded, held.wave(i))
        live = " ".join(word.text for word in transcribe_stream(loaded, held.wave(i).split(777)))
        assert live == told.text
        right += told.text == held.sentence(i)
    assert right >= 6


def test_a_batch_by_its_seed(recordings: tuple[Recordings, Recordings]) -> None:
    learnt, held = recordings
    objective = CTC([Part(learnt, 2, (0.9, 1.0)), held], held, RECOGNIZER, batch_seconds=10, augment=MILD, seed=4)
    batches = objective.epoch(3)
    rows = sorted(row for batch in (batches[i] for i in range(len(batches))) for row in batch)
    assert rows == sorted([*range(30), *range(30), *range(30, 38)])
    first, again = objective.batch(batches[0], 9), pickle.loads(pickle.dumps(objective)).batch(batches[0], 9)
    assert first is not None
    assert again is not None
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert objective.count(first) == float(first["sizes"].sum())
    kept = CTC([Part(learnt, 2, (0.9, 1.0)), held], held, RECOGNIZER, batch_seconds=10, augment=MILD, seed=4, keep=True)
    for _ in range(2):  # the second time from memory
        halves = kept.batch(batches[0], 9)
        assert halves is not None
        torch.testing.assert_close(halves["frames"], first["frames"], rtol=0, atol=3e-3)


def test_the_loss_is_that_of_the_model(recordings: tuple[Recordings, Recordings]) -> None:
    """Σ of −log p by torch's own CTC, of all rows but those in which a recording's end is heard."""
    learnt, held = recordings
    objective = CTC([learnt], held, RECOGNIZER, augment=None)
    model = Speech(speech_models.transformer(RECOGNIZER, width=16, depth=1, count=2), seed=1).eval()
    batch = objective.batch([3, 4], 0)
    assert batch is not None
    lengths = batch["lengths"]
    logp = model(batch["frames"], lengths).log_softmax(-1).transpose(0, 1)
    rows = model.rows(lengths) - AFTER
    theirs = torch.nn.functional.ctc_loss(logp, batch["targets"], rows, batch["sizes"], reduction="sum")
    torch.testing.assert_close(objective.loss(model, batch), theirs)


def test_what_is_learned_does_not_hear_the_end(recordings: tuple[Recordings, Recordings]) -> None:
    """Live, silence goes on: rows that the loss reads are the same if it does, all but one where chunks fall badly."""
    learnt, held = recordings
    objective = CTC([learnt], held, RECOGNIZER, augment=None)
    model = Speech(speech_models.transformer(RECOGNIZER, width=16, depth=2, count=2), seed=1).eval()
    for row in range(6):  # of different lengths, so their last chunks end anywhere
        batch = objective.batch([row], 0)
        assert batch is not None
        frames = batch["frames"]
        longer = pad(frames, (0, 0, 0, 40), value=silence(RECOGNIZER.mel))
        n = int(model.rows(batch["lengths"])[0]) - AFTER - 1
        torch.testing.assert_close(model(frames)[:, :n], model(longer)[:, :n])


def test_what_does_not_fit_is_counted(recordings: tuple[Recordings, Recordings]) -> None:
    assert target_of("Ab ba.", 100, RECOGNIZER, "here").tolist() == [2, 3, 1, 3, 2, 1]
    for text, frames, reason in (
        ("!", 100, "empty transcript"),
        ("cab", 100, "not in the alphabet"),
        ("aaaa", 28, "too short for its transcript"),  # blanks between the same letters need rows too
        ("ab", 900, "too long for its transcript"),
    ):
        with pytest.raises(Fault, match=reason):
            target_of(text, frames, RECOGNIZER, "here")
    learnt, held = recordings
    strange = RecognizerConfig(charset=Charset(tuple(" a")), mel=RECOGNIZER.mel, stack=4)
    objective = CTC([learnt], held, strange, augment=None)
    only_a = [i for i in range(30) if "b" not in learnt.sentence(i)]
    batch = objective.batch(range(30), 0)
    assert (0 if batch is None else len(batch["frames"])) == len(only_a)
    assert objective.faults.counts["transcript with 'b', which is not in the alphabet"] == 30 - len(only_a)


def broken(folder: Path, good: int, bad: int, silent: int = 0) -> Recordings:
    whole = write(folder, sentences(good, 3) + ["ab"] * (bad + silent))
    for i in range(good, good + bad):
        (folder / f"{i}.wav").write_bytes(b"no sound")
    for i in range(good + bad, good + bad + silent):
        soundfile.write(folder / f"{i}.wav", np.zeros(RATE, dtype=np.float32), RATE)
    return Recordings.open(whole.root / "train.tsv")


def test_unreadable_recordings_do_not_come_together(recordings: tuple[Recordings, Recordings], tmp_path: Path) -> None:
    """Most of them would be a batch of nothing else, after which more than half of what was tried is faulty."""
    objective = CTC([broken(tmp_path / "mixed", 90, 70)], recordings[1], RECOGNIZER, batch_seconds=2000.0)
    assert objective.faults.counts == {"unreadable recording": 70}
    seen = [row for batch in objective.epoch(0) for row in batch]
    assert sorted(seen) == list(range(90))
    for batch in objective.epoch(0):
        assert objective.batch(batch, 0) is not None


def test_the_validation_loss_is_that_of_training_without_augmentation(
    recordings: tuple[Recordings, Recordings],
) -> None:
    objective = CTC([recordings[1]], recordings[1], RECOGNIZER, augment=None)
    model = Recurrent(speech_models.gru(RECOGNIZER, width=8, layers=1)).eval()
    batch = objective.batch(range(len(recordings[1])), 0)
    assert batch is not None
    with torch.no_grad():
        ours = float(objective.loss(model, batch)) / objective.count(batch)
        assert objective.evaluate(model)["loss"] == pytest.approx(ours, rel=1e-4)


def test_held_out_recordings_that_cannot_be_used(
    recordings: tuple[Recordings, Recordings], tmp_path: Path, refused: Any
) -> None:
    model = Recurrent(speech_models.gru(RECOGNIZER, width=8, layers=1))
    some = CTC([recordings[0]], broken(tmp_path / "some", 2, 1, 1), RECOGNIZER)
    assert some.evaluate(model)["wer"] > 0
    assert some.faults.counts == {"unreadable recording": 1, "silent recording": 1}
    none = CTC([recordings[0]], broken(tmp_path / "none", 0, 1, 1), RECOGNIZER)
    refused(InputError, "no validation recording can be used", lambda: none.evaluate(model))


def test_nothing_to_learn_from(recordings: tuple[Recordings, Recordings], tmp_path: Path, refused: Any) -> None:
    refused(InputError, "there are no training recordings", lambda: CTC([], recordings[1], RECOGNIZER))
    unreadable = broken(tmp_path / "all", 0, 3)
    refused(InputError, "none of the 3 recordings can be used", lambda: CTC([unreadable], recordings[1], RECOGNIZER))


def test_measuring_leaves_the_model_as_it_was(recordings: tuple[Recordings, Recordings]) -> None:
    model = Recurrent(speech_models.gru(RECOGNIZER, width=8, layers=1)).train()
    found, _ = transcripts(model, recordings[1], RECOGNIZER, Faults())
    assert model.training
    assert [meant for _, meant in found] == [recordings[1].sentence(i) for i in range(8)]
