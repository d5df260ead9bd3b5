"""messages → one text, by the template that came with the model: in a sandbox, since it is someone's program."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any, TypedDict

from torch import nn

from glassformer.checkpoints import origin_of
from glassformer.checkpoints.files import read_object
from glassformer.errors import ConfigError, InputError

LONGEST = 1_000_000  # letters of a rendered chat


class Message(TypedDict):
    """`role` is system, user or assistant."""

    role: str
    content: str


def has_template(model: nn.Module) -> bool:
    return _template(model) is not None


def render_chat(model: nn.Module, messages: Sequence[Message]) -> str:
    """The conversation as the model was trained on it, up to where its answer begins."""
    template = _template(model)
    if template is None:
        raise InputError("the model's folder has no chat template", "give plain text to go on from")
    if not messages:
        raise InputError("a chat of 0 messages", "give at least one")
    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def fail(text: str) -> None:
        raise TemplateError(text)

    world = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    world.filters["tojson"] = lambda value, **how: json.dumps(value, ensure_ascii=False, **how)
    world.globals["raise_exception"] = fail
    world.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        rendered = world.from_string(template).render(
            messages=list(messages), add_generation_prompt=True, **_tokens(model)
        )
    except TemplateError as error:
        raise InputError(f"the chat template refuses ({str(error)[:100]})", "give messages that it knows") from None
    except Exception as error:  # anyone's program
        fact = f"the chat template fails ({type(error).__name__})"
        raise ConfigError(fact, "get tokenizer_config.json again") from None
    if len(rendered) > LONGEST:
        raise InputError(f"the chat is {len(rendered)} letters long", f"at most {LONGEST} are read")
    return rendered


def _card(model: nn.Module) -> dict[str, Any]:
    origin = origin_of(model)
    path = origin.file("tokenizer_config.json") if origin is not None else None
    return read_object(path) if path is not None else {}


def _template(model: nn.Module) -> str | None:
    """chat_template.jinja, or the one in tokenizer_config.json: the default of several."""
    origin = origin_of(model)
    path = origin.file("chat_template.jinja") if origin is not None else None
    if path is not None:
        return path.read_text(encoding="utf-8")
    found = _card(model).get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _tokens(model: nn.Module) -> dict[str, str]:
    """bos_token and so on, each a text or an object with its text."""
    found = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = _card(model).get(name)
        value = value.get("content") if isinstance(value, dict) else value
        found[name] = value if isinstance(value, str) else ""
    return found
