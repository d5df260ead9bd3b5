"""Fine-tuning on conversations: the same answer tokens and the same losses as Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from glassformer.data.chats import Chats
from glassformer.errors import ConfigError
from glassformer.train import TrainArgs, Trained, fit
from glassformer.train.objectives import build

TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}<|assistant|>{% generation %}{{ m.content }}<|end|>{% endgeneration %}\n"
    "{% else %}<|user|>{{ m.content }}<|end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PLAIN = TEMPLATE.replace("{% generation %}", "").replace("{% endgeneration %}", "")
CHATS = [
    [{"role": "user", "content": "is the mat soft?"}, {"role": "assistant", "content": f"the mat is soft {i}"}]
    + [{"role": "user", "content": "and warm?"}, {"role": "assistant", "content": "warm"}] * (i % 2)
    for i in range(7)
]


@pytest.fixture(scope="module")
def llama(hf: Any, byte_words: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = hf.LlamaConfig(
        vocab_size=byte_words.get_vocab_size(), num_key_value_heads=2, max_position_embeddings=128, **sizes,
        bos_token_id=0, eos_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    hf.LlamaForCausalLM(config).save_pretrained(folder)
    tokens = hf.PreTrainedTokenizerFast(tokenizer_object=byte_words, eos_token="<|end|>", pad_token="<|end|>")
    tokens.chat_template = PLAIN
    tokens.save_pretrained(folder)
    return folder


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps({"messages": one}) + "\n" for one in CHATS))
    return path


def test_losses_equal_hugging_faces(hf: Any, llama: Path, chats: Path, tmp_path: Path) -> None:
    """Answers by Hugging Face's own mask of the assistant's tokens, losses by its model, steps by torch's AdamW."""
    args = TrainArgs(
        task="generate", data=str(chats), val=str(chats), from_=str(llama), batch_size=3, steps=4, lr=3e-3, log_every=1,
        schedule="constant", warmup=0, weight_decay=0.0, grad_clip=0.0,
    )  # fmt: skip
    model, objective = build(args)
    words, theirs = hf.AutoTokenizer.from_pretrained(llama), hf.AutoModelForCausalLM.from_pretrained(llama)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=3e-3, weight_decay=0.0)
    expected = []
    for rows in [*objective.epoch(0), *objective.epoch(1)][:4]:
        given = words.apply_chat_template(
            [CHATS[row] for row in rows], chat_template=TEMPLATE, tokenize=True, return_dict=True, padding=True,
            return_assistant_tokens_mask=True, return_tensors="pt", tokenizer_kwargs={"padding_side": "right"},
        )  # fmt: skip
        labels = given["input_ids"].masked_fill(torch.as_tensor(given["assistant_masks"]) == 0, -100)
        out = theirs(input_ids=given["input_ids"], attention_mask=given["attention_mask"], labels=labels)
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        expected.append(float(out.loss.detach()))
    trained = fit(model, objective, args)
    found = [line["loss"] for line in trained.history]
    assert found == pytest.approx(expected, rel=2e-4)
    assert found[0] - found[-1] > 0.05, "it learned"
    folder = trained.save(tmp_path / "m")
    again = hf.AutoModelForCausalLM.from_pretrained(folder)
    tokens = torch.tensor([[5, 9, 17]])
    with torch.no_grad():
        torch.testing.assert_close(gf.load(folder)(tokens), again(tokens).logits, rtol=1e-4, atol=1e-4)
    assert hf.AutoTokenizer.from_pretrained(folder).chat_template == PLAIN


def test_lora_and_what_is_said(
    hf: Any, llama: Path, chats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chats.open("a") as file:
        file.write('{"messages": [{"role": "user", "content": "nobody answers"}]}\n')
        file.write(json.dumps({"messages": [{"role": "user"}]}) + "\n")
        file.write(json.dumps({"messages": [{"role": "user", "content": "x"}, *CHATS[0][1:]]}) + "\n")
    trained = gf.train("generate", chats, from_=str(llama), lora_rank=2, epochs=1, max_length=60, batch_size=2)
    said = capsys.readouterr().err
    assert "left out: no answer of the assistant: 1 (chats.jsonl line 8)" in said
    assert "left out: message without a role or a text: 1 (chats.jsonl line 9)" in said
    assert set(trained.metrics) == {"loss", "perplexity"}
    model = gf.load(trained.save(tmp_path / "m"))
    assert isinstance(gf.generate(model, [{"role": "user", "content": "is the mat soft?"}], max_new_tokens=4), str)
    theirs, left = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not any(left.values()), left
    tokens = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_stream_of_conversations(llama: Path, streams_like_files: Callable[..., Trained]) -> None:
    content = "".join(json.dumps({"messages": one}) + "\n" for one in [*CHATS, *CHATS])
    streams_like_files("generate", content.encode(), ".jsonl", rows=5, from_=str(llama), batch_size=2, lr=1e-2)


def test_other_formats(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "hi"}]
    wanted = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    (tmp_path / "a.jsonl").write_text(json.dumps({"conversations": turns}) + "\n")
    (tmp_path / "b.csv").write_text("instruction,input,output\nhello,,hi\nAdd,1 and 2,3\n")
    assert Chats.open(tmp_path / "a.jsonl").messages(0) == wanted
    assert Chats.open(tmp_path / "b.csv").messages(0) == wanted
    assert Chats.open(tmp_path / "b.csv").messages(1)[0]["content"] == "Add\n\n1 and 2"


def test_conversations_in_both_splits_are_shown_as_text(
    llama: Path, chats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gf.train("generate", chats, val=str(chats), from_=str(llama), steps=1, max_length=60)
    said = capsys.readouterr().err
    assert 'example (in both): "system: ' in said or 'example (in both): "user: ' in said, said


def test_refusals(gpt2: Path, llama: Path, chats: Path, refused: Callable[..., None]) -> None:
    refused(
        ConfigError, "training on conversations needs a chat model", lambda: gf.train("generate", chats, progress=False)
    )
    none = f"--from {gpt2} has no chat template: add a chat_template.jinja to its folder"
    refused(ConfigError, none, lambda: gf.train("generate", chats, from_=str(gpt2), progress=False))
    long = "--max-length is 999: the model's context is 128"
    refused(ConfigError, long, lambda: gf.train("generate", chats, from_=str(llama), max_length=999, progress=False))
