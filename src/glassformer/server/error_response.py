"""Responses to rejected requests: JSON for programs, a page for people who open a wrong address."""

from __future__ import annotations

import json
from html import escape

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{fact} · Glassformer</title>
<link rel="icon" href="/icon.svg" type="image/svg+xml"><link rel="stylesheet" href="/style.css"></head>
<body><main><h1>{fact}</h1><p>{remedy}.</p><p><a class="button primary" href="/">Open the workbench</a></p></main>
</body></html>
"""


def error_response(path: str, accept: str, fact: str, remedy: str) -> tuple[str, bytes]:
    """Return the content type and the body of the response."""
    if path.startswith("/api/") or "text/html" not in accept:
        return "application/json", json.dumps({"fact": fact, "remedy": remedy}).encode()
    shown = {"fact": fact[:1].upper() + fact[1:], "remedy": remedy[:1].upper() + remedy[1:]}
    return "text/html; charset=utf-8", PAGE.format(**{key: escape(text) for key, text in shown.items()}).encode()
