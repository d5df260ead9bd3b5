"""The one training loop: `train(model, lesson, plan, folder)`."""

from __future__ import annotations

from glassformer.tasks.training.lesson import Batch, Lesson
from glassformer.tasks.training.log import Progress, Show, silent
from glassformer.tasks.training.loop import Trained, train
from glassformer.tasks.training.plan import Optimise, Plan

__all__ = ["Batch", "Lesson", "Optimise", "Plan", "Progress", "Show", "Trained", "silent", "train"]
