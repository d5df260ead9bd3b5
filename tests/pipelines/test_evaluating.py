"""The numbers of every kind of model equal those computed from the verbs' own answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import cross_entropy

import glassformer as gf
from glassformer.checkpoints import load_folder
from glassformer.data import Faults, Images, Recordings
from glassformer.data.sources import open_data
from glassformer.errors import InputError
from glassformer.models import CLIP, Encoder, clip, encoder
from glassformer.pipelines import classify, embed, evaluate, metrics, transcribe, translate
from glassformer.pipelines.speech.charset import normalize_transcript
from glassformer.pipelines.tokenizers import raw_tokenizer
from glassformer.train.args import TrainArgs
from glassformer.train.objectives import build

EVALUATE = import_module("glassformer.pipelines.evaluate")


@pytest.fixture(autouse=True)
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path_factory.getbasetemp() / "data"))


def made(task: str, folder: Path, **args: object) -> torch.nn.Module:
    model, objective = build(TrainArgs(task=task, **args))  # type: ignore[arg-type]
    return load_folder(objective.save(model.eval(), folder))


def test_images(tmp_path: Path) -> None:
    model = made("classify", tmp_path / "m", data="uci-digits", arch="mlp", width=8)
    data = open_data("uci-digits") / "test"
    images = Images.open(data)
    best = [[one.label for one in classify(model, images.root / images.files[i], top_k=5)] for i in range(len(images))]
    named = [images.labels[images.label(i)] for i in range(len(images))]
    right = sum(guess[0] == name for guess, name in zip(best, named, strict=True))
    close = sum(name in guess for guess, name in zip(best, named, strict=True))
    count = len(images)
    assert evaluate(model, data) == {"accuracy": right / count, "top5_accuracy": close / count, "images": count}


def test_top5_accuracy_needs_more_than_five_classes(tmp_path: Path) -> None:
    rows = [(torch.rand(1, 8, 8), "abc"[i % 3]) for i in range(30)]
    trained = gf.train("classify", rows, arch="mlp", width=8, steps=1, progress=False)
    assert evaluate(trained.model, rows).keys() == {"accuracy", "images"}


def test_a_broken_image_is_counted(tmp_path: Path) -> None:
    model = made("classify", tmp_path / "m", data="uci-digits", arch="mlp", width=8)
    source = open_data("uci-digits") / "test"
    for name in ("3", "4"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for path in sorted((source / name).iterdir())[:3]:
            (tmp_path / "data" / name / path.name).write_bytes(path.read_bytes())
    for name in ("y.png", "z.png"):
        (tmp_path / "data" / "4" / name).write_bytes(b"not a picture")
    faults = Faults()
    assert evaluate(model, tmp_path / "data", faults=faults)["images"] == 6
    assert faults.summary() == ["unreadable image: 2 (4/y.png, 4/z.png)"]  # one line, however many


def test_a_classifier_of_texts_is_never_evaluated_as_an_encoder(tmp_path: Path, refused: Callable[..., None]) -> None:
    """The columns need not have usual names, as in the training of the model."""
    prices = "".join(f"a flat with {i % 9} rooms,{i % 9}.5\n" for i in range(60))
    (tmp_path / "prices.csv").write_text(f"text,price\n{prices}")
    small = {"width": 16, "depth": 1, "heads": 2, "vocab_size": 280}
    model = made("classify", tmp_path / "m", data=str(tmp_path / "prices.csv"), **small)
    assert evaluate(model, tmp_path / "prices.csv").keys() == {"mse", "mae", "r2", "texts"}
    (tmp_path / "unnamed.csv").write_text(
        "text,a,b\n" + "".join(f"a flat {i},{i % 2},{i // 2 % 2}\n" for i in range(9))
    )
    refused(
        InputError,
        f"{tmp_path / 'unnamed.csv'} has no column for label",
        lambda: evaluate(model, tmp_path / "unnamed.csv"),
    )


@pytest.mark.slow
def test_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("the cat", "le chat"), ("the dog", "le chien"), ("the cat", "ce chat")] * 10
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    model = made("translate", tmp_path / "m", data=str(tmp_path / "pairs.tsv"), width=16, depth=1, vocab_size=300)
    said = [translate(model, text) for text in ("the cat", "the dog")]
    meant = [["le chat", "ce chat"] * 10, ["le chien"] * 10]
    found = evaluate(model, tmp_path / "pairs.tsv")
    assert found == {"bleu": metrics.bleu(said, meant), "chrf": metrics.chrf(said, meant), "sentences": 2}
    said.clear()
    echo = lambda model, texts, num_beams: said.extend(texts) or texts
    monkeypatch.setattr(EVALUATE, "translate", echo)
    (tmp_path / "sorted.tsv").write_text("a\tb\na c\tb\na cat\tun chat\na cat sat\tun chat\n")
    evaluate(model, tmp_path / "sorted.tsv", limit=2)
    assert said == ["a", "a cat"]  # from all over


def test_a_sentence_that_is_too_long_is_counted(tmp_path: Path, refused: Callable[..., None]) -> None:
    rows = [("the cat", "le chat"), ("the dog", "le chien")] * 10
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    model = made("translate", tmp_path / "m", data=str(tmp_path / "pairs.tsv"), width=16, depth=1, vocab_size=300)
    long = f"{'x ' * 1000}\tlong\n"
    (tmp_path / "one.tsv").write_text(f"the cat\tle chat\n{long}")
    faults = Faults()
    found = evaluate(model, tmp_path / "one.tsv", faults=faults)
    said = [translate(model, "the cat")]
    meant = [["le chat"]]
    assert found == {"bleu": metrics.bleu(said, meant), "chrf": metrics.chrf(said, meant), "sentences": 1}
    assert faults.summary() == ["sentence of more than 128 tokens: 1 (one.tsv line 2)"]
    (tmp_path / "none.tsv").write_text(long)
    says = "every sentence exceeds the model's context of 128 tokens: give shorter ones"
    refused(InputError, says, lambda: evaluate(model, tmp_path / "none.tsv"))


def test_a_paraphrase_that_is_too_long_is_counted(bert: Path, tmp_path: Path, refused: Callable[..., None]) -> None:
    model = load_folder(bert)
    (tmp_path / "some.tsv").write_text(f"the cat\ta dog\n{'cat ' * 40}\tlong\nthe mat\t{'mat ' * 40}\n")
    faults = Faults()
    found = evaluate(model, tmp_path / "some.tsv", faults=faults)
    assert found == {"mean_reciprocal_rank": 1, "recall_at_1": 1, "pairs": 1}
    lines = "2 (some.tsv line 2, some.tsv line 3)"
    assert faults.summary() == [f"sentence that is empty or exceeds the model's context: {lines}"]
    (tmp_path / "none.tsv").write_text(f"{'cat ' * 40}\tlong\n")
    refused(InputError, "none of the pairs could be used", lambda: evaluate(model, tmp_path / "none.tsv"))


def test_text(tmp_path: Path) -> None:
    """Against torch's own cross entropy over the same blocks, and the bytes that their tokens decode to."""
    text = "".join(f"{i} cats sat on {i * i} mats\n" for i in range(300))
    (tmp_path / "text.txt").write_bytes(text.encode() + b"\xff\n")
    model = made("generate", tmp_path / "m", data=str(tmp_path / "text.txt"), width=16, depth=1, vocab_size=300)
    faults = Faults()
    found = evaluate(model, tmp_path / "text.txt", limit=2, faults=faults)
    assert faults.summary() == ["bytes that are not UTF-8: 1 (text.txt line 301)"]
    assert found["blocks"] == 2
    tokenizer, total, size = raw_tokenizer(model), 0.0, 0
    ids = torch.tensor(tokenizer.encode(f"{text}\ufffd\n").ids)
    for i in (0, (len(ids) - 1) // 256 // 2):
        row = ids[256 * i : 256 * i + 257]
        with torch.no_grad():
            total += float(cross_entropy(model(row[None, :-1])[0], row[1:], reduction="sum"))
        size += len(tokenizer.decode(row[1:].tolist()).encode())
    assert found["bits_per_byte"] == pytest.approx(total / math.log(2) / size)
    assert found["perplexity_per_byte"] == pytest.approx(math.exp(total / size))
    assert found["nats"] == pytest.approx(total / 512)


def test_paraphrases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("the cat sat", "a cat sat"), ("markets fell", "stocks fell"), ("it rains", "rain falls")]
    (tmp_path / "text.txt").write_text("".join(f"{a} {b}\n" for a, b in rows) * 20)
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    model = made("embed", tmp_path / "m", data=str(tmp_path / "text.txt"), width=16, depth=1, vocab_size=300)
    S = embed(model, [a for a, _ in rows]) @ embed(model, [b for _, b in rows]).mT
    ranks = [1 / (1 + sum(float(S[i, j]) >= float(S[i, i]) for j in range(3) if j != i)) for i in range(3)]
    found = evaluate(model, tmp_path / "pairs.tsv")
    assert found["mean_reciprocal_rank"] == pytest.approx(sum(ranks) / 3)
    assert found["recall_at_1"] == pytest.approx(sum(rank == 1 for rank in ranks) / 3)
    seen: list[str] = []
    monkeypatch.setattr(EVALUATE, "embed", lambda model, texts: seen.extend(texts) or embed(model, texts))
    (tmp_path / "sorted.tsv").write_text("a\tb\na cat\tcats\na cat sat\tcats sat\na cat sat on\tcats sat on\n")
    evaluate(model, tmp_path / "sorted.tsv", limit=2)
    assert seen == ["a", "a cat sat", "b", "cats sat"]  # from all over


