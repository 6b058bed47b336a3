"""One member of the groups of ``benchmarks.consumers``: an ordered consumer and one without order,
on one client.

``python -m benchmarks.consumers_member NAMESRV TOPIC NAME JOURNAL``; SIGTERM ends it in good order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time

from aiorocketmq import ClientInstance, MessageExt, PushConsumer, StartFrom
from aiorocketmq.daemon.event_loop import new_event_loop

from .consumers_ledger import RECORD, Kind

ORDERED_GROUP = "soak-ordered"
GROUP = "soak-any"


async def member(namesrv: str, topic: str, name: str, journal: str) -> None:
    fd = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(kind: Kind, message: MessageExt) -> None:
        os.write(fd, RECORD.pack(kind, message.queue_id, message.queue_offset, time.monotonic_ns()))

    async def one_after_the_other(message: MessageExt) -> None:
        note(Kind.ORDERED_BEGIN, message)
        await asyncio.sleep(0)
        note(Kind.ORDERED_END, message)

    async def side_by_side(message: MessageExt) -> None:
        note(Kind.ANY, message)

    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with ClientInstance(namesrv=namesrv, instance_name=name) as instance:
        ordered = PushConsumer(
            ORDERED_GROUP, instance=instance, ordered=True, start_from=StartFrom.FIRST, suspend=5.0
        )
        unordered = PushConsumer(GROUP, instance=instance, start_from=StartFrom.FIRST, suspend=5.0)
        for consumer, handler in ((ordered, one_after_the_other), (unordered, side_by_side)):
            consumer.subscribe(topic)
            consumer.on_message(handler)
        async with ordered, unordered:
            print("ready", flush=True)
            await ended.wait()
    os.close(fd)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(member(*sys.argv[1:5]))
