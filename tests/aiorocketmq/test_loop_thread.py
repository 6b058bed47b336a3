"""The event loop that all blocking clients of a process share."""

from __future__ import annotations

import logging

import pytest

from aiorocketmq.loop_thread import LoopThread


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
