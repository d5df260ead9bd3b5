from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from glassformer.train.interrupt import Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_asks_and_leaves_no_trace(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    with Interrupt() as interrupt:
        assert not interrupt.requested
        os.kill(os.getpid(), number)
        assert interrupt.requested
        assert "glassformer: stopping after this step and saving" in capfd.readouterr().err, "at once"
    assert signal.getsignal(number) == before


def test_a_second_ctrl_c_is_meant() -> None:
    before = signal.getsignal(signal.SIGINT)

    def twice() -> None:
        with Interrupt():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert signal.getsignal(signal.SIGINT) == before


def test_a_terminal_that_is_gone_does_not_end_the_run() -> None:
    program = (
        "import os, signal, sys\n"
        "from glassformer.train.interrupt import Interrupt\n"
        "with Interrupt() as interrupt:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    print('saving', file=sys.stderr, flush=True)\n"
        "    print('saved', flush=True)\n"
        "    sys.exit(7 if interrupt.requested else 1)\n"
    )
    master, terminal = os.openpty()
    os.close(master)
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, stdout=terminal, stderr=terminal, check=False).returncode == 7
    os.close(terminal)


def test_in_another_thread_there_is_nothing_to_handle() -> None:
    asked = []

    def run() -> None:
        with Interrupt() as interrupt:
            asked.append(interrupt.requested)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert asked == [False]
