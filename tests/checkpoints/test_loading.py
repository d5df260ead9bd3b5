"""Folders to models: memory, provenance, modules of sentence encoders, damaged folders."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import glassformer as gf
from glassformer.checkpoints import load, open_published, origin_of, save
from glassformer.checkpoints.assemble import empty
from glassformer.checkpoints.info import info, verbs_of
from glassformer.checkpoints.sentence import read_sentence
from glassformer.errors import CheckpointError, ConfigError, GlassError, InputError
from glassformer.models import (
    CLIP,
    MLP,
    ConvNet2d,
    Decoder,
    Encoder,
    Hybrid,
    ImageInput,
    Seq2Seq,
    TokenWindow,
    ViT,
    Whisper,
    clip,
    convolutional,
    decoder,
    encoder,
    hybrid,
    mlp,
    seq2seq,
    vit,
    whisper,
)
from glassformer.models.encoder import DenseConfig
from glassformer.pipelines.generation_config import generation_config_of
from glassformer.pipelines.tokenizers import tokenizer_of

# Folders in, models out: without copies, within the memory that the model takes, and never half.


def test_the_model_that_was_published(tiny: Path) -> None:
    model = gf.load(tiny)
    built = Decoder(decoder.plain(30, 12, 2, 3, 20), seed=0).eval()
    ids = torch.arange(20).view(2, 10)
    assert not model.training
    assert torch.equal(model(ids), built(ids))
    assert gf.load(str(tiny), dtype=torch.float64)(ids).dtype == torch.float64


def test_training_leaves_the_file_alone(tiny: Path) -> None:
    before = (tiny / "model.safetensors").read_bytes()
    model = gf.load(tiny).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.arange(10)[None]).square().sum().backward()
    optimiser.step()
    assert (tiny / "model.safetensors").read_bytes() == before


def test_opening_reads_no_weights(tiny: Path) -> None:
    published = open_published(tiny)
    assert published.family.name == "gpt2"
    assert published.config.text.depth == 2
    assert not published.weights._maps


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_layer": 10**9}, "n_layer is 1000000000"),
        ({"n_embd": 10**9}, "n_embd is 1000000000"),
        ({"n_head": 10**9}, "n_head is 1000000000"),
        ({"vocab_size": 10**30}, "vocab_size is 1000"),
        ({"n_positions": 4000}, r"wpe\.weight is 20×12"),
        ({"n_embd": 13}, "width 13 does not split into 3 heads"),
        ({"n_embd": 24}, "is 12×36, and config.json asks for 24×72"),
        ({"n_layer": 3}, r"weight transformer\.h\.2\..* is missing"),
        ({"n_layer": 1}, r"weight transformer\.h\.1\..* has no place"),
        ({"n_layer": "2"}, "n_layer is '2'"),
        ({"activation_function": "mish"}, "mish"),
        ({"layer_norm_epsilon": "small"}, "layer_norm_epsilon"),
        ({"model_type": "rwkv"}, "rwkv"),
        ({"tie_word_embeddings": False}, r"lm_head\.weight is missing"),
    ],
)
@pytest.mark.timeout(60)
def test_configs_that_do_not_fit_are_refused_quickly(tiny: Path, change: dict[str, Any], said: str) -> None:
    raw = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(json.dumps(raw | change))
    with pytest.raises(GlassError, match=said) as caught:
        gf.load(tiny)
    assert "\n" not in str(caught.value)


def test_bad_folders(tmp_path: Path, tiny: Path) -> None:
    with pytest.raises(InputError, match="there is no model"):
        gf.load(tmp_path / "nowhere")
    (tmp_path / "model.bin").write_bytes(b"\x80")
    with pytest.raises(CheckpointError, match="glassformer convert"):
        gf.load(tmp_path / "model.bin")
    (tiny / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="contains a list"):
        gf.load(tiny)
    (tiny / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes()[:-5])
    (tiny / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(CheckpointError, match="5 bytes after the end"):
        gf.load(tiny)


def test_a_field_that_is_not_there(tiny: Path) -> None:
    (tiny / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(ConfigError, match=r"config\.json has no n_embd"):
        gf.load(tiny)


PEAK = """
import sys, glassformer as gf
gf.load(sys.argv[1]), gf.runtime.machine()  # what loading needs once
status = lambda name: next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(name))
for path in sys.argv[2:]:
    open("/proc/self/clear_refs", "w").write("5")  # the peak counts from here
    before = status("VmHWM")
    model = gf.load(path)
    size = sum(p.numel() * 4 for p in model.parameters()) / 1024
    print((status("VmHWM") - before) / size, size)
    del model
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read from /proc")
@pytest.mark.slow
def test_loading_needs_little_more_than_the_model(tiny: Path, tmp_path: Path, write_gpt2: Any) -> None:
    """At most 1.2 times the model's size, whether the weights are taken as they are or converted."""
    big = empty(Decoder, decoder.plain(8000, 512, 4, 8, 512)).to_empty(device="cpu")
    for weight in big.parameters():
        weight.data.fill_(0.5)
    folders = [write_gpt2(tmp_path / "f32", big), write_gpt2(tmp_path / "bf16", big, torch.bfloat16)]
    run = [sys.executable, "-c", PEAK, *map(str, (tiny, *folders))]
    lines = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        ratio, size = map(float, line.split())
        assert size > 60_000  # kilobytes: large beside everything else
        assert ratio < 1.2


