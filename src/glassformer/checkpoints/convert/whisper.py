"""Convert OpenAI's Whisper .pt (sizes and weights) to Hugging Face names, with its vocabulary and suppressed tokens."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor

from glassformer.checkpoints.convert.bpe import from_ranks
from glassformer.checkpoints.convert.folder import Converted
from glassformer.errors import CheckpointError, InputError

SIZES = (
    "n_mels",
    "n_vocab",
    *(f"n_{side}_{what}" for side in ("audio", "text") for what in ("ctx", "state", "head", "layer")),
)
RENAMED = (
    (r"^", "model."),
    (r"\.blocks\.", ".layers."),
    (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."),
    (r"\.cross_attn\.", ".encoder_attn."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."),
    (r"\.attn\.", ".self_attn."),
    (r"\.query\.", ".q_proj."),
    (r"\.key\.", ".k_proj."),
    (r"\.value\.", ".v_proj."),
    (r"\.out\.", ".out_proj."),
    (r"\.mlp_ln\.", ".final_layer_norm."),
    (r"\.mlp\.0\.", ".fc1."),
    (r"\.mlp\.2\.", ".fc2."),
    (r"\.(ln_post|ln)\.", ".layer_norm."),
    (r"\.token_embedding\.", ".embed_tokens."),
    (r"\.positional_embedding$", ".embed_positions.weight"),
)
_LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi "
    "ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd "
    "gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue"
)
LANGUAGES = _LANGUAGES.split()
TIMES = [f"<|{i * 0.02:.2f}|>" for i in range(1501)]
# Non-speech symbols: brackets, notes, speakers' names. A hyphen or quote is allowed only inside a word.
MARKS = [*'"#()*+/:;<=>@[\\]^_`{|}~「」『』']
_LONGER = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
MARKS += _LONGER.split()
NOTES = [*"♩♪♫♬♭♮♯"]


def is_whisper(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get("dims"), dict) and "model_state_dict" in content


def read_whisper(content: Mapping[str, Any], path: Path, vocabulary: Path | None) -> Converted:
    dims, weights = content["dims"], content["model_state_dict"]
    for name in SIZES:
        if type(dims.get(name)) is not int or dims[name] < 1:
            raise CheckpointError(f"{name} is {str(dims.get(name))[:40]} in {path.name}", "download the file again")
    many = dims["n_vocab"] >= 51865  # multilingual
    tokenizer = from_ranks(_vocabulary(path, vocabulary, many).read_bytes(), special_tokens(dims["n_vocab"], many))
    if tokenizer.get_vocab_size() != dims["n_vocab"]:
        fact = f"the vocabulary has {tokenizer.get_vocab_size()} tokens, and the model has {dims['n_vocab']}"
        raise CheckpointError(fact, "give gpt2.tiktoken for English-only models, multilingual.tiktoken for others")
    tensors = {renamed(name): tensor for name, tensor in weights.items() if isinstance(tensor, Tensor)}
    return Converted(tensors=tensors, texts=_texts(dims, tokenizer, many))


def renamed(name: str) -> str:
    for pattern, new in RENAMED:
        name = re.sub(pattern, new, name, count=1)
    return name


def languages(count: int, many: bool) -> list[str]:
    """Return the languages of a model with `count` tokens: what remains besides text tokens, tasks and timestamps."""
    return LANGUAGES[: count - 51765 - many]


def special_tokens(count: int, many: bool) -> list[str]:
    """Return the special tokens that follow the text tokens: end, start, languages, tasks, timestamps."""
    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    return [*(f"<|{name}|>" for name in ("endoftext", "startoftranscript", *languages(count, many), *tasks)), *TIMES]


def _vocabulary(path: Path, given: Path | None, many: bool) -> Path:
    """Find the vocabulary: as passed, beside the weights, or in the installed package openai-whisper."""
    name = "multilingual.tiktoken" if many else "gpt2.tiktoken"
    spec = importlib.util.find_spec("whisper")
    packages = (spec.submodule_search_locations or ()) if spec is not None else ()
    installed = [Path(package) / "assets" / name for package in packages]
    places = [given] if given is not None else [path.with_name(name), *installed]
    for place in places:
        if place.is_file():
            return place
    fact = f"there is no vocabulary {places[0]}"
    raise InputError(fact, f"pip install openai-whisper, or give its whisper/assets/{name} with --tokenizer")


def _suppressed(tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that no transcript contains: non-speech symbols and tasks."""
    ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    found = {ids(" -")[0], ids(" '")[0]}
    for mark in (*MARKS, *NOTES):
        for tokens in (ids(mark), ids(f" {mark}")):
            if len(tokens) == 1 or mark in NOTES:
                found.add(tokens[0])
    tasks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "startoftranscript")
    return sorted(found | {_special(tokenizer, name) for name in tasks})


def _special(tokenizer: Tokenizer, name: str) -> int:
    found = tokenizer.token_to_id(f"<|{name}|>")
    assert found is not None
    return found


def _texts(dims: Mapping[str, int], tokenizer: Tokenizer, many: bool) -> dict[str, Any]:
    token = partial(_special, tokenizer)
    end, start = token("endoftext"), token("startoftranscript")
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "vocab_size": dims["n_vocab"],
        "num_mel_bins": dims["n_mels"],
        "d_model": dims["n_audio_state"],
        "encoder_layers": dims["n_audio_layer"],
        "encoder_attention_heads": dims["n_audio_head"],
        "encoder_ffn_dim": 4 * dims["n_audio_state"],
        "decoder_layers": dims["n_text_layer"],
        "decoder_attention_heads": dims["n_text_head"],
        "decoder_ffn_dim": 4 * dims["n_text_state"],
        "max_source_positions": dims["n_audio_ctx"],
        "max_target_positions": dims["n_text_ctx"],
        "activation_function": "gelu",
        "scale_embedding": False,
        "tie_word_embeddings": True,
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
        "decoder_start_token_id": start,
        "torch_dtype": "float16",
    }
    if dims["n_audio_state"] != dims["n_text_state"]:
        fact = f"the audio width is {dims['n_audio_state']} and the text width {dims['n_text_state']}"
        raise CheckpointError(fact, "Whisper has one width for both")
    generation: dict[str, Any] = {
        "decoder_start_token_id": start,
        "eos_token_id": end,
        "no_timestamps_token_id": token("notimestamps"),
        "is_multilingual": many,
        "suppress_tokens": _suppressed(tokenizer),
        "begin_suppress_tokens": [*tokenizer.encode(" ", add_special_tokens=False).ids, end],
        "max_initial_timestamp_index": 50,
        "max_length": dims["n_text_ctx"],
    }
    if many:
        generation["lang_to_id"] = {f"<|{name}|>": token(name) for name in languages(dims["n_vocab"], many)}
        generation["task_to_id"] = {name: token(name) for name in ("transcribe", "translate")}
    features: dict[str, Any] = {"feature_size": dims["n_mels"], "hop_length": 160, "n_fft": 400, "sampling_rate": 16000}
    features |= {"chunk_length": 30, "n_samples": 480000, "nb_max_frames": 3000, "padding_value": 0.0}
    return {
        "config.json": config,
        "generation_config.json": generation,
        "preprocessor_config.json": features | {"feature_extractor_type": "WhisperFeatureExtractor"},
        "tokenizer.json": tokenizer.to_str(pretty=True),
        "tokenizer_config.json": {"tokenizer_class": "WhisperTokenizer", "eos_token": "<|endoftext|>"},
    }
