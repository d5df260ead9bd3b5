"""Notations for an index or a product, rewritten as the usual ones: q(1) as q_{1}, ⟨q1, k2⟩ as q1·k2, token 1 = (…)."""

from __future__ import annotations

import re

_CALLED = re.compile(r"(?<![\w\\])([qkvsazcohQKVSAZCOH])\((\d{1,2})\)(?=\s*[=≈:])")
_VECTOR = r"([qk]_?\{?\d{1,2}\}?)"
_INNER = re.compile(rf"(?:<|⟨|\\langle)\s*{_VECTOR}\s*,\s*{_VECTOR}\s*(?:>|⟩|\\rangle)(?=\s*[=≈])")
# q1·k2 = 5 -> 5/1.414 = 3.54: after the arrow comes another quantity
_ARROW = re.compile(r"(=[ \t]*[-+−]?\d[\d./]*)[ \t]*(?:->|→|⇒|=>|\\(?:to|rightarrow|Rightarrow)\b)[ \t]*(?=[-+−]?\d)")
_TOKEN = re.compile(r"\b((?:token|word|position)\s+\d{1,2})\s*=(?=\s*[\[(]\s*[-+−.\d])", re.I)


def usual_notation(text: str) -> str:
    """Rewrite the notations of a document; lines stay lines."""
    text = _CALLED.sub(r"\1_{\2}", text)
    text = _INNER.sub(r"\1·\2", text)
    text = _ARROW.sub(r"\1 ; ", text)
    return _TOKEN.sub(r"\1:", text)
