"""A fuzzer of checkpoint folders: python tests/fuzz_checkpoints.py --folders 10000 --seed 0

Small models of every published family, saved by Hugging Face's own classes with tokenizers, chat templates, decoding
parameters and preprocessing, and a folder of our own, are damaged: bytes are cut, flipped, inserted or repeated, whole
files replaced or removed, values in JSON files exchanged. Each folder is loaded and used by the verb of its model. It
fails if anything but a GlassError of one line is raised, or if it takes more than two seconds of processor time, the
subprocess of a chat template included, or 500 MB of memory (that subprocess limits itself to 400 MB).

Folders are tried in shards of 100, each in a process of its own. Folder n of a seed is always the same, and finished
shards are kept in a file that is named after a digest of the code, so an interrupted run continues.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported: nothing is fetched
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from glassformer.checkpoints import load_folder, save
from glassformer.checkpoints.info import verbs_of
from glassformer.errors import GlassError
from glassformer.models import Decoder, decoder
from glassformer.models.protocols import inputs_of
from glassformer.pipelines import classify, embed, generate, has_template, tokenizer_of, transcribe, translate
from glassformer.pipelines.generation_config import generation_config_of

ROOT = Path(__file__).parents[1]
SECONDS = 2.0  # of processor time for one folder
MEGABYTES = 500  # by which the memory of the process may grow for one folder
SHARD = 100  # folders
VALUES = [None, True, 0, -1, 7, 10**9, 10**30, 1.5, float("nan"), "", "x" * 300, [], [1], [[1]], {}, {"a": 1}]
TEXT = "a A b B"  # some words of every vocabulary
WHOLE = (b"", b"null", b"[]", b"{}", b"3", b'"x"', b"\xff\xfe", b"[" * 5000)

SIZES = {"vocab_size": 60, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SIZES |= {"max_position_embeddings": 64}
GPT2 = {"vocab_size": 60, "n_embd": 12, "n_layer": 1, "n_head": 2, "n_positions": 64}
GPT2 |= {"bos_token_id": 0, "eos_token_id": 0}
T5 = {"vocab_size": 60, "d_model": 12, "d_kv": 6, "d_ff": 16, "num_layers": 1, "num_heads": 2, "pad_token_id": 0}
MARIAN = {"vocab_size": 60, "d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
MARIAN |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 64}
MARIAN |= {"pad_token_id": 59, "decoder_start_token_id": 59, "eos_token_id": 0, "forced_eos_token_id": 0}
IMAGE = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8, "patch_size": 4}
WHISPER = {name: MARIAN[name] for name in MARIAN if name not in ("max_position_embeddings", "forced_eos_token_id")}
WHISPER |= {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 14, "pad_token_id": 0}
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|> {{ message['content'] | trim }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


# -- folders that are right --------------------------------------------------------------------------------------------


def words() -> list[str]:
    letters = (chr(ord("a") + i % 26) + "#" * (i // 26) for i in range(55))
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]


def with_word_pieces(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(words()), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}), encoding="utf-8")


def with_merges(folder: Path) -> None:
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())[:57]
    tokens = ["<|endoftext|>", *letters, letters[0] + letters[1], letters[2] + letters[3]]
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}), encoding="utf-8")
    pairs = "\n".join(["#version: 0.2", f"{letters[0]} {letters[1]}", f"{letters[2]} {letters[3]}"])
    (folder / "merges.txt").write_text(pairs + "\n", encoding="utf-8")


def with_json(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words())}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def with_chat(folder: Path) -> None:
    with_json(folder)
    card = {"chat_template": TEMPLATE, "eos_token": "[SEP]", "bos_token": {"content": "[CLS]"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(card), encoding="utf-8")


def with_chat_file(folder: Path) -> None:
    with_json(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


def with_sentencepiece(folder: Path) -> None:
    """Marian's files: a sentencepiece model per language, and a vocabulary of both."""
    import sentencepiece as spm

    out = io.BytesIO()
    text = ["the cat sat on the mat", "a dog ran to the house", "she reads a good book"] * 4
    spm.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=out, vocab_size=26, minloglevel=2)
    pieces = spm.SentencePieceProcessor(model_proto=out.getvalue())
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(out.getvalue())
    known = [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    tokens = list(dict.fromkeys(["</s>", "<unk>", *known, "<pad>"]))
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "fr"}', encoding="utf-8")


