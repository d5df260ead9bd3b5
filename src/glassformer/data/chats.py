"""Conversations: `messages` as in chat APIs, ShareGPT's `conversations`, or columns like `prompt` and `completion`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.columns import are_names
from glassformer.data.rows import Row, RowDataset, Rows, Source, name_of, open_reader, open_rows

ANSWERS = "assistant"
ROLES = {"human": "user", "gpt": ANSWERS, "bot": ANSWERS, "model": ANSWERS}  # other names of the usual roles
TURN = "prompt", "completion"


class Chats(RowDataset):
    """Conversation i is `messages(i)`: dictionaries with `role` and `content`, at least one by the assistant."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @classmethod
    def open(cls, source: Source, columns: Mapping[str, str] | None = None) -> Chats:
        """Open conversations: a column of messages, or a prompt (with an optional context) and its completion."""
        one_turn = set(columns or ()) & {*TURN} or not is_chat(source, columns, ("messages",))
        roles: tuple[str, ...] = TURN if one_turn else ("messages",)
        rows = open_rows(
            source, roles, optional=("context",) if one_turn else (), given=columns, check=lambda row: _messages(row)[1]
        )
        rows.require_some(
            f"{name_of(source)} has no conversations", 'give JSON Lines such as {"messages": [{"role": "user", …}]}'
        )
        return cls(rows)

    def messages(self, i: int) -> list[dict[str, str]]:
        return _messages(self.rows[i])[0]

    def part(self, rows: NDArray[np.int64]) -> Chats:
        return Chats(self.rows.part(rows))

    def like(self, source: Source) -> Chats:
        return Chats.open(source, self.rows.given)


def is_chat(source: Source, columns: Mapping[str, str] | None, roles: Sequence[str] = ("messages", *TURN)) -> bool:
    """Return whether a source has conversations: a column of messages, or columns of prompts and completions."""
    named = set(columns or ())
    if named & set(roles):
        return True
    if named:
        return False
    reader, _, _ = open_reader(source, roles, columns)
    if are_names(reader.names, ("messages",)):
        return True
    return "prompt" in roles and all(are_names(reader.names, (role,)) for role in TURN)


def _messages(row: Row) -> tuple[list[dict[str, str]], str]:
    """Return the messages of a row, or the reason why it cannot be used."""
    if "completion" in row:
        asked, answer, context = row["prompt"], row["completion"], row.get("context")
        if not all(isinstance(text, str) and text.strip() for text in (asked, answer)):
            return [], "empty prompt or completion"
        asked = f"{asked}\n\n{context}" if isinstance(context, str) and context.strip() else asked
        return [{"role": "user", "content": asked}, {"role": ANSWERS, "content": answer}], ""
    value = row["messages"]
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return [], "messages that are not JSON"
    if not isinstance(value, list) or not value:
        return [], "no list of messages"
    found = [_message(one) for one in value]
    if any(one is None for one in found):
        return [], "message without a role or a text"
    messages = [one for one in found if one is not None]
    if not any(one["role"] == ANSWERS and one["content"].strip() for one in messages):
        return [], "no answer of the assistant"
    return messages, ""


def _message(value: Any) -> dict[str, str] | None:
    if not isinstance(value, Mapping):
        return None
    role, content = value.get("role", value.get("from")), value.get("content", value.get("value"))
    if not isinstance(role, str) or not isinstance(content, str):
        return None
    return {"role": ROLES.get(role, role), "content": content}