def test_words_left_out_of_sentences(tmp_path: Path, refused: Callable[..., None]) -> None:
    """What the training itself measures on held-out lines."""
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n\nthe dog ran\n" * 20)
    text = str(tmp_path / "text.txt")
    own, objective = build(TrainArgs(task="embed", data=text, val=text, width=16, depth=1))
    model = load_folder(objective.save(own.eval(), tmp_path / "m"))
    faults = Faults()
    found = evaluate(model, tmp_path / "text.txt", faults=faults)
    assert found == {**objective.evaluate(own), "sentences": 40}
    assert faults.counts == {"empty line": 20}
    assert evaluate(model, tmp_path / "text.txt", limit=3)["sentences"] == 3
    (tmp_path / "sorted.txt").write_text("a\na cat\na cat sat\na cat sat on\n")
    (tmp_path / "some.txt").write_text("a\na cat sat\n")
    assert evaluate(model, tmp_path / "sorted.txt", limit=2) == evaluate(model, tmp_path / "some.txt")
    says = "this encoder has no head for masked tokens: give pairs"
    mute = Encoder(replace(encoder.tiny(), word_head=False))
    refused(InputError, says, lambda: evaluate(mute, tmp_path / "text.txt"))


def test_recordings(tmp_path: Path) -> None:
    model = made("transcribe", tmp_path / "m", data="librivox", width=16, depth=1)
    table = open_data("librivox") / "test.tsv"
    recordings = Recordings.open(table)
    texts = transcribe(model, recordings.wave(0)).text, recordings.sentence(0)
    said, meant = map(normalize_transcript, texts)
    found = evaluate(model, table, limit=1)
    assert found == {"word_error_rate": metrics.word_error_rate([said], [meant]), "recordings": 1}


def test_recordings_from_all_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made("transcribe", tmp_path / "m", data="librivox", width=16, depth=1)
    table = tmp_path / "table.tsv"
    table.write_text("path\tsentence\n" + "".join(f"{i}.wav\ta b\n" for i in range(6)))
    heard: list[int] = []
    monkeypatch.setattr(Recordings, "wave", lambda self, i: heard.append(i))
    monkeypatch.setattr(EVALUATE, "transcribe", lambda model, wave: SimpleNamespace(text="a"))
    assert evaluate(model, table, limit=2)["recordings"] == 2
    assert heard == [0, 3]


def test_what_is_refused(refused: Callable[..., None], tmp_path: Path) -> None:
    refused(InputError, "there is no metric for a CLIP of this kind", lambda: evaluate(CLIP(clip.tiny()), tmp_path))
    refused(InputError, "limit must be at least 1, got 0", lambda: evaluate(CLIP(clip.tiny()), tmp_path, limit=0))
