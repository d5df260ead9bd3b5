"""Render a chat template in a separate process: a template is untrusted code and may never terminate.

Runs as a script with a request on standard input: a template and the values of several renderings. Imports nothing from
Glassformer.
"""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any

MEMORY = 400 * 2**20  # bytes of address space
SECONDS = 2  # of CPU time


def limit() -> None:
    """Limit the resources of this process, where the operating system supports it."""
    try:
        import resource
    except ImportError:  # not on Windows, where only the parent's timeout applies
        return
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def render(request: dict[str, Any]) -> list[dict[str, str]]:
    """Return {"text": …} for each of `values`, or the reason for failure.

    The reasons are {"refused": …} by the template itself, {"long": ""} or {"failed": …}.
    """
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    world = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    world.filters["tojson"] = lambda value, **how: json.dumps(value, ensure_ascii=False, **how)
    world.globals["raise_exception"] = _refuse
    world.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    limit()
    return [_render_one(world, request["template"], values, request["longest"]) for values in request["values"]]


def _refuse(text: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(text)


def _render_one(world: Any, template: str, values: dict[str, Any], longest: int) -> dict[str, str]:
    from jinja2 import TemplateError

    pieces, size = [], 0
    try:
        for piece in world.from_string(template).generate(**values):  # compiled once: jinja2 caches it
            pieces.append(piece)
            size += len(piece)
            if size > longest:
                return {"long": ""}
    except TemplateError as error:
        return {"refused": " ".join(str(error).split())[:100]}
    except MemoryError:
        return {"failed": "MemoryError"}
    except Exception as error:  # untrusted code may raise anything
        return {"failed": type(error).__name__}
    return {"text": "".join(pieces)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(render(json.loads(sys.stdin.read()))))
