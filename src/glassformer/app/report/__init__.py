"""One page that shows a model at work on one input: what `glassformer look` writes."""

from __future__ import annotations

from glassformer.app.report.build import report
from glassformer.app.report.inputs import see
from glassformer.app.report.seen import Seen

__all__ = ["Seen", "report", "see"]
