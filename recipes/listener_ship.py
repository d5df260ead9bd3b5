"""Measure the listener on held-out recordings, and put it into the package with its card.

The word error rate is that of `glassformer evaluate -m listener asterisk-en`: the text of `transcribe` for every test
recording, without case and punctuation. Prompts that overlap with training prompts are reported separately. Latencies
are those of live transcription in pieces of 40 ms; the ends of first words are found by another recogniser
(word_ends.py). The weight of the language model in the search is chosen on the validation split.

    python recipes/listener_ship.py RUNS          # after recipes/listener.py
    python recipes/listener_ship.py --describe    # measure the word error rates of the shipped model again
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from latency import PIECE, Told, delays, summary, told
from listener import FIRST_STAGE, RECOGNIZER, SECOND_STAGE, SEED, WHAT, part
from shared import machine
from texts import minutes, table
from torch import nn
from word_ends import word_ends

from glassformer.checkpoints import load_folder
from glassformer.core.audio import log_mel
from glassformer.data.recordings import Recordings
from glassformer.data.sources import open_data
from glassformer.models import Speech
from glassformer.pipelines import transcribe, transcribe_stream
from glassformer.pipelines.loading import HERE
from glassformer.pipelines.metrics import error_rate
from glassformer.pipelines.speech.charset import RecognizerConfig, normalize_transcript, recognizer_config
from glassformer.pipelines.speech.ctc_stream import LogitRows, ctc_rows
from glassformer.pipelines.speech.ngram import CharNgram, WordSearch
from glassformer.pipelines.transcribe import word_decoder
from glassformer.runtime import card as circumstances
from glassformer.train.objectives.ctc import save_speech

SENTENCES, REAL = 60_000, 60  # sentences of Tatoeba; repetitions of a real transcript
WEIGHTS = [(0.3, 0.6), (0.5, 0.6), (0.7, 0.6), (0.6, 0.9)]  # α, γ
WIDTH = 16
HOLD, PAUSE, FIRST = 2, 0.36, 0.24  # chosen on the validation split


def reading() -> RecognizerConfig:
    """Return the recogniser with a character n-gram model of the training transcripts and of Tatoeba."""
    real, symbols = part("asterisk-en", "train"), RECOGNIZER.charset
    with (open_data("tatoeba-en-fr") / "train.tsv").open(encoding="utf-8") as file:
        sentences = list(dict.fromkeys(line.split("\t")[0] for line in file))[:SENTENCES]
    prompts = [real.sentence(i) for i in range(len(real))]
    lines = [f" {normalize_transcript(line)} " for line in [*sentences, *prompts * REAL]]
    texts = (symbols.encode(line) for line in lines if set(line) <= set(symbols.names))
    spelling = CharNgram.of(texts, len(symbols), order=7, least=4)
    return replace(RECOGNIZER, ngram=spelling, search=WordSearch(width=WIDTH, hold=HOLD, pause=PAUSE, first=FIRST))


@torch.no_grad()
def rows_of(model: nn.Module, recordings: Recordings) -> list[tuple[LogitRows, str]]:
    """Return the logits of each recording, computed in one pass, and its transcript."""
    found = []
    for i in range(len(recordings)):
        frames = log_mel(recordings.wave(i), RECOGNIZER.mel).float()
        logits, _ = ctc_rows(model, frames[None], torch.tensor([len(frames)]), RECOGNIZER)
        rows = LogitRows(logits[0], len(frames) * RECOGNIZER.mel.hop)
        found.append((rows, normalize_transcript(recordings.sentence(i))))
    return found


def read(rows: LogitRows, recognizer: RecognizerConfig) -> str:
    reader = word_decoder(recognizer)
    return " ".join(word.text for word in [*reader.feed(rows), *reader.finish(rows.samples / recognizer.mel.rate)])


def errors(rows: list[tuple[LogitRows, str]], recognizer: RecognizerConfig) -> float:
    return error_rate((read(one, recognizer).split(), meant.split()) for one, meant in rows)


def searched(model: nn.Module, recognizer: RecognizerConfig) -> RecognizerConfig:
    """Return the search weights with the lowest word error rate on the validation split."""
    rows = rows_of(model, part("asterisk-en", "valid"))
    trials = [replace(recognizer, search=replace(recognizer.search, alpha=a, gamma=g)) for a, g in WEIGHTS]
    return min(trials, key=lambda one: errors(rows, one))


def first_words(heard: list[Told], recordings: Recordings) -> dict[str, float]:
    """Delays of the first word after the end of the spoken first word, where that end is known."""
    if len(heard) != len(recordings):
        raise SystemExit(f"{len(recordings) - len(heard)} recordings of the split cannot be used")
    late = []
    for i, one in enumerate(heard):
        ends = word_ends(recordings.wave(i), one.meant.split())
        if ends and one.words:
            late.append(one.words[0].known - ends[0])
    return {"recordings": len(late), **delays(torch.tensor(late)), "longest": round(max(late, default=0.0), 3)}


def measured(run: Path, recognizer: RecognizerConfig) -> tuple[dict[str, Any], RecognizerConfig]:
    model = load_folder(run / SECOND_STAGE / "model")
    recognizer = searched(model, recognizer)
    test = part("asterisk-en", "test")
    heard = told(model, test, recognizer)
    return (
        {
            "kind": type(model).__name__,
            "what": WHAT,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "search": asdict(recognizer.search),
            "held_out": summary(heard) | {"wer_without_spelling": round(errors(rows_of(model, test), RECOGNIZER), 4)},
            "first_words": first_words(heard, test),
            "trained": trained(run),
        },
        recognizer,
    )


def trained(run: Path) -> dict[str, Any]:
    """Steps of each stage, and the time of both."""
    folders = (run / FIRST_STAGE, run / SECOND_STAGE)
    parts = [json.loads((folder / "trained.json").read_text(encoding="utf-8")) for folder in folders]
    seconds = {name: sum(one[name] for one in parts) for name in ("seconds", "processor_seconds")}
    left_out = [line for one in parts for line in one["left_out"]]
    return {"steps": [one["steps"] for one in parts], "seed": SEED, **seconds, "left_out": left_out}


def exact(model: nn.Module, recordings: Recordings) -> dict[str, int]:
    """Count recordings whose live text equals that of `transcribe`, and that of one pass of the network."""
    recognizer, same = recognizer_config(model), {"recordings": len(recordings), "whole": 0, "one_pass": 0}
    passes = rows_of(model, recordings)
    for i, (rows, _) in enumerate(passes):
        wave = recordings.wave(i)
        live = " ".join(word.text for word in transcribe_stream(model, wave.split(PIECE)))
        same["whole"] += live == transcribe(model, wave).text
        same["one_pass"] += live == read(rows, recognizer)
    return same


def clips() -> list[Recordings]:
    return [part("librivox", name) for name in ("train", "valid", "test")]


def ship(run: Path, folder: Path = HERE / "listener") -> dict[str, Any]:
    torch.set_num_threads(1)
    ours, own = measured(run, reading())
    save_speech(load_folder(run / SECOND_STAGE / "model"), folder, own, half=True)
    model = load_folder(folder)
    assert isinstance(model, Speech)
    result = {
        "model": "listener",
        "seed": SEED,
        "machine": circumstances(),
        **ours,
        "algorithmic_latency_seconds": round(model.config.latency.seconds, 3),
        "same_text_as_live": exact(model, part("asterisk-en", "test")),
        "librivox": summary([one for recordings in clips() for one in told(model, recordings)]),
    }
    return describe(folder, result)


def describe(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Measure the word error rates of the model in the folder, and write measured.json and card.md."""
    model = load_folder(folder)
    result["held_out"] = result["held_out"] | word_error_rates(model)
    result["librivox"]["wer"] = word_error_rates(model, clips())["wer"]
    result["examples"] = examples(model)
    (folder / "measured.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / "card.md").write_text(card(result), encoding="utf-8")
    return result


def transcripts(model: nn.Module, recordings: Recordings) -> list[tuple[str, str]]:
    """The text of `transcribe` and the reference of every recording, as `evaluate` compares them."""
    return [
        (normalize_transcript(transcribe(model, recordings.wave(i)).text), normalize_transcript(recordings.sentence(i)))
        for i in range(len(recordings))
    ]


def overlaps(prompt: str, known: set[tuple[str, ...]]) -> bool:
    """Whether at least half of the prompt's word trigrams (or the whole of a shorter prompt) occur in training."""
    words = tuple(prompt.split())
    grams = [words[i : i + 3] for i in range(max(1, len(words) - 2))]
    return 2 * sum(gram in known for gram in grams) >= len(grams)


def word_error_rates(model: nn.Module, sets: Sequence[Recordings] | None = None) -> dict[str, Any]:
    """WER and CER of all recordings, and WER of prompts that overlap with training prompts and of the others."""
    pairs = [one for some in sets or [part("asterisk-en", "test")] for one in transcripts(model, some)]
    train = part("asterisk-en", "train")
    known: set[tuple[str, ...]] = set()
    for i in range(len(train)):
        words = tuple(normalize_transcript(train.sentence(i)).split())
        known |= {words[j : j + n] for n in (1, 2, 3) for j in range(len(words) - n + 1)}
    groups = {
        "overlapping": [one for one in pairs if overlaps(one[1], known)],
        "other": [one for one in pairs if not overlaps(one[1], known)],
    }
    rate = lambda some: round(error_rate((said.split(), meant.split()) for said, meant in some), 4) if some else None
    return {
        "recordings": len(pairs),
        "words": sum(len(meant.split()) for _, meant in pairs),
        "wer": rate(pairs),
        "cer": round(error_rate(pairs), 4),
        **{
            f"{name}_prompts": {
                "recordings": len(some),
                "words": sum(len(meant.split()) for _, meant in some),
                "wer": rate(some),
            }
            for name, some in groups.items()
        },
    }


def examples(model: nn.Module) -> list[list[str]]:
    """Return references and transcripts, from the best to the worst."""
    pairs = transcripts(model, part("asterisk-en", "test"))
    best = sorted(pairs, key=lambda one: error_rate([(one[0].split(), one[1].split())]))
    return [[meant, said] for said, meant in (*best[:: max(1, len(best) // 8)], best[-1])]


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def card(result: dict[str, Any]) -> str:
    held, same, made = result["held_out"], result["same_text_as_live"], result["trained"]
    first = {"recordings": 0, "median": 0.0, "within_half_a_second": 0.0, "longest": 0.0} | result["first_words"]
    groups = {}
    for name in ("overlapping", "other"):
        one = held[f"{name}_prompts"]
        groups |= {f"{name}": "–" if one["wer"] is None else percent(one["wer"]), f"{name}_words": one["words"]}
        groups[f"{name}_count"] = one["recordings"]
    fields = {
        "parameters": f"{result['parameters']:,}",
        "same": f"{same['whole']} of {same['recordings']}",
        "wer": percent(held["wer"]),
        "cer": percent(held["cer"]),
        "recordings": held["recordings"],
        "words": held["words"],
        "clips": percent(result["librivox"]["wer"]),
        "after": f"{held['latency_after_sound_median']:.2f}",
        "after_95": f"{held['latency_after_sound_95']:.2f}",
        "soon": percent(held["latency_after_sound_within_half_a_second"]),
        "single": f"{held['latency_of_single_words_median']:.2f}",
        "single_soon": percent(held["latency_of_single_words_within_half_a_second"]),
        "letter_soon": percent(held["latency_after_last_letter_within_half_a_second"]),
        "first_soon": percent(first["within_half_a_second"]),
        "first_median": f"{first['median']:.2f}",
        "first_longest": f"{first['longest']:.2f}",
        "first_count": first["recordings"],
        "first_letter_soon": percent(held["latency_of_first_words_within_half_a_second"]),
        "letter_before": f"{held['letter_before_sound_median']:.2f}",
        "latency": f"{result['algorithmic_latency_seconds']:.2f}",
        "factor": percent(held["real_time_factor"]),
        "machine": machine(result),
        "first": f"{made['steps'][0]:,}",
        "second": f"{made['steps'][1]:,}",
        "seed": result["seed"],
        "minutes": minutes(result),
        "pause": f"{result['search']['pause']:.2f}",
        "hold": result["search"]["hold"],
        "first_pause": f"{result['search']['first']:.2f}",
        "examples": table("reference|transcript", result["examples"]),
        **groups,
    }
    return (Path(__file__).parent / "listener_card.md").read_text(encoding="utf-8").format(**fields)


if __name__ == "__main__":
    if sys.argv[1:] == ["--describe"]:
        shipped = HERE / "listener"
        describe(shipped, json.loads((shipped / "measured.json").read_text(encoding="utf-8")))
    else:
        print(json.dumps(ship(Path(sys.argv[1])), indent=1))