def with_modules(folder: Path) -> None:
    """The files of a sentence encoder: mean pooling, then normalisation."""
    with_word_pieces(folder)
    kinds = ("Transformer", "Pooling", "Normalize")
    listed = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}', encoding="utf-8")


def with_pixels(folder: Path) -> None:
    card = {"do_resize": True, "size": {"height": 8, "width": 8}, "resample": 2, "do_rescale": True}
    card |= {"rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(card), encoding="utf-8")


def with_frames(folder: Path) -> None:
    with_json(folder)
    card = {"feature_size": 8, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400, "chunk_length": 30}
    (folder / "preprocessor_config.json").write_text(json.dumps(card), encoding="utf-8")


Files = Callable[[Path], None]
LABELS = {"num_labels": 3, "id2label": {0: "sad", 1: "so so", 2: "glad"}, "label2id": {"sad": 0, "so so": 1, "glad": 2}}
ROPE = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROPE |= {"original_max_position_embeddings": 16}
BEAMS = {"num_beams": 2, "repetition_penalty": 1.2, "no_repeat_ngram_size": 2, "bad_words_ids": [[3, 4], [5]]}
BEAMS |= {"suppress_tokens": [7], "length_penalty": 0.5, "max_new_tokens": 8, "early_stopping": True}
SPEECH = {"no_timestamps_token_id": 40, "lang_to_id": {"<|en|>": 30}, "task_to_id": {"transcribe": 31}}
SPEECH |= {"suppress_tokens": [7], "begin_suppress_tokens": [8], "max_initial_timestamp_index": 5}
KINDS: dict[str, tuple[str, dict[str, Any], Files, dict[str, Any]]] = {  # class, config, other files, generation
    "bert": ("BertForSequenceClassification", SIZES | LABELS, with_word_pieces, {}),
    "bert-sentences": ("BertModel", SIZES, with_modules, {}),
    "bert-words": ("BertForTokenClassification", SIZES | LABELS, with_word_pieces, {}),
    "roberta": ("RobertaForSequenceClassification", SIZES | LABELS | {"problem_type": "regression"}, with_json, {}),
    "gpt2": ("GPT2LMHeadModel", GPT2, with_merges, BEAMS),
    "llama": ("LlamaForCausalLM", SIZES | {"rope_parameters": ROPE}, with_chat, {}),
    "mistral": ("MistralForCausalLM", SIZES | {"sliding_window": 8, "num_key_value_heads": 1}, with_chat_file, {}),
    "t5": ("T5ForConditionalGeneration", T5 | {"decoder_start_token_id": 0}, with_json, BEAMS),
    "marian": ("MarianMTModel", MARIAN, with_sentencepiece, BEAMS),
    "whisper": ("WhisperForConditionalGeneration", WHISPER, with_frames, SPEECH),
    "vit": ("ViTForImageClassification", IMAGE | LABELS, with_pixels, {}),
    "deit": ("DeiTForImageClassification", IMAGE | LABELS, with_pixels, {}),
    "dinov2": ("Dinov2ForImageClassification", IMAGE | LABELS, with_pixels, {}),
}


def make_folders(place: Path) -> list[Path]:
    """Write one folder of each kind, with random weights."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    made = []
    for name, (kind, changes, files, generation) in KINDS.items():
        model = getattr(transformers, kind)
        torch.manual_seed(0)
        peer = model(model.config_class(**changes))
        peer.save_pretrained(place / name)
        files(place / name)
        if generation:
            path = place / name / "generation_config.json"
            old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            path.write_text(json.dumps(old | generation), encoding="utf-8")
        made.append(place / name)
    save(Decoder(decoder.plain(60, 12, 1, 2, 64), seed=0), place / "own")
    with_json(place / "own")
    return [*made, place / "own"]


# -- folders that are not ----------------------------------------------------------------------------------------------


def mutate(path: Path, draw: random.Random) -> None:
    """Cut, flip, insert or repeat bytes, replace or remove the file, or put another value somewhere into its JSON."""
    data = bytearray(path.read_bytes())
    way = draw.randrange(8 if path.suffix == ".json" else 6)
    at = draw.randrange(max(1, len(data)))
    if way == 0:
        data = data[:at]
    elif way == 1 and data:
        for _ in range(draw.randrange(1, 8)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif way == 2:
        data[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))
    elif way == 3:
        data = data[:at] + data[at : at + 40] * 3 + data[at:]
    elif way == 4:
        data = bytearray(draw.choice(WHOLE))
    elif way == 5 and draw.random() < 0.2:
        path.unlink()
        return
    else:
        data = bytearray(_with_another_value(data, draw))
    path.write_bytes(bytes(data))


def _with_another_value(data: bytes | bytearray, draw: random.Random) -> bytes:
    """Exchange or delete a value in a JSON document; in others, exchange a number."""
    try:
        text = json.loads(data)
    except ValueError:
        digits = [i for i, byte in enumerate(data) if 48 <= byte < 58]
        if not digits:
            return bytes(data)
        at = draw.choice(digits)
        return bytes(data[:at]) + draw.choice((b"", b"-1", b"999999999", b"x")) + bytes(data[at + 1 :])
    node: Any = text
    while isinstance(node, dict | list) and node:
        key: Any = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
        if not isinstance(node[key], dict | list) or not node[key] or draw.random() < 0.3:
            if draw.random() < 0.3 and isinstance(node, dict):
                del node[key]
            else:
                node[key] = draw.choice(VALUES)
            break
        node = node[key]
    return json.dumps(text).encode()


def damaged(folders: Sequence[Path], copy: Path, draw: random.Random) -> list[str]:
    """Copy a folder and damage one to three of its files; return their names."""
    base = draw.choice(folders)
    shutil.copytree(base, copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file() and path.suffix != ".safetensors")
    weights = sorted(copy.glob("*.safetensors"))
    chosen = [draw.choice(weights if draw.random() < 0.1 else files) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    for path in dict.fromkeys(chosen):
        mutate(path, draw)
    return [f"{base.name}/{path.relative_to(copy)}" for path in dict.fromkeys(chosen)]


def use(folder: Path) -> None:
    """Load the folder and use its model by every verb that it has, on a small input."""
    from PIL import Image

    model = load_folder(folder).eval()
    generation_config_of(model)
    if "text" in inputs_of(model):
        tokenizer_of(model).decode(tokenizer_of(model).encode_all([TEXT])[0])
    for verb in verbs_of(model, words=True):
        match verb:
            case "generate":
                chat = [{"role": "user", "content": TEXT}] if has_template(model) else TEXT
                generate(model, chat, max_new_tokens=3)  # type: ignore[arg-type]
            case "translate":
                translate(model, [TEXT], max_new_tokens=3)
            case "classify":
                classify(model, Image.new("RGB", (9, 9)) if inputs_of(model)[:1] == ("image",) else TEXT)
            case "embed":
                embed(model, [TEXT, "c"])
            case "transcribe":
                transcribe(model, torch.zeros(3200))


# -- one shard ---------------------------------------------------------------------------------------------------------


def spent() -> float:
    """Return the processor time of this process and of its finished subprocesses."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def peak(*, reset: bool = False) -> float:
    """Return the peak memory in MB of this process since the last reset (Linux), or of its life."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def try_folders(
    folders: Sequence[Path], place: Path, numbers: Sequence[int], seed: int, *, timed: bool = True
) -> dict[str, Any]:
    """Try some folders; the result says how many worked or were refused, and what failed."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    slowest, largest = 0.0, 0.0
    for number in numbers:
        copy = place / str(number)
        changed = damaged(folders, copy, random.Random(f"{seed}-{number}"))
        (place / "last").write_text(f"seed {seed}, folder {number}, {', '.join(changed)}")
        gc.collect(0)
        held, began = peak(reset=True), spent()
        if timed:
            signal.setitimer(signal.ITIMER_PROF, 5 * SECONDS)  # SIGPROF ends the process
        failure = ""
        try:
            use(copy)
            counts["worked"] += 1
        except GlassError as error:
            counts["refused"] += 1
            if "\n" in str(error):
                failure = f"more than one line: {str(error)!r}"
        except Exception:
            failure = traceback.format_exc(limit=-4)
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds, grown = spent() - began, peak() - held
        if timed and not failure and seconds > SECONDS:
            failure = f"{seconds:.1f} s of processor time"
        if not failure and grown > MEGABYTES:
            failure = f"{grown:.0f} MB of memory"
        if failure:
            failures.append(f"seed {seed}, folder {number}, {', '.join(changed)}: {failure}")
        slowest, largest = max(slowest, seconds), max(largest, grown)
        shutil.rmtree(copy)
    return {**counts, "slowest": slowest, "largest": largest, "failures": failures}


# -- all of them -------------------------------------------------------------------------------------------------------


def fingerprint() -> str:
    """Return the digest of the code that is tried, and of this file."""
    package, found = ROOT / "src/glassformer", hashlib.sha256()
    parts = ("core", "nn", "models", "decoding", "checkpoints", "pipelines")
    for path in sorted([Path(__file__), *(path for part in parts for path in (package / part).rglob("*.py"))]):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:12]


