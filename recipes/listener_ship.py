"""Measures the listener and its peers on held-out recordings, and puts the listener into the package with its card.

Weights of the search (how much the spelling counts) are chosen on the validation part, for each network its own; the
test part is heard once, live, in pieces of 40 ms.
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from listener import FIRST, HEARING, SECOND, SEED, part
from torch import nn

from glassformer.checkpoints import load
from glassformer.core.audio import log_mel
from glassformer.models import Speech
from glassformer.tasks import listen, transcribe
from glassformer.tasks.data.recordings import Recordings
from glassformer.tasks.ears import Rows, answers
from glassformer.tasks.learn.heard import PIECE, Told, summary, told
from glassformer.tasks.learn.speech import save_speech
from glassformer.tasks.live import reader_of
from glassformer.tasks.shipped import HERE
from glassformer.tasks.sources import open_data
from glassformer.tasks.spelling import Search, Spelling
from glassformer.tasks.symbols import Hearing, hearing_of, spoken
from glassformer.tasks.word_errors import error_rate

SENTENCES, REAL = 60_000, 60  # of Tatoeba; times that a real transcript counts beside them
WEIGHTS = [(0.5, 0.6), (0.7, 0.3), (0.7, 0.6), (0.9, 0.6), (0.9, 1.0)]  # α, γ
WIDTH = 16
KINDS = {"listener": "Transformer in chunks", "gru": "GRU", "convolution": "dilated convolutions"}


def spelling() -> Spelling:
    """Of the transcripts that it was trained on, and of more sentences of the same text."""
    real = part("asterisk-en", "train")
    with (open_data("tatoeba-en-fr") / "train.tsv").open(encoding="utf-8") as file:
        sentences = list(dict.fromkeys(line.split("\t")[0] for line in file))[:SENTENCES]
    lines = [f" {spoken(line)} " for line in [*sentences, *[real.sentence(i) for i in range(len(real))] * REAL]]
    symbols = HEARING.symbols
    texts = (symbols.encode(line) for line in lines if set(line) <= set(symbols.names))
    return Spelling.of(texts, len(symbols), order=7, least=4)


@torch.no_grad()
def rows_of(model: nn.Module, recordings: Recordings) -> list[tuple[Rows, str]]:
    """Rows of each recording, heard at once."""
    found = []
    for i in range(len(recordings)):
        frames = log_mel(recordings.wave(i), HEARING.mel).float()
        logits, _ = answers(model, frames[None], torch.tensor([len(frames)]), HEARING)
        found.append((Rows(logits[0], len(frames) * HEARING.mel.hop), spoken(recordings.sentence(i))))
    return found


def read(rows: Rows, hearing: Hearing) -> str:
    reader = reader_of(hearing)
    return " ".join(word.text for word in [*reader.feed(rows), *reader.finish(rows.samples / hearing.mel.rate)])


def errors(rows: list[tuple[Rows, str]], hearing: Hearing) -> float:
    return error_rate((read(one, hearing).split(), meant.split()) for one, meant in rows)


def searched(model: nn.Module, letters: Spelling) -> Hearing:
    """The weights that do best on the validation part."""
    rows = rows_of(model, part("asterisk-en", "valid"))
    trials = [replace(HEARING, spelling=letters, search=Search(alpha=a, gamma=g, width=WIDTH)) for a, g in WEIGHTS]
    return min(trials, key=lambda hearing: errors(rows, hearing))


def measured(run: Path, kind: str, letters: Spelling) -> tuple[dict[str, Any], Hearing, list[Told]]:
    model = load(run / f"{kind}-second" / "model")
    hearing = searched(model, letters)
    test = part("asterisk-en", "test")
    heard = told(model, test, hearing)
    logs = [run / f"{kind}-{name}" / "log.jsonl" for name in ("first", "second")]
    last = [json.loads(log.read_text().splitlines()[-1]) for log in logs]
    return (
        {
            "kind": type(model).__name__,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "search": {"alpha": hearing.search.alpha, "gamma": hearing.search.gamma},
            "held_out": summary(heard) | {"wer_without_spelling": round(errors(rows_of(model, test), HEARING), 4)},
            "trained": {"steps": [line["step"] for line in last], "seconds": round(sum(o["seconds"] for o in last))},
        },
        hearing,
        heard,
    )


def exact(model: nn.Module, recordings: Recordings) -> dict[str, int]:
    """How many recordings say the same, heard live and whole: by `transcribe`, and in one pass of the network."""
    hearing, same = hearing_of(model), {"recordings": len(recordings), "whole": 0, "one_pass": 0}
    passes = rows_of(model, recordings)
    for i, (rows, _) in enumerate(passes):
        wave = recordings.wave(i)
        live = " ".join(word.text for word in listen(model, wave.split(PIECE)))
        same["whole"] += live == transcribe(model, wave).text
        same["one_pass"] += live == read(rows, hearing)
    return same


def clips() -> list[Recordings]:
    return [part("librivox", name) for name in ("train", "valid", "test")]


def ship(run: Path, folder: Path = HERE / "listener") -> dict[str, Any]:
    torch.set_num_threads(1)
    letters = spelling()
    ours, hearing, heard = measured(run, "listener", letters)
    save_speech(load(run / "listener-second" / "model"), folder, hearing, half=True)
    model = load(folder)
    assert isinstance(model, Speech)
    others = [kind for kind in KINDS if kind != "listener" and (run / f"{kind}-second" / "model").is_dir()]
    machine = {"processor": processor(), "threads": 1, "torch": torch.__version__, "python": platform.python_version()}
    result = {
        "model": "listener",
        "seed": SEED,
        "steps": [FIRST, SECOND],
        "machine": machine,
        **ours,
        "algorithmic_latency_seconds": round(model.config.latency.seconds, 3),
        "same_text_as_live": exact(model, part("asterisk-en", "test")),
        "librivox": summary([one for recordings in clips() for one in told(model, recordings)]),
        "peers": {kind: measured(run, kind, letters)[0] for kind in others},
    }
    (folder / "measured.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / "card.md").write_text(card(result, heard), encoding="utf-8")
    for one in heard:
        print(f"{one.meant}\n    {one.said}")
    return result


def card(result: dict[str, Any], heard: list[Told]) -> str:
    held, clips, machine = result["held_out"], result["librivox"], result["machine"]
    percent = lambda value: f"{100 * value:.1f} %"
    row = lambda name, one: (
        f"| {name} | {KINDS[name]} | {one['parameters']:,} | {percent(one['held_out']['wer'])} | "
        f"{percent(one['held_out']['wer_without_spelling'])} | {one['held_out']['latency_after_sound_median']:.2f} s |"
    )
    table = [row("listener", result), *(row(name, one) for name, one in result["peers"].items())]
    best = sorted(heard, key=lambda one: error_rate([(one.said.split(), one.meant.split())]))
    lines = [f"| {one.meant} | {one.said} |" for one in (*best[:: max(1, len(best) // 8)], best[-1])]
    same = result["same_text_as_live"]
    fields = {
        "parameters": f"{result['parameters']:,}",
        "same": f"{same['whole']} of {same['recordings']}",
        "wer": percent(held["wer"]),
        "cer": percent(held["cer"]),
        "recordings": held["recordings"],
        "words": held["words"],
        "clips": percent(clips["wer"]),
        "after": f"{held['latency_after_sound_median']:.2f}",
        "after_95": f"{held['latency_after_sound_95']:.2f}",
        "single": f"{held['latency_of_single_words_median']:.2f}",
        "single_95": f"{held['latency_of_single_words_95']:.2f}",
        "latency": f"{result['algorithmic_latency_seconds']:.2f}",
        "factor": percent(held["real_time_factor"]),
        "processor": machine["processor"],
        "torch": machine["torch"],
        "steps": " and then ".join(f"{count:,}" for count in result["trained"]["steps"]),
        "seed": result["seed"],
        "minutes": f"{result['trained']['seconds'] / 60:.0f}",
        "peers": "\n".join(table),
        "examples": "\n".join(lines),
    }
    return (Path(__file__).parent / "listener_card.md").read_text(encoding="utf-8").format(**fields)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    print(json.dumps(ship(Path(sys.argv[1])), indent=1))
