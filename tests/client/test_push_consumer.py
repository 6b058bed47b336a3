"""Parts of a push consumer that need no broker; the whole is in tests/e2e."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.client.owned_queue import CacheLimits, OwnedQueue
from aiorocketmq.client.pulling import PullSettings
from aiorocketmq.client.push_consumer import PushConsumer
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.message import MessageExt

from .test_owned_queue import QUEUE, SUBSCRIPTION, World, pulled


@pytest.mark.parametrize("running", [True, False])
def test_what_nobody_takes_back_is_tried_again_here_while_the_consumer_runs(running: bool) -> None:
    """At its end nobody is left to do it, and the offset stays before the message: it comes again elsewhere."""

    async def refuse(_message: MessageExt, _delay_level: int) -> None:
        raise ConnectError("nobody there")

    async def main() -> None:
        world = World()
        consumer = PushConsumer("g", instance=world.instance)
        consumer._state = "running" if running else "stopped"
        consumer._send_back = refuse  # type: ignore[assignment]
        settings = PullSettings(32, 1.0, 0, commits_on_pull=True)
        owned = OwnedQueue(consumer._member, QUEUE, SUBSCRIPTION, settings, CacheLimits(), 5, lambda *_: None)
        owned.put(pulled(5, following=6))
        await consumer._give_back(owned, owned.process_queue, list(pulled(5, following=6).messages), 0)
        assert len(consumer._tasks) == (1 if running else 0)
        assert owned.process_queue.commit_offset == 5
        await consumer._tasks.close()

    asyncio.run(main())
