"""Exercise generation from a seed: sheets with answer keys, or practice one step at a time."""

from __future__ import annotations

from glassformer.exercises.practice.make import LEVELS, TOPICS, ExerciseSpec, make, sheets
from glassformer.exercises.practice.sheet import answer_key, exercise_yaml, sheet

__all__ = ["LEVELS", "TOPICS", "ExerciseSpec", "answer_key", "exercise_yaml", "make", "sheet", "sheets"]
