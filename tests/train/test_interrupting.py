from __future__ import annotations

import os
import signal
import threading

import pytest

from glassformer.train.interrupt import Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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


def test_in_another_thread_there_is_nothing_to_handle() -> None:
    asked = []

    def run() -> None:
        with Interrupt() as interrupt:
            asked.append(interrupt.requested)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert asked == [False]