def child(folders: list[Path], place: Path, first: int, count: int, seed: int, state: Path) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)
    gc.freeze()
    place.mkdir()
    found = try_folders(folders, place, range(first, first + count), seed)
    with state.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"first": first, "count": count, "seed": seed, **found}) + "\n")
    shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=int, default=10_000, help="How many folders to try.")
    parser.add_argument("--seed", type=int, default=0, help="Random seed.")
    parser.add_argument("--jobs", type=int, default=1, help="Number of processes.")
    parser.add_argument("--state", type=Path, default=Path(".fuzz"), help="Folder of the finished shards.")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.state.mkdir(parents=True, exist_ok=True)
    state = args.state / f"checkpoints-{fingerprint()}.jsonl"
    read = lambda: [json.loads(line) for line in state.read_text().splitlines()] if state.exists() else []
    done = {item["first"]: item for item in read() if item["seed"] == args.seed}
    died: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        folders = make_folders(place / "right")
        for folder in folders:
            use(folder)  # what is not damaged works, and what is imported only once is imported here
        fork, running = multiprocessing.get_context("fork"), list[tuple[Any, Path]]()

        def wait(most: int) -> None:
            while len(running) > most:
                process, shard = running.pop(0)
                process.join(600)
                if process.exitcode is None:
                    process.kill()
                if process.exitcode != 0:
                    died.append(f"{(shard / 'last').read_text()}: ended with code {process.exitcode}")

        for first in range(0, args.folders, SHARD):
            if first in done or len(died) >= 5:
                continue
            shard, count = place / str(first), min(SHARD, args.folders - first)
            process = fork.Process(target=child, args=(folders, shard, first, count, args.seed, state))
            process.start()
            running.append((process, shard))
            wait(args.jobs - 1)
        wait(0)
    sys.exit(report([item for item in read() if item["seed"] == args.seed], died))


def report(found: list[dict[str, Any]], died: list[str]) -> int:
    """Print the counts and every failure; return the exit code."""
    failures = [*(failure for item in found for failure in item["failures"]), *died]
    for failure in failures:
        print(failure, end="\n\n")
    total, worked, refused = (sum(item.get(name, 0) for item in found) for name in ("count", "worked", "refused"))
    slowest, largest = (max((item[name] for item in found), default=0.0) for name in ("slowest", "largest"))
    print(f"{total:,} folders: {worked:,} worked, {refused:,} refused, {len(failures)} failures, ", end="")
    print(f"at most {slowest:.2f} s of processor time and {largest:.0f} MB")
    return 1 if failures else 0


if __name__ == "__main__":
    main()
