"""Blocking programs that are told to stop while they have messages in hand, and while they do
not."""

from __future__ import annotations

import signal
import threading

import pytest

from aiorocketmq.sync import run
from aiorocketmq.sync_program import current_program

from ..daemon.test_stop_signals import as_in_a_program

__all__ = ["as_in_a_program"]


def test_what_main_returns_is_returned() -> None:
    assert run(lambda: "result") == "result"


def test_main_is_interrupted_and_ends_in_its_own_time() -> None:
    steps: list[str] = []

    def main() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            steps.append("never")
        finally:
            steps.append("ended")

    assert run(main) is None
    assert steps == ["ended"]


def test_an_interrupt_that_no_signal_has_caused_is_raised() -> None:
    def main() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(main)


def test_what_is_in_hand_is_handled_first() -> None:
    steps: list[str] = []

    def main() -> None:
        program, message = current_program(), object()
        program.take(message)
        signal.raise_signal(signal.SIGTERM)
        with current_program().uninterrupted():
            steps.append("handled")
        program.let_go(message)
        program.interrupt()
        steps.append("never")

    assert run(main) is None
    assert steps == ["handled"]


def test_what_is_in_hand_is_waited_for_only_so_long() -> None:
    """Also by a thread that sleeps."""
    asleep = threading.Event()

    def main() -> None:
        current_program().take(object())
        signal.raise_signal(signal.SIGTERM)
        asleep.wait()

    assert run(main, stop_timeout=0.01) is None
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def test_a_step_is_not_cut_when_the_time_is_over() -> None:
    steps: list[str] = []

    def main() -> None:
        program = current_program()
        program.take(object())
        signal.raise_signal(signal.SIGTERM)
        with program.uninterrupted():
            program.wait_no_more()
            steps.append("done")
        steps.append("never")

    assert run(main) is None
    assert steps == ["done"]


def test_who_ends_in_order_is_not_interrupted_again() -> None:
    steps: list[str] = []

    def main() -> None:
        program = current_program()
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            program.wait_no_more()
            steps.append("ended")

    assert run(main) is None
    assert steps == ["ended"]


def test_a_step_is_done_as_a_whole() -> None:
    steps: list[str] = []

    def main() -> None:
        with current_program().uninterrupted():
            signal.raise_signal(signal.SIGINT)
            steps.append("done")
        steps.append("never")

    assert run(main) is None
    assert steps == ["done"]


def test_other_threads_are_not_interrupted() -> None:
    steps: list[str] = []

    def work() -> None:
        with current_program().uninterrupted():
            steps.append("begun")
            told.wait()
        steps.append("ended")

    def main() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            told.set()
            thread.join()

    told = threading.Event()
    assert run(main) is None
    assert steps == ["begun", "ended"]
    current_program().take(steps)  # where nothing runs nobody counts
    with current_program().uninterrupted():
        pass
