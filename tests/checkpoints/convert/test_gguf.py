"""Oracle: Hugging Face's own reading of the same GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from glassformer.checkpoints import load
from glassformer.checkpoints.convert import convert, kind_of
from glassformer.errors import CheckpointError

gguf = pytest.importorskip("gguf")
TOKENS = ["<unk>", "<s>", "</s>", *[chr(c) for c in range(0x61, 0x7B)], "Ġ", "ab", "Ġab"]


def write(
    path: Path, *, quantised: bool = False, tied: bool = True, kind: str = "llama", pieces: bool = False, more: str = ""
) -> Path:
    random = np.random.default_rng(0)
    m, f, L, h, g, v = 64, 96, 2, 4, 2, len(TOKENS)
    writer = gguf.GGUFWriter(path, kind)
    writer.add_context_length(64)
    writer.add_embedding_length(m)
    writer.add_block_count(L)
    writer.add_feed_forward_length(f)
    writer.add_head_count(h)
    writer.add_head_count_kv(g)
    writer.add_rope_freq_base(5000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama" if pieces else "gpt2")
    writer.add_tokenizer_pre("default" if pieces else "smollm")
    writer.add_token_list([token.replace("Ġ", "▁") if pieces else token for token in TOKENS])
    writer.add_token_scores([float(-i) for i in range(v)])
    if pieces:
        writer.add_add_space_prefix(False)
    if more == "rope.dimension_count":
        writer.add_rope_dimension_count(8)
    if more == "rope.scaling":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    if more == "rope_freqs":
        writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32))
    writer.add_token_types([2, 3, 3] + [1] * (v - 3))
    writer.add_token_merges(["a b", "Ġ ab"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    shapes = {"token_embd": (v, m), "output_norm": (m,)} | ({} if tied else {"output": (v, m)})
    for i in range(L):
        shapes |= {f"blk.{i}.attn_norm": (m,), f"blk.{i}.ffn_norm": (m,)}
        shapes |= {f"blk.{i}.attn_q": (m, m), f"blk.{i}.attn_output": (m, m)}
        shapes |= {f"blk.{i}.attn_{x}": (g * m // h, m) for x in "kv"}
        shapes |= {f"blk.{i}.ffn_gate": (f, m), f"blk.{i}.ffn_up": (f, m), f"blk.{i}.ffn_down": (m, f)}
    q8 = gguf.GGMLQuantizationType.Q8_0
    for name, shape in shapes.items():
        numbers = (random.normal(0, 0.3, shape) + (len(shape) == 1)).astype(np.float32)
        if quantised and len(shape) == 2:
            writer.add_tensor(f"{name}.weight", gguf.quants.quantize(numbers, q8), raw_dtype=q8)
        else:
            writer.add_tensor(f"{name}.weight", numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(("quantised", "tied"), [(False, True), (True, False)])
def test_the_same_logits_as_hugging_face(tmp_path: Path, quantised: bool, tied: bool) -> None:
    import transformers
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    transformers.utils.logging.disable_progress_bar()
    path = write(tmp_path / "small.gguf", quantised=quantised, tied=tied)
    assert kind_of(path) == "gguf"
    folder = convert(path, tmp_path / "out")
    tokens = torch.randint(len(TOKENS), (2, 9), generator=torch.Generator().manual_seed(0))
    peer = transformers.LlamaForCausalLM(transformers.LlamaConfig.from_pretrained(folder)).eval()
    theirs = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=peer)["tensors"]
    missing = peer.load_state_dict(theirs, strict=False).missing_keys
    assert missing == (["lm_head.weight"] if tied else [])
    with torch.no_grad():
        torch.testing.assert_close(load(folder)(tokens), peer(tokens).logits, atol=1e-4, rtol=1e-4)


def test_the_words_and_the_chat_come_along(tmp_path: Path) -> None:
    folder = convert(write(tmp_path / "small.gguf"), tmp_path / "out")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert words.encode("ab ab").tokens == ["ab", "Ġab"]
    assert words.encode("</s>").ids == [2]
    model = load(folder)
    assert model.origin.generation["eos_token_id"] == 2
    assert model.origin.raw["rms_norm_eps"] == 1e-5
    assert "messages[0]" in (folder / "tokenizer_config.json").read_text()


def test_pieces_with_scores(tmp_path: Path) -> None:
    folder = convert(write(tmp_path / "small.gguf", pieces=True), tmp_path / "out")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert words.encode("ab ab").tokens == ["<s>", "ab", "▁ab"]
    assert words.decode(words.encode(" ab").ids) == " ab"


def test_what_is_refused(tmp_path: Path, refused: Any) -> None:
    other = write(tmp_path / "other.gguf", kind="mamba")
    refused(CheckpointError, f"{other} holds a model of the kind 'mamba'", lambda: convert(other, tmp_path / "out"))
    scaled = {
        "rope.dimension_count": "8 of a head's 16 numbers are turned",
        "rope.scaling": "rope.scaling.type is 'yarn'",
        "rope_freqs": "weight rope_freqs.weight scales the rotary angles",
    }
    for i, (more, text) in enumerate(scaled.items()):
        path = write(tmp_path / f"{i}.gguf", more=more)
        refused(CheckpointError, text, lambda path=path: convert(path, tmp_path / "out"))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 60)
    refused(CheckpointError, f"{broken} cannot be read as GGUF", lambda: convert(broken, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
