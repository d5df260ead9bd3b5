"""Glassformer, the see-through Transformer.

    import glassformer as gf

    gf.solve("four-tokens")                                    # an exercise, every step exact
    model = gf.load("writer")                                  # a shipped or fetched model by name, or a folder
    gf.generate(model, "Once upon a time", max_new_tokens=40)
    with gf.trace(model, "*.A") as trace:                      # every quantity of a run by its path
        model(tokens)

Names load when first used: `import glassformer` imports neither torch nor anything else that is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.lazy import on_first_use

if TYPE_CHECKING:
    from glassformer import (
        checkpoints,
        core,
        data,
        decoding,
        errors,
        exercises,
        figures,
        lab,
        lens,
        models,
        nn,
        pipelines,
        report,
        runtime,
        server,
        widget,
    )
    from glassformer.checkpoints.native import save
    from glassformer.errors import GlassError
    from glassformer.exercises.grade import check
    from glassformer.exercises.solution import solve
    from glassformer.lens.edit import edit
    from glassformer.lens.trace import trace
    from glassformer.pipelines.classify import classify
    from glassformer.pipelines.embed import embed
    from glassformer.pipelines.evaluate import evaluate
    from glassformer.pipelines.generate import generate
    from glassformer.pipelines.loading import load
    from glassformer.pipelines.transcribe import transcribe
    from glassformer.pipelines.translate import translate
    from glassformer.report.model_report import look
    from glassformer.train import train
    from glassformer.widget.shown import show

__version__ = "0.1.0"

__all__ = [
    "GlassError", "__version__", "check", "checkpoints", "classify", "core", "data", "decoding", "edit", "embed",
    "errors", "evaluate", "exercises", "figures", "generate", "lab", "lens", "load", "look", "models", "nn",
    "pipelines", "report", "runtime", "save", "server", "show", "solve", "trace", "train", "transcribe", "translate",
    "widget",
]  # fmt: skip
# function or class -> the module it lives in; the other names are packages, and `train` is one that can be called
_HOMES = {
    "GlassError": "errors",
    "check": "exercises.grade",
    "classify": "pipelines",
    "edit": "lens",
    "embed": "pipelines",
    "evaluate": "pipelines",
    "generate": "pipelines",
    "load": "pipelines",
    "look": "report",
    "save": "checkpoints",
    "show": "widget",
    "solve": "exercises.solution",
    "trace": "lens",
    "transcribe": "pipelines",
    "translate": "pipelines",
}

if not TYPE_CHECKING:  # type checkers know the names above, and refuse others
    __getattr__ = on_first_use(__name__, dict.fromkeys(__all__, "") | _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
