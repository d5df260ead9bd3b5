"""Grading of a learner's work: which cells are right, which follow from an earlier mistake, and what the mistake was.

    import glassformer as gf
    gf.check("four-tokens", "homework.md")        # a Grade: score, cells, mistakes

`align` finds the step and the cells that each statement refers to, `verdict` compares them with the exact values and
with those that follow from the learner's earlier ones, `diagnose` identifies mistakes, `view` and `submissions` report.
"""

from __future__ import annotations

from glassformer.exercises.grade.diagnose import Mistake
from glassformer.exercises.grade.grade import Cell, Grade, check, grade
from glassformer.exercises.grade.verdict import Verdict

__all__ = ["Cell", "Grade", "Mistake", "Verdict", "check", "grade"]