# Folders with damaged files, tokenizers included: a model or one line that says why not, never a traceback.
#
# The slow half tries thousands of them: GLASSFORMER_MUTATIONS=10000 pytest -m slow -k mutated tests/checkpoints.


SIZES = {"vocab_size": 60, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
MARIAN = {
    "vocab_size": 60,
    "d_model": 12,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "max_position_embeddings": 16,
    "pad_token_id": 59,
    "decoder_start_token_id": 59,
    "eos_token_id": 0,
    "forced_eos_token_id": 0,
}
MOST_MEGABYTES = 500  # by which the memory of the process may grow over all folders
VALUES = [None, True, 0, -1, 7, 10**9, 1.5, "", "x" * 300, [], [1], {}, {"a": 1}]


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


def with_sentencepiece(folder: Path) -> None:
    """Marian's files: a sentencepiece model per language, and a vocabulary of both."""
    spm = pytest.importorskip("sentencepiece")
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


@pytest.fixture
def folders(hf: Any, publish: Any, tmp_path: Path) -> list[Path]:
    gpt2 = {"vocab_size": 60, "n_embd": 12, "n_layer": 1, "n_head": 2, "n_positions": 16}
    models = {
        "bert": hf.BertModel(hf.BertConfig(**SIZES, max_position_embeddings=16)),
        "gpt2": hf.GPT2LMHeadModel(hf.GPT2Config(**gpt2, bos_token_id=0, eos_token_id=0)),
        "llama": hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, max_position_embeddings=16)),
        "marian": hf.MarianMTModel(hf.MarianConfig(**MARIAN)),
    }
    bert, gpt, llama, marian = (shutil.move(publish(model), tmp_path / name) for name, model in models.items())
    with_word_pieces(bert)
    with_merges(gpt)
    with_json(llama)
    with_sentencepiece(marian)
    return [bert, gpt, llama, marian]


def mutate(path: Path, draw: random.Random) -> None:
    """Cut, flip, insert or repeat bytes; or another value somewhere in a JSON file."""
    data = bytearray(path.read_bytes())
    way = draw.randrange(6)
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
        data = bytearray(draw.choice([b"", b"null", b"[]", b"{}", b"3", b'"x"', b"\xff\xfe", b"[" * 5000]))
    elif path.suffix == ".json":
        text = json.loads(path.read_text(encoding="utf-8"))
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
        data = bytearray(json.dumps(text).encode())
    path.write_bytes(bytes(data))


