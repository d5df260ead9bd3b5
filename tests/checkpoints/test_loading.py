"""Folders in, models out: without copies, within the memory that the model takes, and never half."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from glassformer.checkpoints import open_published
from glassformer.checkpoints.assemble import empty
from glassformer.errors import CheckpointError, ConfigError, GlassError, InputError
from glassformer.models import Decoder, decoder


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
    with pytest.raises(CheckpointError, match="holds a list"):
        gf.load(tiny)
    (tiny / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes()[:-5])
    (tiny / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(CheckpointError, match="5 bytes behind the end"):
        gf.load(tiny)


def test_a_field_that_is_not_there(tiny: Path) -> None:
    (tiny / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(ConfigError, match=r"config\.json has no n_embd"):
        gf.load(tiny)


PEAK = """
import sys, glassformer as gf
gf.load(sys.argv[1])  # what loading needs once
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
