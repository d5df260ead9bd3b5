"""Grading in child processes: a submission that exceeds its time or memory limit or aborts affects only itself.

Each worker grades one file after another. The CPU time of a submission and the worker's memory are limited by the
operating system; a worker that dies is replaced, and its current submission is reported with the reason.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Timer
from typing import TYPE_CHECKING

from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade.pipes import Document, receive, send
from glassformer.exercises.grade.rubric import Rubric

if TYPE_CHECKING:
    from glassformer.exercises.grade.grade import Grade

    Result = tuple[Grade | None, str]  # a grade, or the reason why there is none

SECONDS = 2.0  # CPU time per submission
MEGABYTES = 2048  # address space per worker
PATIENCE = 60.0  # wall-clock seconds, for a busy machine


class GradingWorker:
    """One child process with its limits; `grade` returns a Grade, or None and the reason."""

    def __init__(
        self,
        exercise: Exercise | None,
        seconds: float = SECONDS,
        megabytes: int = MEGABYTES,
        *,
        decimal_comma: bool = False,
        rubric: Rubric | None = None,
    ) -> None:
        self.exercise, self.seconds, self.megabytes = exercise, seconds, megabytes
        self.decimal_comma, self.rubric = decimal_comma, rubric
        self.process: subprocess.Popen[bytes] | None = None

    def grade(self, document: Document) -> Result:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        alarm = Timer(PATIENCE, process.kill)
        alarm.start()
        try:
            send(process.stdin, document)
            found: Result = receive(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            alarm.cancel()
            with suppress(subprocess.TimeoutExpired):  # the pipe closes a moment before the process has ended
                process.wait(10)
            return None, self._reason(self.close())
        finally:
            alarm.cancel()
        made, reason = found
        return (None if made is None else replace(made, exercise=self.exercise)), reason

    def close(self) -> int:
        """Terminate the process, if there is one, and return its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # unsent data has no reader
                    pipe.close()
        return code

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            paths = os.pathsep.join(path for path in sys.path if path)
            environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen(
                [sys.executable, "-m", "glassformer.exercises.grade.child", str(self.seconds), str(self.megabytes)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            )  # fmt: skip
            assert self.process.stdin is not None
            send(self.process.stdin, (self.exercise, self.decimal_comma, self.rubric))
        return self.process

    def _reason(self, code: int) -> str:
        import signal

        if code in (-signal.SIGPROF, -signal.SIGKILL, -signal.SIGXCPU):
            return f"grading it took more than {self.seconds:g} seconds: hand in one solution with ordinary numbers"
        return f"grading it crashed the process (code {code}): hand in one solution with ordinary numbers"


def grade_document(
    exercise: Exercise | None, document: Document, rubric: Rubric | None = None, *, decimal_comma: bool = False
) -> Grade:
    """Grade one document in a child process; raises InputError with the reason if that fails."""
    worker = GradingWorker(exercise, decimal_comma=decimal_comma, rubric=rubric)
    try:
        found, reason = worker.grade(document)
    finally:
        worker.close()
    if found is None:
        raise refusal(reason)
    return found


def refusal(reason: str) -> InputError:
    """Return the error for a reason of the form `fact: remedy`."""
    fact, _, remedy = reason.rpartition(": ")
    return InputError(fact or "it could not be graded", remedy)


def grade_files(
    exercise: Exercise | None,
    paths: Sequence[Path],
    *,
    decimal_comma: bool = False,
    rubric: Rubric | None = None,
) -> Iterator[Result]:
    """Yield the grade of each file, or the reason why there is none, in the order of the files."""
    count = min(len(paths), 4, os.cpu_count() or 1)
    free: SimpleQueue[GradingWorker] = SimpleQueue()
    pool = [GradingWorker(exercise, decimal_comma=decimal_comma, rubric=rubric) for _ in range(max(1, count))]
    for worker in pool:
        free.put(worker)

    def one(path: Path) -> Result:
        worker = free.get()
        try:
            return worker.grade(path)
        finally:
            free.put(worker)

    try:
        with ThreadPoolExecutor(max(1, count)) as threads:
            yield from threads.map(one, paths)
    finally:
        for worker in pool:
            worker.close()
