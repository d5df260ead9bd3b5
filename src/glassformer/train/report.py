"""The report of a training run: curves, scores of each class, confusions and the most confident mistakes."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from glassformer.figures import confusion_matrix, learning_curves
from glassformer.templates import render
from glassformer.train.examined import Examined
from glassformer.train.objective import TaskObjective

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from glassformer.train.loop import Trained

TABLE = 20  # classes up to which the confusion matrix is a table
FREQUENT = 12  # confusions listed
FILE = "report.html"
LOSSES = ("val loss", "val nats")  # metrics in the same unit as the training loss


def figures(trained: Trained) -> dict[str, Figure]:
    """Return the figures of a run by name: `curves`, and `confusion` of a classifier."""
    found, title = {}, f"{trained.args.task} {trained.args.as_dict()['data']}"
    curves = trained.curves
    if "loss" in curves:
        val = {name.replace(".", " "): curve for name, curve in curves.items() if name.startswith("val.")}
        val_loss = next((val.pop(name) for name in LOSSES if name in val), None)
        found["curves"] = learning_curves(curves["loss"], curves["lr"], val, val_loss=val_loss, title=title)
    examined = trained.examined
    if examined is not None and examined.confusion:
        found["confusion"] = confusion_matrix(examined.confusion, examined.labels)
    return found


def render_report(trained: Trained) -> str:
    """Return the report as an HTML page without references to other files."""
    examined = trained.examined
    images = {name: b64encode(image).decode() for name, image in trained.images.items()}
    plain = {name: value for name, value in trained.effective_args.items() if value not in (None, {}, "")}
    if isinstance(trained.objective, TaskObjective):
        plain["batch_size"] = trained.objective.batch_summary()
    return render(
        "training.html",
        title=f"{trained.args.task}: {plain.get('data', '')}",
        summary=str(trained),
        metrics=trained.metrics,
        notes=_notes(trained),
        curves=images.get("curves"),
        smoothed=bool(getattr(trained.objective, "label_smoothing", 0)),
        confusion_figure=images.get("confusion"),
        examined=None if examined is None else _view(examined),
        arguments=plain,
    )


def _notes(trained: Trained) -> list[str]:
    understood, notes = (getattr(trained.objective, name, ()) for name in ("understood", "notes"))
    left_out = [f"left out: {line}" for line in (trained.faults.summary() if trained.faults is not None else ())]
    counts = [trained.objective.summary()] if isinstance(trained.objective, TaskObjective) else []
    return [*understood, *left_out, *notes, *counts]


def _view(examined: Examined) -> dict[str, Any]:
    """Return what the page shows of the validation results."""
    C, labels = examined.confusion, examined.labels
    pairs = [(C[i][j], labels[i], labels[j]) for i in range(len(C)) for j in range(len(C)) if i != j and C[i][j]]
    url = lambda kind, data: f"data:{kind};base64,{b64encode(data).decode()}" if data else ""
    mistakes = [
        {
            "place": one.place,
            "truth": one.truth,
            "answer": one.answer,
            "score": f"{one.score:.1%}" if examined.score != "absolute error" else f"{one.score:.4g}",
            "text": one.text,
            "picture": url("image/png", one.picture),
            "sound": url("audio/flac", one.sound),
        }
        for one in examined.mistakes
    ]
    small = 0 < len(C) <= TABLE
    return {
        "rows": examined.rows,
        "unit": examined.unit,
        "score": examined.score,
        "classes": examined.classes,
        "outcomes": bool(examined.classes and not C),
        "labels": labels,
        "table": [(labels[i], [(n, n / max(1, sum(row))) for n in row]) for i, row in enumerate(C)] if small else [],
        "frequent": sorted(pairs, reverse=True)[:FREQUENT],
        "mistakes": mistakes,
        "mistaken": examined.mistaken,
        "temperature": examined.temperature,
        "calibration": examined.calibration,
    }
