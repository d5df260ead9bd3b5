"""The child process that grades one document after another, within limits on time and memory."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from glassformer.errors import GlassError
from glassformer.exercises.grade.grade import Grade, grade
from glassformer.exercises.grade.pipes import Document, receive, send
from glassformer.exercises.reader import read, read_file


def main(seconds: float, megabytes: int) -> None:
    """Run the child process: grade the files whose names it receives, until the parent closes the pipe."""
    import resource
    import signal

    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # only results go to the pipe
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    exercise, decimal_comma, rubric = receive(source)
    while True:
        try:
            document: Document = receive(source)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF ends the process
        found: tuple[Grade | None, str]
        try:
            if isinstance(document, Path):
                reading = read_file(document, decimal_comma=decimal_comma)
            else:
                reading = read(*document, decimal_comma=decimal_comma)
            # the parent has the exercise; what was computed with it here cannot be pickled
            found = replace(grade(exercise, reading, rubric), exercise=None), ""
        except GlassError as error:
            found = None, str(error)
        except MemoryError:
            found = None, f"grading it took more than {megabytes} MB: hand in one solution with ordinary numbers"
        except RecursionError:
            found = None, "its formulas are nested too deeply: write them in several steps"
        except Exception as error:  # whatever the error, the other files are still graded
            found = None, f"it could not be graded ({type(error).__name__})"
        signal.setitimer(signal.ITIMER_PROF, 0)
        send(sink, found)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
