"""A worker process: reads tasks from standard input and writes their results, until the input ends.

A task is a length in four bytes and that much JSON. An answer is a length, one byte for the kind of answer (a result,
a problem or a bug) and JSON, which the server passes on without parsing it. The process may be killed at any time.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO

MEMORY = 2 << 30  # address space of one worker
READY, RESULT, PROBLEM, BUG = b"+", b"r", b"p", b"b"


def main() -> None:
    """Answer tasks of `report.paper` by name."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # only answers may reach the pipe
    _limit_memory()
    from glassformer.report.paper import TASKS

    _write(sink, READY, b"")
    while (task := _read(source)) is not None:
        _write(sink, *_answer(TASKS, task))


def _answer(tasks: dict[str, Any], task: dict[str, Any]) -> tuple[bytes, bytes]:
    from glassformer.errors import GlassError

    try:
        return RESULT, _json(tasks[task["task"]](**task["arguments"]))
    except GlassError as error:
        return PROBLEM, _json({"fact": error.fact, "remedy": error.remedy})
    except (MemoryError, RecursionError, OverflowError):
        return PROBLEM, _json(
            {"fact": "these numbers grow too large", "remedy": "use smaller numbers or fewer of them"}
        )
    except Exception:  # a bug: print it for the developer; the worker continues
        import traceback

        traceback.print_exc()
        return BUG, _json(traceback.format_exc(limit=1))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _read(source: BinaryIO) -> dict[str, Any] | None:
    head = source.read(4)
    if len(head) < 4:
        return None
    message: dict[str, Any] = json.loads(source.read(int.from_bytes(head, "big")))
    return message


def _write(sink: BinaryIO, kind: bytes, body: bytes) -> None:
    sink.write((len(body) + 1).to_bytes(4, "big") + kind + body)
    sink.flush()


if __name__ == "__main__":
    main()
