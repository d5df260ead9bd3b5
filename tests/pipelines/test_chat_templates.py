from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoints import load_folder
from glassformer.errors import ConfigError, InputError
from glassformer.pipelines import generate
from glassformer.pipelines.chat import has_template, render_chat

TEMPLATE = """{{ bos_token }}{% for message in messages %}
    {%- if message['role'] == 'system' and not loop.first %}{{ raise_exception('system comes first') }}{% endif %}
<|{{ message['role'] }}|>{{ message['content'] | trim }}<|end|>
{% endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""
CHAT: Any = [{"role": "system", "content": "Be kind. "}, {"role": "user", "content": "{{ 1 + 1 }} 'x'"}]


@pytest.mark.parametrize("form", ["text", "list", "file"])
def test_as_hugging_face_renders_it(hf: Any, gpt2: Path, edited: Callable[..., Path], form: str) -> None:
    named = [{"name": "tools", "template": "other"}, {"name": "default", "template": TEMPLATE}]
    card = {"bos_token": {"content": "<|end|>", "__type": "AddedToken"}}
    folder = edited(gpt2, tokenizer_config=card | ({"chat_template": named if form == "list" else TEMPLATE}))
    if form == "file":
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    theirs = hf.PreTrainedTokenizerFast(tokenizer_file=str(gpt2 / "tokenizer.json"), bos_token="<|end|>")
    expected = theirs.apply_chat_template(CHAT, chat_template=TEMPLATE, tokenize=False, add_generation_prompt=True)
    model = load_folder(folder)
    assert has_template(model)
    assert render_chat(model, CHAT) == expected


def test_what_is_refused(gpt2: Path, edited: Callable[..., Path], refused: Any) -> None:
    plain = load_folder(gpt2)
    assert not has_template(plain)
    refused(InputError, "the model's folder has no chat template", lambda: render_chat(plain, CHAT))
    model = load_folder(edited(gpt2, tokenizer_config={"chat_template": TEMPLATE}))
    late = lambda: render_chat(model, CHAT[::-1])
    refused(InputError, "the chat template rejects these messages (system comes first)", late)
    refused(InputError, "the chat has no messages", lambda: render_chat(model, []))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ([1, 2, 3], "none of the 3 chat templates in tokenizer_config.json is named default"),
        ([{"name": "tools", "template": TEMPLATE}], "none of the 1 chat templates"),
        ([{"name": "default", "template": None}, {"name": "default", "template": 5}], "is a int, not a text"),
        ({"default": TEMPLATE}, "is a dict, not a text"),
        (7, "is a int, not a text"),
    ],
)
def test_a_template_that_cannot_be_used_is_not_ignored(
    gpt2: Path, edited: Callable[..., Path], template: Any, message: str
) -> None:
    model = load_folder(edited(gpt2, tokenizer_config={"chat_template": template}))
    with pytest.raises(ConfigError, match=message):
        generate(model, "the cat", max_new_tokens=1)
    assert generate(model, "the cat", max_new_tokens=1, chat=False)


@pytest.mark.parametrize(
    "program",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
    ],
)
def test_a_template_stays_in_its_box(gpt2: Path, edited: Callable[..., Path], program: str) -> None:
    model = load_folder(edited(gpt2, tokenizer_config={"chat_template": program}))
    with pytest.raises((InputError, ConfigError), match="the chat template"):
        render_chat(model, CHAT)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("{{ 'x' * 20000000000 }}", "the chat template fails"),
        pytest.param(
            "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
            "the chat template fails",
            marks=pytest.mark.slow,  # runs into its limit of CPU time
        ),
        ("{% for i in range(99999) %}{{ 'abcdefghijklmnopqrstuvwxyz' }}{% endfor %}", "the chat is longer than"),
        ("{% for message in messages %}", "the chat template rejects"),
    ],
)
def test_a_template_is_bounded_in_time_and_memory(
    gpt2: Path, edited: Callable[..., Path], program: str, message: str
) -> None:
    model = load_folder(edited(gpt2, tokenizer_config={"chat_template": program}))
    with pytest.raises((InputError, ConfigError), match=message):
        render_chat(model, CHAT)
