"""Folders to models: memory, provenance, modules of sentence encoders, damaged folders."""

from __future__ import annotations

import copy
import json
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
from fuzz_checkpoints import make_folders, try_folders, use
from glassformer.checkpoints import load_folder, open_published, origin_of, save
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
# tests/fuzz_checkpoints.py (make fuzz) tries ten thousand of them, with limits of time as well.


@pytest.fixture(scope="session")
def right(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder of each family, not damaged."""
    pytest.importorskip("sentencepiece")
    return {path.name: path for path in make_folders(tmp_path_factory.mktemp("right"))}


@pytest.mark.timeout(120)
def test_mutated_folders(right: dict[str, Path], tmp_path: Path) -> None:
    for folder in right.values():
        use(folder)
    found = try_folders(list(right.values()), tmp_path, range(60), seed=1, timed=False)
    assert not found["failures"]
    assert 60 / 4 < found["refused"] < 60  # some damage is harmless


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_mutated_folders(right: dict[str, Path], tmp_path: Path) -> None:
    found = try_folders(list(right.values()), tmp_path, range(2000), seed=2, timed=False)
    assert not found["failures"]


@pytest.mark.parametrize(
    ("folder", "name", "content"),
    [
        ("bert", "vocab.txt", b"\xff\xfe\x00"),
        ("bert", "tokenizer_config.json", b"[]"),
        ("bert", "tokenizer_config.json", b"{"),
        ("gpt2", "vocab.json", b"[]"),
        ("gpt2", "vocab.json", b'{"a": "b"}'),
        ("gpt2", "merges.txt", b"#version: 0.2\nq\n"),
        ("llama", "tokenizer.json", b"{}"),
        ("marian", "vocab.json", b"[]"),
        ("marian", "source.spm", b"x"),
        ("own", "glassformer.json", b"\xff"),
        ("mistral", "chat_template.jinja", b"{{ '\xff' }}"),
        ("mistral", "chat_template.jinja", b"{{ raise_exception('two\nlines') }}"),
        ("whisper", "generation_config.json", b'{"no_timestamps_token_id": 40, "lang_to_id": [1]}'),
        ("whisper", "generation_config.json", b'{"no_timestamps_token_id": 4000}'),
    ],
)
def test_damaged_files_are_one_line(
    right: dict[str, Path], tmp_path: Path, folder: str, name: str, content: bytes
) -> None:
    copy = shutil.copytree(right[folder], tmp_path / folder)
    (copy / name).write_bytes(content)
    with pytest.raises(GlassError) as caught:
        use(copy)
    assert "\n" not in str(caught.value)


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
    model = load_folder(tiny)
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
    assert str(found).splitlines()[-1] == "commands    generate"


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
    assert found.facts["family"] == "Glassformer"
    assert found.facts["parameters"] == f"{sum(weight.numel() for weight in model.parameters()):,}"
    assert "layers" in found.facts
    assert found.verbs == (("classify",) if expected == "classify" else ())  # no words came along


def test_others_that_name_pictures(tmp_path: Path) -> None:
    net = Hybrid(hybrid.tiny())
    assert info(save(net, tmp_path / "model")).facts["image"] == "8×8 pixels in patches of 4×4"
    seeing = MLP(mlp.tiny(ImageInput(channels=1, height=4, width=4), 3))
    for model in (net, ConvNet2d(convolutional.tiny()), seeing):
        assert verbs_of(model, words=False) == ("classify",)
    assert verbs_of(MLP(mlp.tiny(TokenWindow(vocabulary=4, length=2, width=2), 3)), words=False) == ()


def test_clip_needs_both_towers() -> None:
    assert verbs_of(CLIP(clip.tiny()), words=True) == ("classify",)
    assert verbs_of(CLIP(replace(clip.tiny(), vision=None)), words=True) == ()
    assert verbs_of(nn.Linear(1, 1), words=True) == ()
