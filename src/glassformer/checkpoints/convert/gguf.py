"""Convert Llama-type GGUF files to Hugging Face names, with all weights in float32.

Quantised weights are stored in blocks: q · d + m with d and m per block. W_Q and W_K rotate adjacent pairs of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from glassformer.checkpoints.convert.bpe import from_merges, from_pieces
from glassformer.checkpoints.convert.folder import Converted, optional
from glassformer.checkpoints.convert.llama2c import turned
from glassformer.errors import CheckpointError

MAGIC = b"GGUF"
NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
SCALED = "rope_freqs.weight"  # factors of the rotary angles (Llama 3.1), which config.json would not express
CONTROL, UNKNOWN = 3, 2  # token types


def read_gguf(path: Path) -> Converted:
    gguf = optional("gguf", "GGUF")
    try:
        reader = gguf.GGUFReader(path)
        about = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # the library has no errors of its own
        raise CheckpointError(f"{path} cannot be read as GGUF ({error})", "download the file again") from None
    kind = about.get("general.architecture")
    if kind != "llama":
        raise CheckpointError(f"{path} contains a model of type {kind!r}", "only llama is supported")
    heads = {"attn_q": _get(about, "llama.attention.head_count")}
    heads["attn_k"] = about.get("llama.attention.head_count_kv", heads["attn_q"])
    tensors = {}
    for tensor in reader.tensors:
        name, part = _name(tensor.name)
        try:
            numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            fact = f"weight {tensor.name} is quantised as {tensor.tensor_type.name}, which gguf cannot dequantise"
            raise CheckpointError(fact, "get a file with another quantisation, for example Q8_0") from None
        weight = torch.from_numpy(numpy.array(numbers, numpy.float32))  # a copy: the reader's data is memory-mapped
        tensors[name] = turned(weight, heads[part]) if part in heads else weight
    return Converted(tensors=tensors, texts=_texts(about, tensors))


def _name(theirs: str) -> tuple[str, str]:
    """Return the Hugging Face name of a weight, and the part of the layer it belongs to."""
    if theirs == SCALED:
        raise CheckpointError(
            f"weight {theirs} scales the rotary angles, which is not supported for GGUF",
            "use the safetensors version of the model",
        )
    if theirs in NAMES:
        return NAMES[theirs], ""
    first, i, part, *end = [*theirs.split("."), "", ""][:4]
    if first != "blk" or part not in LAYER or end[0] not in ("weight", "bias"):
        raise CheckpointError(f"weight {theirs} does not belong to a Llama model", "nothing was converted")
    return f"model.layers.{i}.{LAYER[part]}.{end[0]}", part


def _get(about: Mapping[str, Any], name: str) -> Any:
    if name not in about:
        raise CheckpointError(f"the file does not state {name}", "download a complete GGUF file")
    return about[name]


def _texts(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    tokens, count = _get(about, "tokenizer.ggml.tokens"), _get(about, "llama.attention.head_count")
    width = about.get("llama.attention.key_length", _get(about, "llama.embedding_length") // count)
    if about.get("llama.rope.scaling.type", "none") != "none":
        raise CheckpointError(f"rope.scaling.type is {about['llama.rope.scaling.type']!r}", "supported: none")
    if about.get("llama.rope.dimension_count", width) != width:
        fact = f"rotary positions cover {about['llama.rope.dimension_count']} of the {width} dimensions of a head"
        raise CheckpointError(fact, "only models with fully rotated heads are supported")
    bos, eos = (about.get(f"tokenizer.ggml.{which}_token_id") for which in ("bos", "eos"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(tensors.get("model.embed_tokens.weight", tokens)),
        "hidden_size": _get(about, "llama.embedding_length"),
        "intermediate_size": _get(about, "llama.feed_forward_length"),
        "num_hidden_layers": _get(about, "llama.block_count"),
        "num_attention_heads": count,
        "num_key_value_heads": about.get("llama.attention.head_count_kv", count),
        "head_dim": width,
        "sliding_window": about.get("llama.attention.sliding_window") or None,  # rejected by `load`
        "max_position_embeddings": _get(about, "llama.context_length"),
        "rms_norm_eps": _short(_get(about, "llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": about.get("llama.rope.freq_base", 10000.0),
        "hidden_act": "silu",
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "torch_dtype": "float32",
    }
    words = {"bos_token": None if bos is None else tokens[bos], "eos_token": None if eos is None else tokens[eos]}
    card = words | {"model_max_length": config["max_position_embeddings"]}
    if about.get("tokenizer.chat_template"):
        card["chat_template"] = about["tokenizer.chat_template"]
    return {
        "config.json": config,
        "generation_config.json": {"bos_token_id": bos, "eos_token_id": eos},
        "tokenizer.json": _tokenizer(about, tokens, bos),
        "tokenizer_config.json": card,
    }


def _short(single: float) -> float:
    """Return the shortest decimal of the same float32: 1e-05 for 9.999999747378752e-06."""
    return float(f"{single:.7g}")


def _tokenizer(about: Mapping[str, Any], tokens: list[str], bos: int | None) -> str:
    kinds = about.get("tokenizer.ggml.token_type", [1] * len(tokens))
    special = {i: tokens[i] for i, kind in enumerate(kinds) if kind in (CONTROL, UNKNOWN)}
    model = _get(about, "tokenizer.ggml.model")
    first = bos if about.get("tokenizer.ggml.add_bos_token", model == "llama") else None
    if model == "gpt2":
        parting = about.get("tokenizer.ggml.pre", "")
        merges = _get(about, "tokenizer.ggml.merges")
        return from_merges(tokens, merges, special=special, bos=first, parting=parting).to_str(pretty=True)
    if model == "llama":
        scores, space = _get(about, "tokenizer.ggml.scores"), about.get("tokenizer.ggml.add_space_prefix", True)
        return from_pieces(tokens, scores, special=special, bos=first, space=space).to_str(pretty=True)
    raise CheckpointError(f"the tokenizer is of type {model!r}", "supported: gpt2 and llama")
