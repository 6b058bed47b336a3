"""Who hears SIGTERM and Ctrl-C, and who does not."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest

from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.daemon.stop_signals import StopSignals, on_stop_signal

BOTH = (signal.SIGTERM, signal.SIGINT)
LOOPS = pytest.mark.parametrize(
    "loop_factory", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "fast"]
)


@pytest.fixture(autouse=True)
def as_in_a_program() -> Iterator[None]:
    """The handlers of Python, whatever runs the tests."""
    before = {number: signal.getsignal(number) for number in BOTH}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in BOTH]


@pytest.mark.parametrize("number", BOTH)
def test_the_first_signal_is_told_and_a_second_one_is_the_systems(number: signal.Signals) -> None:
    before, told = handlers(), list[int]()
    with on_stop_signal(lambda: told.append(number)):
        assert signal.SIG_DFL not in handlers()
        signal.raise_signal(number)
        assert told == [number]
        assert handlers() == [signal.SIG_DFL, signal.SIG_DFL]
    assert handlers() == before


def test_a_handler_of_the_program_wins() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    with on_stop_signal(lambda: heard.append(0)):
        signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
        signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGTERM, signal.SIGINT]
    assert (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    )  # it is still the program's


def test_ignored_signals_stay_ignored() -> None:
    """As in what a shell starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with on_stop_signal(lambda: None):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_hear_nothing() -> None:
    before, seen = handlers(), list[object]()

    def look() -> None:
        with on_stop_signal(lambda: None):
            seen.extend(handlers())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == before


@LOOPS
@pytest.mark.parametrize("number", BOTH)
def test_a_block_is_cancelled_and_left_without_an_error(
    number: signal.Signals, loop_factory: object
) -> None:
    steps: list[str] = []

    async def work() -> str:
        with StopSignals() as signals:
            with signals.cancelling():
                asyncio.get_running_loop().call_soon(signal.raise_signal, number)
                try:
                    await asyncio.Event().wait()
                finally:
                    steps.append("cancelled")
            await asyncio.sleep(0)
            steps.append("ended")
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return "result"

    with asyncio.Runner(loop_factory=loop_factory) as runner:  # type: ignore[arg-type]
        assert runner.run(work()) == "result"
    assert steps == ["cancelled", "ended"]


def test_a_signal_does_not_cut_the_end_short() -> None:
    async def work() -> None:
        with StopSignals() as signals:
            with signals.cancelling():
                pass
            signal.raise_signal(signal.SIGTERM)
            for _ in range(5):
                await asyncio.sleep(0)

    asyncio.run(work())


def test_who_cancels_it_himself_sees_it_cancelled() -> None:
    async def work() -> None:
        with StopSignals() as signals, signals.cancelling():
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
            asyncio.get_running_loop().call_soon(lambda: task.cancel() and None)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())