def try_mutations(folders: list[Path], place: Path, count: int, seed: int) -> tuple[int, int]:
    """How many folders were refused, of how many; anything but a GlassError, or too much memory, fails the test."""
    draw, refused = random.Random(seed), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        copy = place / str(number)
        shutil.copytree(draw.choice(folders), copy)
        files = sorted(path for path in copy.iterdir() if path.is_file() and path.suffix != ".safetensors")
        weights = sorted(copy.glob("*.safetensors"))
        target = draw.choice(weights) if draw.random() < 0.1 else draw.choice(files)
        mutate(target, draw)
        try:
            model = load(copy)
            tokenizer_of(model).encode_all(["a b c"])
            generation_config_of(model)
        except GlassError as error:
            refused += 1
            if "\n" in str(error):
                pytest.fail(f"seed {seed}, folder {number}: more than one line: {error}")
        except Exception as error:
            pytest.fail(f"seed {seed}, folder {number}, {target.name}: {type(error).__name__}: {error}")
        finally:
            shutil.rmtree(copy)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert grown < MOST_MEGABYTES, f"seed {seed}, folder {number}, {target.name}: {grown:.0f} MB"
    return refused, count


@pytest.mark.timeout(120)
def test_mutated_folders(folders: list[Path], tmp_path: Path) -> None:
    refused, count = try_mutations(folders, tmp_path / "mutated", 150, seed=1)
    assert count / 4 < refused < count  # some damage is harmless


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_mutated_folders(folders: list[Path], tmp_path: Path) -> None:
    count = int(os.environ.get("GLASSFORMER_MUTATIONS", "2000"))
    refused, _ = try_mutations(folders, tmp_path / "mutated", count, seed=2)
    assert refused > count / 4


@pytest.mark.parametrize(
    ("folder", "name", "content"),
    [
        (0, "vocab.txt", b"\xff\xfe\x00"),
        (0, "tokenizer_config.json", b"[]"),
        (0, "tokenizer_config.json", b"{"),
        (1, "vocab.json", b"[]"),
        (1, "vocab.json", b'{"a": "b"}'),
        (1, "merges.txt", b"#version: 0.2\nq\n"),
        (2, "tokenizer.json", b"{}"),
        (3, "vocab.json", b"[]"),
        (3, "source.spm", b"x"),
    ],
)
def test_damaged_tokenizers(folders: list[Path], folder: int, name: str, content: bytes) -> None:
    (folders[folder] / name).write_bytes(content)
    model = load(folders[folder])
    with pytest.raises(GlassError, match=str(folders[folder])):
        tokenizer_of(model)


# modules.json: which modules follow an encoder. The vectors themselves: families/test_text_families.py.


def write(folder: Path, *modules: tuple[str, dict[str, Any]]) -> Path:
    listed = []
    for i, (kind, raw) in enumerate(modules):
        path = f"{i}_{kind}"
        listed.append({"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"})
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps(raw))
    (folder / "modules.json").write_text(json.dumps(listed))
    return folder


TRANSFORMER: tuple[str, dict[str, Any]] = ("Transformer", {})
MEAN: tuple[str, dict[str, Any]] = ("Pooling", {"pooling_mode_mean_tokens": True})


def test_a_plain_folder(tmp_path: Path) -> None:
    found = read_sentence(tmp_path)
    assert found.encoder == tmp_path
    assert found.amend(encoder.tiny()) == encoder.tiny()


def test_all_modules(tmp_path: Path) -> None:
    dense = {"in_features": 16, "out_features": 5, "activation_function": "torch.nn.modules.linear.Identity"}
    found = read_sentence(write(tmp_path, TRANSFORMER, MEAN, ("Dense", dense | {"bias": False}), ("Normalize", {})))
    assert found.encoder == tmp_path / "0_Transformer"
    assert (found.pooling, found.normalise, found.dense_folder) == ("mean", True, tmp_path / "2_Dense")
    assert found.dense == DenseConfig(width=5, activation=None, bias=False)
    assert found.amend(encoder.tiny()).dense == found.dense
    with pytest.raises(ConfigError, match="DecoderConfig"):
        found.amend(decoder.tiny())


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ([TRANSFORMER, ("Pooling", {"pooling_mode_lasttoken": True})], "lasttoken"),
        ([TRANSFORMER, ("Pooling", {"pooling_mode": "weightedmean"})], "weightedmean"),
        ([TRANSFORMER, ("Pooling", {})], "nothing"),
        ([TRANSFORMER, ("Pooling", {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True})], "cls"),
        ([TRANSFORMER, MEAN, MEAN], "Pooling"),
        ([TRANSFORMER, MEAN, ("CNN", {})], "CNN"),
        ([TRANSFORMER, MEAN, ("Dense", {"out_features": 10**12})], "out_features"),
        ([TRANSFORMER, MEAN, ("Dense", {"out_features": 3, "activation_function": "a.Softplus"})], "Softplus"),
    ],
)
def test_what_we_do_not_have_is_named(tmp_path: Path, modules: list[tuple[str, dict[str, Any]]], said: str) -> None:
    with pytest.raises(GlassError, match=said):
        read_sentence(write(tmp_path, *modules))


