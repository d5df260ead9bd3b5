"""Convert llama2.c's .bin (seven integers, then all weights in float32) and its tokenizer.bin.

W_Q and W_K rotate adjacent rows (2i, 2i + 1) by one angle; Hugging Face's rotate (i, i + d/2).
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoints.convert.bpe import from_pieces
from glassformer.checkpoints.convert.folder import Converted
from glassformer.checkpoints.layouts import Interleaved
from glassformer.errors import CheckpointError, InputError

HEADER = struct.Struct("<7i")
SPECIAL = {0: "<unk>", 1: "<s>", 2: "</s>"}


class Sizes(NamedTuple):
    width: int
    hidden: int
    depth: int
    heads: int
    kv_heads: int
    vocabulary: int  # negative if the head is not tied
    length: int

    @property
    def kv_width(self) -> int:
        return self.width // self.heads * self.kv_heads

    @property
    def tied(self) -> bool:
        return self.vocabulary > 0

    def parts(self) -> dict[str, tuple[int, ...]]:
        """Return the weight shapes in file order, including the rotary tables, which follow from a formula."""
        L, m, f, k = self.depth, self.width, self.hidden, self.kv_width
        angles = self.length * (m // self.heads // 2)
        parts: dict[str, tuple[int, ...]] = {
            "table": (abs(self.vocabulary), m),
            "input_layernorm": (L, m),
            "self_attn.q_proj": (L, m, m),
            "self_attn.k_proj": (L, k, m),
            "self_attn.v_proj": (L, k, m),
            "self_attn.o_proj": (L, m, m),
            "post_attention_layernorm": (L, m),
            "mlp.gate_proj": (L, f, m),
            "mlp.down_proj": (L, m, f),
            "mlp.up_proj": (L, f, m),
            "norm": (m,),
            "cos": (angles,),
            "sin": (angles,),
        }
        return parts if self.tied else parts | {"head": parts["table"]}


def llama2c_sizes(path: Path) -> Sizes | None:
    """Return the sizes if the file has exactly the length they imply, else None: it is another format."""
    with path.open("rb") as file:
        start = file.read(HEADER.size)
    if len(start) < HEADER.size:
        return None
    sizes = Sizes(*HEADER.unpack(start))
    if min(*sizes[:5], abs(sizes.vocabulary), sizes.length) < 1 or sizes.width % sizes.heads:
        return None
    numbers = sum(math.prod(shape) for shape in sizes.parts().values())
    return sizes if path.stat().st_size == HEADER.size + 4 * numbers else None


def read_llama2c(path: Path, tokenizer: Path | None) -> Converted:
    sizes = llama2c_sizes(path)
    if sizes is None:
        raise CheckpointError(f"the size of {path} does not match its header", "download the file again")
    vocabulary = tokenizer or path.with_name("tokenizer.bin")
    if not vocabulary.is_file():
        raise InputError(f"there is no file {vocabulary}", "give llama2.c's tokenizer.bin with --tokenizer")
    texts = {
        "config.json": _config(sizes),
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": [1, 2]},  # llama2.c stops at either
        "tokenizer.json": _tokenizer(vocabulary, abs(sizes.vocabulary)),
        "tokenizer_config.json": {"bos_token": "<s>", "eos_token": "</s>", "model_max_length": sizes.length},
    }
    return Converted(tensors=_tensors(path, sizes), texts=texts)


def _tensors(path: Path, sizes: Sizes) -> dict[str, Tensor]:
    data = np.memmap(path, dtype="<f4", mode="c", offset=HEADER.size)
    whole, at = {}, 0
    for name, shape in sizes.parts().items():
        count = math.prod(shape)
        whole[name] = torch.from_numpy(data[at : at + count]).view(shape)
        at += count
    found = {"model.embed_tokens.weight": whole.pop("table"), "model.norm.weight": whole.pop("norm")}
    if not sizes.tied:
        found["lm_head.weight"] = whole.pop("head")
    del whole["cos"], whole["sin"]
    heads = {"self_attn.q_proj": sizes.heads, "self_attn.k_proj": sizes.kv_heads}
    for name, stack in whole.items():
        for i, weight in enumerate(stack):
            if name in heads:
                weight = turned(weight, heads[name])
            found[f"model.layers.{i}.{name}.weight"] = weight
    return found


def turned(weight: Tensor, heads: int) -> Tensor:
    """Reorder the rows of W_Q or W_K from pairs (2i, 2i + 1) to pairs (i, i + d/2)."""
    return Interleaved(lambda _: heads).read([weight], [tuple(weight.shape)], None)[0]


def _config(sizes: Sizes) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": abs(sizes.vocabulary),
        "hidden_size": sizes.width,
        "intermediate_size": sizes.hidden,
        "num_hidden_layers": sizes.depth,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "max_position_embeddings": sizes.length,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": sizes.tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    }


def _tokenizer(path: Path, vocabulary: int) -> str:
    """Parse tokenizer.bin: the length of the longest token, then the score, length and bytes of each token.

    Some exporters write byte tokens as <0x0A>, others as the character itself, which duplicates later pieces.
    """
    data, at = path.read_bytes(), 4
    pieces, scores = [], []
    try:
        for i in range(vocabulary):
            score, length = struct.unpack_from("<fi", data, at)
            word = data[at + 8 : at + 8 + length].decode("utf-8")
            at += 8 + length
            pieces.append(SPECIAL.get(i) or word.replace(" ", "▁"))
            scores.append(score)
    except (struct.error, UnicodeDecodeError):
        at = -1
    if at != len(data):
        raise CheckpointError(f"{path} does not contain {vocabulary} tokens", "give the tokenizer.bin of this model")
    if pieces[3 : 3 + 256] == [chr(byte).replace(" ", "▁") for byte in range(256)]:
        pieces[3 : 3 + 256] = [f"<0x{byte:02X}>" for byte in range(256)]
    return from_pieces(pieces, scores, special=SPECIAL, bos=1).to_str(pretty=True)
