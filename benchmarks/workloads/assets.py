"""Folders and files that contenders load, made once in the benchmark's cache: random weights, conversions, exports."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

CACHE = Path(os.environ["GLASSFORMER_PEERS"])
SEED = 0


def made(name: str, make: Callable[[Path], object]) -> Path:
    """The file or folder `name` in the cache, written by `make` if it is not there."""
    path = CACHE / "assets" / name
    if not path.exists():
        part = path.with_name(f".part-{os.getpid()}-{path.name}")
        part.parent.mkdir(parents=True, exist_ok=True)
        make(part)
        try:
            os.replace(part, path)
        except OSError:  # another contender has made the same folder in the meantime
            if not path.exists():
                raise
            shutil.rmtree(part)
    return path


def fetched(name: str) -> Path:
    """A published model; the runner fetched it before."""
    from glassformer.pipelines.loading import find_model

    return find_model(name)


def random_folder(name: str, build: Callable[[], Any], vocabulary: int | None = None) -> Path:
    """A Hugging Face folder with random weights, and a tokenizer of as many made-up words for the converters."""

    def make(folder: Path) -> None:
        import torch

        torch.manual_seed(SEED)
        build().eval().save_pretrained(folder)
        if vocabulary is not None:
            write_tokenizer(folder, vocabulary)

    return made(name, make)


def write_tokenizer(folder: Path, vocabulary: int) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"</s>": 0, "<unk>": 1} | {f"w{i}": i for i in range(2, vocabulary - 1)} | {"<pad>": vocabulary - 1}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"eos_token": "</s>", "bos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


def gpt2() -> Path:
    """GPT-2 small with random weights: 124 million, 500 MB."""

    def build() -> Any:
        from transformers import GPT2Config, GPT2LMHeadModel

        return GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=0))

    return random_folder("gpt2", build, 50257)


def vit() -> Path:
    """ViT-B/16 with random weights: 86 million."""

    def build() -> Any:
        from transformers import ViTConfig, ViTForImageClassification

        return ViTForImageClassification(ViTConfig(num_labels=1000))

    return random_folder("vit", build)


def marian() -> Path:
    """A translator of Marian's usual size (6 + 6 layers of 512, 58,101 words) with random weights."""

    def build() -> Any:
        from transformers import MarianConfig, MarianMTModel

        config = MarianConfig(
            vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
            decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="swish",
            max_position_embeddings=512, scale_embedding=True, pad_token_id=58100, eos_token_id=0,
            decoder_start_token_id=58100, forced_eos_token_id=None, init_std=0.02,
        )  # fmt: skip
        return MarianMTModel(config)

    return random_folder("marian", build, 58101)


def onnx(name: str, folder: Path) -> Path:
    """The folder as ONNX, by our own export (which compares it with the model)."""
    from glassformer.checkpoints.onnx import export_onnx

    return made(f"{name}.onnx", lambda part: export_onnx(folder, part))


def onnx_int8(name: str, folder: Path) -> Path:
    """The same with weights and activations of the products in int8, as ONNX Runtime quantises them dynamically."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    def make(part: Path) -> None:
        import onnx as library

        model = library.load(onnx(name, folder))
        del model.graph.value_info[:]  # shapes that the exporter noted; the quantiser infers its own
        quantize_dynamic(model, part, weight_type=QuantType.QInt8, per_channel=True)

    return made(f"{name}-int8.onnx", make)


def openvino_int8(name: str, folder: Path, examples: list[dict[str, Any]]) -> Path:
    """The same as OpenVINO's own quantiser (NNCF) makes it, calibrated on the examples, as a folder."""

    def make(part: Path) -> None:
        import nncf
        import openvino

        model = openvino.Core().read_model(onnx(name, folder))
        data = nncf.Dataset([{key: x.numpy() for key, x in example.items()} for example in examples])
        fewer = nncf.AdvancedQuantizationParameters(disable_bias_correction=True)  # minutes, without effect on speed
        small = nncf.quantize(
            model, data, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(examples), advanced_parameters=fewer
        )
        part.mkdir()
        openvino.save_model(small, part / "model.xml", compress_to_fp16=False)

    return made(f"{name}-nncf-int8-{len(examples)}", make) / "model.xml"


