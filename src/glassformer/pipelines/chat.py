"""messages → one text, rendered by the model's own chat template in a sandboxed, resource-limited subprocess."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from torch import nn

from glassformer.checkpoints import origin_of
from glassformer.checkpoints.files import read_object, read_text
from glassformer.errors import ConfigError, GlassError, InputError

LONGEST = 1_000_000  # maximum characters of a rendered chat, and bytes of a template file
SECONDS = 20.0  # time limit of a subprocess
AT_ONCE = 50  # conversations per subprocess


class Message(TypedDict):
    """A chat message; `role` is system, user or assistant."""

    role: str
    content: str


def has_template(model: nn.Module) -> bool:
    return _template(model) is not None


class Rendering(NamedTuple):
    """A conversation to render, up to where its answer begins if `prompt`, else with its last message complete."""

    messages: Sequence[Message]
    prompt: bool


def render_chat(model: nn.Module, messages: Sequence[Message]) -> str:
    """Render the conversation in the model's training format, up to where its answer begins."""
    if not messages:
        raise InputError("the chat has no messages", "give at least one")
    (text,) = render_chats(model, [Rendering(messages, True)])
    if isinstance(text, GlassError):
        raise text
    return text


def render_chats(model: nn.Module, chats: Sequence[Rendering]) -> list[str | GlassError]:
    """Render several conversations in one subprocess; those that the template rejects are returned as errors."""
    template = _template(model)
    if template is None:
        raise InputError("the model's folder has no chat template", "give a plain text to continue")
    tokens = _tokens(model)
    values = [{"messages": list(chat.messages), "add_generation_prompt": chat.prompt, **tokens} for chat in chats]
    found: list[str | GlassError] = []
    for start in range(0, len(values), AT_ONCE):
        some = values[start : start + AT_ONCE]
        found += map(_text_or_error, _rendered({"template": template, "values": some, "longest": LONGEST}))
    return found


def _rendered(request: dict[str, Any]) -> list[dict[str, str]]:
    """Render in a subprocess with limited time and memory."""
    command = [sys.executable, "-I", str(Path(__file__).with_name("chat_child.py"))]
    count = len(request["values"])
    try:
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, timeout=SECONDS, check=False
        )
        found: list[dict[str, str]] = (
            json.loads(done.stdout) if done.returncode == 0 else [{"failed": "killed"}] * count
        )
    except subprocess.TimeoutExpired:
        found = [{"failed": f"still running after {SECONDS} s"}] * count
    except ValueError:
        found = [{"failed": "no answer"}] * count
    return found


def _text_or_error(found: dict[str, str]) -> str | GlassError:
    if "refused" in found:
        return InputError(
            f"the chat template rejects these messages ({found['refused']})", "give messages that the template accepts"
        )
    if "long" in found:
        return InputError(f"the chat is longer than {LONGEST:,} characters", "shorten the messages")
    if "failed" in found:
        fact = f"the chat template fails ({found['failed']})"
        return ConfigError(fact, "download tokenizer_config.json again, or use chat=False")
    return found["text"]


def _card(model: nn.Module) -> dict[str, Any]:
    origin = origin_of(model)
    path = origin.file("tokenizer_config.json") if origin is not None else None
    return read_object(path) if path is not None else {}


def _template(model: nn.Module) -> str | None:
    """chat_template.jinja, or the template in tokenizer_config.json; if there are several, the default one."""
    origin = origin_of(model)
    path = origin.file("chat_template.jinja") if origin is not None else None
    if path is not None:
        return read_text(path, LONGEST)
    found = _card(model).get("chat_template")
    if isinstance(found, list):
        named = {str(one.get("name")): one.get("template") for one in found if isinstance(one, dict)}
        if "default" not in named:
            fact = f"none of the {len(found)} chat templates in tokenizer_config.json is named default"
            raise ConfigError(fact, "name one of them default, or use chat=False")
        found = named["default"]
    if found is not None and not isinstance(found, str):
        fact = f"chat_template in tokenizer_config.json is a {type(found).__name__}, not a text"
        raise ConfigError(fact, "download tokenizer_config.json again, or use chat=False")
    return found


def _tokens(model: nn.Module) -> dict[str, str]:
    """Special tokens such as bos_token, each stored as a string or as an object with its content."""
    found = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = _card(model).get(name)
        value = value.get("content") if isinstance(value, dict) else value
        found[name] = value if isinstance(value, str) else ""
    return found
