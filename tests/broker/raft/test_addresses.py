"""Where members are, when some of their names lead nowhere for a while."""

from __future__ import annotations

import asyncio
from typing import Any

from aiorocketmq.broker.raft.addresses import AGAIN_S, AT_MOST_EVERY_S, MemberAddresses

from ...sim import ManualClock

PEERS = ("mq-0.example:40911", "mq-1.example:40911", "10.0.0.9:40911")


def test_a_name_that_nobody_answers_for_keeps_no_other_from_being_known() -> None:
    async def main() -> None:
        asked: list[str] = []
        answers: dict[str, asyncio.Future[str]] = {}

        async def getaddrinfo(host: str, *_more: Any, **_how: Any) -> list[Any]:
            asked.append(host)
            answers[host] = asyncio.get_running_loop().create_future()
            return [(0, 0, 0, "", (await answers[host], 0))]

        async def turns() -> None:
            for _ in range(10):
                await asyncio.sleep(0)

        asyncio.get_running_loop().getaddrinfo = getaddrinfo  # type: ignore[method-assign, assignment]
        clock, told = ManualClock(), list[set[str]]()
        addresses = MemberAddresses(PEERS, lambda known: told.append(set(known)), clock)
        service = asyncio.create_task(addresses.run())
        await turns()
        assert sorted(asked) == ["mq-0.example", "mq-1.example"]
        answers["mq-1.example"].set_result("10.0.0.1")
        await turns()
        assert told[-1] == {"10.0.0.1", "10.0.0.9"}
        answers["mq-0.example"].set_exception(OSError("it takes too long"))
        await turns()
        assert told[-1] == {"10.0.0.1", "10.0.0.9"}
        clock.advance(AT_MOST_EVERY_S)
        await turns()
        clock.advance(AGAIN_S)
        await turns()
        answers["mq-0.example"].set_result("10.0.0.7")
        answers["mq-1.example"].set_exception(OSError("nor this time"))
        await turns()
        assert told[-1] == {"10.0.0.7", "10.0.0.1", "10.0.0.9"}, "what is known stays"
        assert len(asked) == 4
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)

    asyncio.run(main())
