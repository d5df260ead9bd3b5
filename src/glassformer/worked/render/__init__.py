"""One trace of steps to the terminal, Markdown, LaTeX and HTML."""

from __future__ import annotations

from glassformer.worked.render.page import FORMATS, page, render

__all__ = ["FORMATS", "page", "render"]