@pytest.mark.parametrize("text", ["{}", "[1]", "null"])
def test_no_list_of_modules(tmp_path: Path, text: str) -> None:
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(ConfigError, match="does not list modules"):
        read_sentence(tmp_path)


# A loaded model knows where it came from.


def test_what_came_with_it(tiny: Path) -> None:
    (tiny / "generation_config.json").write_text('{"eos_token_id": 0}')
    (tiny / "tokenizer.json").write_text("{}")
    model = load(tiny)
    origin = origin_of(model)
    assert origin is not None
    assert origin is model.origin
    assert (origin.family, origin.folder, origin.tokenizer) == ("gpt2", tiny, tiny / "tokenizer.json")
    assert origin.raw == json.loads((tiny / "config.json").read_text())
    assert origin.generation == {"eos_token_id": 0}
    assert origin.file("nothing.json") is None
    assert origin_of(copy.deepcopy(model)) is not None
    assert "origin" not in model.state_dict()


def test_a_model_built_here_has_none() -> None:
    assert origin_of(Decoder(decoder.tiny())) is None


def test_a_published_folder(tiny: Path) -> None:
    (tiny / "tokenizer.json").write_text("{}")
    found = info(tiny)
    assert found.facts == {
        "family": "gpt2 (GPT2LMHeadModel)",
        "model": "Decoder",
        "parameters": "4,392",
        "layers": "2 × 12, 3 heads",
        "vocabulary": "30",
        "context": "20 tokens",
        "tokenizer": "tokenizer.json",
    }
    assert found.verbs == ("generate",)
    assert str(found).splitlines()[-1] == "verbs       generate"


MODELS = {
    "generate": Decoder(decoder.tiny_modern()),
    "translate, generate": Seq2Seq(seq2seq.tiny()),
    "embed": Encoder(encoder.tiny()),
    "embed, classify": Encoder(replace(encoder.tiny(), classes=3)),
    "classify": ViT(vit.tiny()),
    "": ViT(replace(vit.tiny(), classes=0)),
    "transcribe": Whisper(whisper.tiny()),
}


@pytest.mark.parametrize("expected", MODELS)
def test_every_kind(tmp_path: Path, expected: str) -> None:
    model = MODELS[expected]
    assert ", ".join(verbs_of(model, words=True)) == expected
    found = info(save(model, tmp_path / "model"))
    assert found.facts["family"] == "our own"
    assert found.facts["parameters"] == f"{sum(weight.numel() for weight in model.parameters()):,}"
    assert "layers" in found.facts
    assert found.verbs == (("classify",) if expected == "classify" else ())  # no words came along


def test_others_that_name_pictures(tmp_path: Path) -> None:
    net = Hybrid(hybrid.tiny())
    assert info(save(net, tmp_path / "model")).facts["image"] == "8×8 in 4×4"
    seeing = MLP(mlp.tiny(ImageInput(channels=1, height=4, width=4), 3))
    for model in (net, ConvNet2d(convolutional.tiny()), seeing):
        assert verbs_of(model, words=False) == ("classify",)
    assert verbs_of(MLP(mlp.tiny(TokenWindow(vocabulary=4, length=2, width=2), 3)), words=False) == ()


def test_clip_needs_both_towers() -> None:
    assert verbs_of(CLIP(clip.tiny()), words=True) == ("classify",)
    assert verbs_of(CLIP(replace(clip.tiny(), vision=None)), words=True) == ()
    assert verbs_of(nn.Linear(1, 1), words=True) == ()
