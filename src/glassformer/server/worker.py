"""A worker process: reads a task and its arguments from standard input, writes the result, until the input ends.

Messages are a length in four bytes and that much JSON. Whoever started the process may kill it at any time.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO

MEMORY = 2 << 30  # address space of one worker


def main() -> None:
    """Answer tasks of `report.paper` by name."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing but answers may reach the pipe
    _limit_memory()
    from glassformer.report.paper import TASKS

    _write(sink, {"ready": True})
    while (task := _read(source)) is not None:
        _write(sink, _answer(TASKS, task))


def _answer(tasks: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    from glassformer.errors import GlassError

    try:
        return {"result": tasks[task["task"]](**task["arguments"])}
    except GlassError as error:
        return {"fact": error.fact, "remedy": error.remedy}
    except (MemoryError, RecursionError, OverflowError):
        return {"fact": "these numbers grow too large", "remedy": "use smaller numbers or fewer of them"}
    except Exception:  # a mistake of ours: told to whoever runs the server, and the worker goes on
        import traceback

        traceback.print_exc()
        return {"bug": traceback.format_exc(limit=1)}


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


def _write(sink: BinaryIO, message: dict[str, Any]) -> None:
    body = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
    sink.write(len(body).to_bytes(4, "big") + body)
    sink.flush()


if __name__ == "__main__":
    main()
