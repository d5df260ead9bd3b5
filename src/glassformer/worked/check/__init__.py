"""A learner's own working, marked: which cell is right, which follows from an earlier slip, and what the slip was.

from glassformer.worked.check import check, show
from glassformer.worked.read import read_file
print(show(check(exercise, read_file("homework.md"))))
"""

from __future__ import annotations

from glassformer.worked.check.local import Slip
from glassformer.worked.check.marking import check
from glassformer.worked.check.report import Mark, Report
from glassformer.worked.check.show import FORMATS, show

__all__ = ["FORMATS", "Mark", "Report", "Slip", "check", "show"]
