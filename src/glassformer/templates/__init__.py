"""The Jinja environment of every HTML page: solutions, grades, experiments, comparisons and model reports.

Templates live beside this file and extend `page.html`, which holds the shared style. Values are escaped; markup made by
our own renderers (MathML, SVG) is passed as `markupsafe.Markup`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment() -> Environment:
    """The shared environment: autoescaped, and a name that a template misses is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **context: Any) -> str:
    """The page or fragment `template` filled with `context`, for example `render("solution.html", solution=view)`."""
    return environment().get_template(template).render(context)
