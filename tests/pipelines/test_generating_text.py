"""Oracle: Hugging Face's `generate` on the same folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from glassformer.checkpoints import load_folder
from glassformer.data.registry import fetch
from glassformer.errors import ConfigError, InputError
from glassformer.pipelines.chat import render_chat
from glassformer.pipelines.generate import TextFlow, cut_at_stop, generate, stream
from glassformer.pipelines.generation_config import parse_generation_config
from glassformer.pipelines.tokenizers import tokenizer_of


def theirs(hf: Any, folder: Path, text: str, **how: Any) -> str:
    peer = hf.GPT2LMHeadModel.from_pretrained(folder)
    words = tokenizer_of(load_folder(folder))
    tokens = torch.tensor([words.encode(text)])
    real = torch.ones_like(tokens)
    said = peer.generate(tokens, attention_mask=real, pad_token_id=0, do_sample=False, **how)[0].tolist()
    return words.decode(said)[len(words.decode(tokens[0].tolist())) :]


@pytest.mark.parametrize("text", ["the cat", "naïve café!", "a man is"])
def test_greedy_and_beam_as_hugging_face(hf: Any, gpt2: Path, text: str) -> None:
    model = load_folder(gpt2)
    assert generate(model, text, max_new_tokens=12) == theirs(hf, gpt2, text, max_new_tokens=12)
    assert generate(model, text, max_new_tokens=8, num_beams=3) == theirs(hf, gpt2, text, max_new_tokens=8, num_beams=3)
    assert gf.generate(model, text, max_new_tokens=12) == generate(model, text, max_new_tokens=12)


@cache
def first_tokens(hf: Any, folder: Path, text: str) -> list[int]:
    return tokenizer_of(load_folder(folder)).encode(theirs(hf, folder, text, max_new_tokens=9))


CONFIGS: list[dict[str, Any]] = [
    {"repetition_penalty": 1.7},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"num_beams": 3, "no_repeat_ngram_size": 2, "length_penalty": 0.0},
    {"num_beams": 3, "length_penalty": -1.5, "early_stopping": True},
    {"num_beams": 2, "repetition_penalty": 1.4, "renormalize_logits": True},
    {"min_length": 9},
    {"min_new_tokens": 6, "num_beams": 2},
    {"min_new_tokens": 4, "min_length": 12},
    {"forced_eos_token_id": 7},
    {"max_length": 6},
    {"max_length": 6, "max_new_tokens": 9},
]


@pytest.mark.variants(4)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_generation_configs_as_hugging_face(
    hf: Any, gpt2: Path, edited: Callable[..., Path], config: dict[str, Any]
) -> None:
    """With end tokens, suppressed tokens and bad words that the model would have used."""
    for text in ("the cat", "a man is"):
        first = first_tokens(hf, gpt2, text)
        tokens = {
            "eos_token_id": first[2],
            "suppress_tokens": [first[4]],
            "begin_suppress_tokens": [first[0]],
            "bad_words_ids": [[first[1]], first[2:4], [first[3]]],
        }
        for added in ({}, {"eos_token_id": first[2]}, tokens) if text == "the cat" else (tokens,):
            folder = edited(gpt2, generation_config=config | added)
            assert generate(load_folder(folder), text, max_new_tokens=None if "max_length" in config else 9) == theirs(
                hf, folder, text, **({} if "max_length" in config else {"max_new_tokens": 9})
            )


# keys of Hugging Face's GenerationConfig that do not change the tokens of greedy decoding or beam search
SAMPLING = "do_sample epsilon_cutoff eta_cutoff min_p temperature top_h top_k top_p typical_p"
SPECULATION = (
    "assistant_confidence_threshold assistant_early_exit assistant_ensemble_weight assistant_lookbehind is_assistant "
    "max_matching_ngram_size num_assistant_tokens num_assistant_tokens_schedule prompt_lookup_num_tokens "
    "speculation_type target_lookbehind use_mtp"
)
MEMORY = (
    "cache_config cache_implementation compile_config continuous_batching_config disable_compile low_memory "
    "max_cache_len prefill_chunk_size use_cache"
)
RETURNED = "output_attentions output_hidden_states output_logits output_scores return_dict_in_generate"
OTHER = "bos_token_id pad_token_id remove_invalid_values _from_model_config transformers_version"
WITHOUT_EFFECT = {key for keys in (SAMPLING, SPECULATION, MEMORY, RETURNED, OTHER) for key in keys.split()}


def test_every_key_of_hugging_faces_generation_config_is_honoured_or_refused_by_name(hf: Any) -> None:
    keys = {key for key in vars(hf.GenerationConfig()) if key != "_commit_hash"} - WITHOUT_EFFECT
    assert {"num_beams", "repetition_penalty", "token_healing", "max_time", "num_return_sequences"} <= keys
    for key in sorted(keys):
        with pytest.raises(ConfigError, match=f"^{key} "):  # an impossible value is noticed: the key is read
            parse_generation_config({key: {"impossible": True}})
    parse_generation_config(dict.fromkeys(keys))  # None is what Hugging Face writes for a key that is not set


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_beams": 1_000_000}, "num_beams is 1000000 in generation_config.json: it must be a whole number from 1"),
        (
            {"num_beam_groups": 2, "num_beams": 4},
            "num_beam_groups is 2 in generation_config.json: this is not supported",
        ),
        ({"penalty_alpha": 0.6}, "penalty_alpha is 0.6 in generation_config.json"),
        ({"guidance_scale": 1.5}, "guidance_scale is 1.5"),
        ({"length_penalty": float("nan")}, "length_penalty is nan"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0"),
        ({"bad_words_ids": [[]]}, "bad_words_ids is"),
        ({"bad_words_ids": [[1] * 200_000]}, "bad_words_ids in generation_config.json has more than 100,000 tokens"),
        ({"suppress_tokens": "x"}, "suppress_tokens is x"),
        ({"suppress_tokens": [10**9]}, "token 1000000000 is outside the vocabulary"),
        ({"early_stopping": 3}, "early_stopping is 3"),
        ({"max_length": 10**12}, "max_length is 1000000000000"),
    ],
)
def test_absurd_generation_configs_are_refused(
    gpt2: Path, edited: Callable[..., Path], config: dict[str, Any], message: str
) -> None:
    model = load_folder(edited(gpt2, generation_config=config))
    with pytest.raises(ConfigError, match=message):
        generate(model, "the cat", max_new_tokens=3)


def test_pieces_are_the_whole(gpt2: Path) -> None:
    model = load_folder(gpt2)
    pieces = list(stream(model, "the cat", temperature=1.0, seed=3))
    assert len(pieces) > 5
    assert "".join(pieces) == generate(model, "the cat", temperature=1.0, seed=3)
    assert generate(model, "the cat", temperature=1.0, seed=4) != "".join(pieces)


def test_a_stop_is_not_printed(gpt2: Path) -> None:
    model = load_folder(gpt2)
    whole = generate(model, "the cat", max_new_tokens=20)
    stop = whole[6:9]
    assert generate(model, "the cat", max_new_tokens=20, stop=(stop,)) == whole[: whole.index(stop)]
    assert generate(model, "the cat", max_new_tokens=20, stop=(stop,), num_beams=1) == whole[: whole.index(stop)]


def test_a_stop_of_the_folder_counts_beside_one_that_is_given(gpt2: Path, edited: Callable[..., Path]) -> None:
    whole = generate(load_folder(gpt2), "the cat", max_new_tokens=20)
    stop = whole[6:9]
    model = load_folder(edited(gpt2, generation_config={"stop_strings": [stop]}))
    for other in ((), ["never said"], "never said"):
        assert generate(model, "the cat", max_new_tokens=20, stop=other) == whole[: whole.index(stop)]


@pytest.mark.parametrize("option", [{"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.1}], ids=str)
def test_a_sampling_filter_without_a_temperature_is_refused(gpt2: Path, option: dict[str, Any]) -> None:
    model, (name, value) = load_folder(gpt2), *option.items()
    with pytest.raises(ConfigError, match=f"{name}={value} has no effect on greedy decoding"):
        generate(model, "the cat", max_new_tokens=3, **option)
    generate(model, "the cat", max_new_tokens=3, temperature=1.0, **option)


def test_zero_beams_are_refused(gpt2: Path) -> None:
    with pytest.raises(ConfigError, match="num_beams is 0: choose 1"):
        generate(load_folder(gpt2), "the cat", max_new_tokens=3, num_beams=0)


def test_ends_are_those_of_the_folder(gpt2: Path, edited: Callable[..., Path]) -> None:
    model = load_folder(gpt2)
    words = tokenizer_of(model)
    first = generate(model, "the cat", max_new_tokens=1)
    (token,) = words.encode(first)
    ended = load_folder(edited(gpt2, generation_config={"eos_token_id": [token, 0]}))
    assert generate(ended, "the cat", max_new_tokens=5) == first


def test_a_chat_model_is_asked(gpt2: Path, edited: Callable[..., Path]) -> None:
    template = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}<|assistant|>"
    plain, chat = load_folder(gpt2), load_folder(edited(gpt2, tokenizer_config={"chat_template": template}))
    asked = generate(plain, "<|user|>the cat<|end|><|assistant|>", max_new_tokens=6)
    assert generate(chat, "the cat", max_new_tokens=6) == asked
    assert generate(chat, [{"role": "user", "content": "the cat"}], max_new_tokens=6) == asked
    assert generate(chat, "the cat", max_new_tokens=6, chat=False) == generate(plain, "the cat", max_new_tokens=6)


def test_what_is_refused(gpt2: Path, bert: Path, refused: Any) -> None:
    model = load_folder(gpt2)
    long = lambda: stream(model, "the cat " * 100)  # told at once, before any token is asked for
    refused(InputError, "a prompt of ", long)
    refused(
        InputError,
        "2 tokens and 47 new ones exceed the model's context of 48",
        lambda: stream(model, "the cat", max_new_tokens=47),
    )
    refused(InputError, "the prompt has no tokens", lambda: generate(model, ""))
    refused(InputError, "this Encoder cannot generate text", lambda: generate(load_folder(bert), "a"))
    refused(
        ConfigError,
        "num_beams=2 cannot be combined with sampling",
        lambda: generate(model, "a", num_beams=2, temperature=1.0),
    )
    messages: Any = [{"role": "user", "content": ""}]
    refused(InputError, "messages were given with chat=False", lambda: generate(model, messages, chat=False))


class Letters:
    """Each token is a byte."""

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Any) -> str:
        return bytes(tokens).decode(errors="replace")


@given(st.text(max_size=12), st.text(max_size=3), st.lists(st.text(min_size=1, max_size=3), max_size=2))
def test_a_flow_tells_whole_letters_up_to_the_stop(text: str, before: str, stops: list[str]) -> None:
    flow = TextFlow(Letters(), list(before.encode()), tuple(stops))
    pieces = [flow.push(byte) for byte in text.encode()]
    pieces.append(flow.finish())
    assert "".join(pieces) == cut_at_stop(text, tuple(stops))
    assert "�" not in "".join(pieces) or "�" in text


@pytest.mark.slow
def test_generated_stories_are_fluent_english() -> None:
    story = generate(load_folder(fetch("stories15m")), "Once upon a time", max_new_tokens=80)
    assert story.startswith(", there was a little girl named Lily.")
    assert story.count(".") >= 4
    assert "�" not in story


@pytest.mark.slow
def test_smollm_answers_a_chat_sensibly() -> None:
    model = load_folder(fetch("smollm2-135m"))
    assert "Paris" in generate(model, "What is the capital of France?", max_new_tokens=40)
    assert "4" in generate(model, [{"role": "user", "content": "What is 2 + 2?"}], max_new_tokens=40)
    assert "sky" in generate(model, "Why is the sky blue? Answer in one sentence.", max_new_tokens=60).lower()


@pytest.mark.slow
def test_smollms_words_and_chat_are_hugging_faces(hf: Any) -> None:
    """The tokenizer that was made from GGUF, read by Hugging Face, renders and encodes the same chat."""
    folder = fetch("smollm2-135m")
    theirs = hf.AutoTokenizer.from_pretrained(folder)
    messages: Any = [{"role": "user", "content": "Hi, it's 2024! naïve"}]
    expected = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    model = load_folder(folder)
    assert tokenizer_of(model).encode(render_chat(model, messages), special=False) == expected
