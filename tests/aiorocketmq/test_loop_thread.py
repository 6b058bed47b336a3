"""The event loop that all blocking clients of a process share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiorocketmq import loop_thread
from aiorocketmq.loop_thread import LoopThread
from aiorocketmq.sync import PullConsumer


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_program_does_not_end_the_loop_of_all_its_clients(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    loop = LoopThread()

    async def ends() -> None:
        raise kind

    async def goes_on() -> str:
        return "as before"

    for _ in range(2):
        with pytest.raises(kind):
            loop.run(ends())
        assert loop.submit(goes_on()).result(10) == "as before"
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL] * 2


class Interrupted(Exception):
    """As a handler of a signal raises it."""


class Numbers:
    """In the place of a client that hands out messages, which are numbers here."""

    def __init__(self) -> None:
        self.next = 0
        self.committed = 0

    async def poll(self, _timeout: float, max_messages: int) -> list[int]:
        await asyncio.sleep(0)
        self.next += max_messages
        return list(range(self.next - max_messages, self.next))

    async def __aiter__(self) -> AsyncIterator[int]:
        while True:
            yield (await self.poll(0, 1))[0]

    def take_back(self, numbers: list[int]) -> None:
        self.next = numbers[0]

    async def commit(self, _offsets: None = None) -> None:
        self.committed = self.next


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_an_interrupted_poll_has_taken_comes_with_the_next_and_is_not_committed_before(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer: Any = PullConsumer("g", "T", namesrv="127.0.0.1:1")
    client = Numbers()
    monkeypatch.setattr(consumer, "_client", client)
    interrupts = False

    class Interruptible(loop_thread.Call[object]):
        __slots__ = ()

        def wait(self) -> None:
            if interrupts:
                if when == "after" and not self._has_ended:
                    self.ended.acquire(timeout=10)
                raise Interrupted
            super().wait()

    monkeypatch.setattr(loop_thread, "Call", Interruptible)

    def interrupted(call: Callable[[], object]) -> None:
        nonlocal interrupts
        interrupts = True
        with pytest.raises(Interrupted):
            call()
        interrupts = False

    assert consumer.poll(max_messages=2) == [0, 1]
    for _ in range(2):
        interrupted(lambda: consumer.poll(max_messages=3))
        consumer.commit()
        assert client.committed == 2
    messages = iter(consumer)
    assert [next(messages) for _ in range(2)] == [2, 3]
    assert consumer.poll(max_messages=2) == [4, 5]
    interrupted(lambda: next(messages))
    consumer.commit()
    assert client.committed == 6
    assert consumer.poll(max_messages=1) == [6]