def ctranslate2(name: str, folder: Path, precision: str) -> Path:
    """The folder as CTranslate2 converts it."""
    from ctranslate2.converters import TransformersConverter

    def make(part: Path) -> None:
        TransformersConverter(str(folder)).convert(str(part), quantization=precision)
        for file in ("tokenizer.json", "preprocessor_config.json"):
            if (folder / file).is_file():
                shutil.copy(folder / file, part / file)

    return made(f"{name}-ct2-{precision}", make)


def gguf(name: str, folder: Path, precision: str) -> Path:
    """A GPT-2 or Llama folder as GGUF in f32 or q8_0; norms, biases and positions stay in f32, as in llama.cpp."""
    return made(f"{name}-{precision}.gguf", lambda part: write_gguf(folder, part, precision))


def write_gguf(folder: Path, path: Path, precision: str) -> None:
    import gguf as library
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = {k.removeprefix("transformer.").removeprefix("model."): v.float()
               for k, v in load_file(folder / "model.safetensors").items()}  # fmt: skip
    kind = config["model_type"]
    writer = library.GGUFWriter(path, kind)
    get = lambda *names: next(config[name] for name in names if config.get(name) is not None)
    width, heads = get("n_embd", "hidden_size"), get("n_head", "num_attention_heads")
    writer.add_block_count(get("n_layer", "num_hidden_layers"))
    writer.add_context_length(get("n_positions", "max_position_embeddings"))
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(config.get("intermediate_size") or 4 * width)
    writer.add_head_count(heads)
    if kind == "gpt2":
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    else:
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        rope = config.get("rope_theta") or config.get("rope_parameters", {}).get("rope_theta") or 10000.0
        writer.add_rope_freq_base(float(rope))
        writer.add_rope_dimension_count(width // heads)
    size = config["vocab_size"]
    writer.add_vocab_size(size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"w{i}" for i in range(size)])
    writer.add_token_types([library.TokenType.NORMAL] * size)
    writer.add_token_merges(["w 1"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, weight in (_gpt2_names if kind == "gpt2" else _llama_names)(weights, config):
        data = weight.contiguous().numpy()
        if precision == "q8_0" and data.ndim == 2 and "position" not in name:
            packed = library.quants.quantize(data, library.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, packed, raw_dtype=library.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gpt2_names(weights: dict[str, Any], config: dict[str, Any]) -> list[tuple[str, Any]]:
    parts = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}  # fmt: skip
    found = [("token_embd.weight", weights["wte.weight"]), ("position_embd.weight", weights["wpe.weight"])]
    found += [(f"output_norm.{end}", weights[f"ln_f.{end}"]) for end in ("weight", "bias")]
    for i in range(config["n_layer"]):
        for theirs, ours in parts.items():
            for end in ("weight", "bias"):
                weight = weights[f"h.{i}.{theirs}.{end}"]
                found.append((f"blk.{i}.{ours}.{end}", weight.T if weight.dim() == 2 else weight))  # Conv1D
    return found


def _llama_names(weights: dict[str, Any], config: dict[str, Any]) -> list[tuple[str, Any]]:
    parts = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
             "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "post_attention_layernorm": "ffn_norm"}  # fmt: skip
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    found = [("token_embd.weight", weights["embed_tokens.weight"]), ("output_norm.weight", weights["norm.weight"])]
    for i in range(config["num_hidden_layers"]):
        for theirs, ours in parts.items():
            weight = weights[f"layers.{i}.{theirs}.weight"]
            if ours in heads:  # llama.cpp rotates neighbours, Hugging Face halves
                rows, columns = weight.shape
                weight = weight.view(heads[ours], 2, rows // heads[ours] // 2, columns).transpose(1, 2)
                weight = weight.reshape(rows, columns)
            found.append((f"blk.{i}.{ours}.weight", weight))
    return found
