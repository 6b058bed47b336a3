"""The main job: every row of a file goes into a topic and comes out of it again, to three consumers
in two groups.

Two consumers share the queues of the topic as members of one group; the third is alone in a group
that subscribes to one tag.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import NamedTuple

from rich.console import Console

from aiorocketmq import Message, MessageExt, Producer, PushConsumer, RocketMQError, StartFrom

from .errors import DemoError
from .progress import Display, progress_display
from .rows import Row
from .source import Source
from .tally import Received, Sent
from .waiting import until

ROW = "row"
"""Property of each message: the number of its row."""

IN_FLIGHT = 64
SETTLED_WITHIN = 30.0
NOTHING_NEW_FOR = 15.0
MAX_FAILURES_IN_A_ROW = 20
_SHOW_EVERY_S = 0.1
_LOOK_EVERY_S = 0.005


class Group(NamedTuple):
    """A consumer group of the demo."""

    name: str
    expression: str
    consumers: tuple[str, ...]
    received: Received


class Outcome(NamedTuple):
    """How it went."""

    sent: Sent
    failed: int
    """Rows that no broker took."""
    failure: str
    """What the first of them failed of."""
    everyone: Group
    filtered: Group
    queues: dict[str, list[int]]
    """Consumer to its queue ids."""
    send_s: float
    total_s: float


class Job:
    """One run of the demo over a topic that exists."""

    def __init__(self, namesrv: str, topic: str, source: Source) -> None:
        self._namesrv = namesrv
        self._topic = topic
        self._source = source
        tag = next(iter(source.tag_counts), "none")
        self._everyone = Group(f"{topic}-all", "*", ("A", "B"), Received())
        self._filtered = Group(f"{topic}-tag", tag, ("C",), Received())
        self._sent = Sent()
        self._failed = 0
        self._failure = ""

    async def run(self, console: Console) -> Outcome:
        """Send everything, receive everything. Raises ``DemoError`` when there is no sense in going
        on."""
        async with AsyncExitStack() as running:
            consumers = {}
            for group in (self._everyone, self._filtered):
                for name in group.consumers:
                    consumers[name] = await running.enter_async_context(self._consumer(group, name))
            producer = await running.enter_async_context(
                Producer(f"{self._topic}-producer", namesrv=self._namesrv)
            )
            queues = await self._shared_queues(consumers, await self._queue_count(producer))
            self._say_who_has_what(console, queues)
            send_s, total_s = await self._send_and_receive(console, producer)
        return Outcome(
            self._sent,
            self._failed,
            self._failure,
            self._everyone,
            self._filtered,
            queues,
            send_s,
            total_s,
        )

    # --- the consumers
    # ----------------------------------------------------------------------------------------------

    def _consumer(self, group: Group, name: str) -> PushConsumer:
        # One handler at a time, so that the order of each queue is kept and can be verified.
        consumer = PushConsumer(
            group.name, namesrv=self._namesrv, start_from=StartFrom.FIRST, concurrency=1
        )
        consumer.subscribe(self._topic, group.expression)

        @consumer.on_message
        async def take(message: MessageExt) -> None:
            row = int(message.properties[ROW])
            group.received.add(
                name,
                row,
                message.tags,
                (message.broker_name, message.queue_id),
                message.queue_offset,
            )

        return consumer

    async def _queue_count(self, producer: Producer) -> int:
        return len(await producer.queues(self._topic))

    async def _shared_queues(
        self, consumers: dict[str, PushConsumer], count: int
    ) -> dict[str, list[int]]:
        """Which queues each has, once A and B have divided them. Rows are sent after that, so that
        none comes twice."""

        def owned(name: str) -> list[int]:
            return sorted(
                q.queue_id for q in consumers[name].assignment() if q.topic == self._topic
            )

        def settled() -> bool:
            a, b, c = map(owned, "ABC")
            return bool(a) and bool(b) and len(a) + len(b) == len(c) == count

        await until(settled, SETTLED_WITHIN, "the consumers did not agree who has which queue")
        return {name: owned(name) for name in consumers}

    def _say_who_has_what(self, console: Console, queues: dict[str, list[int]]) -> None:
        everyone, filtered = self._everyone, self._filtered
        a, b, c = (queue_text(queues[name]) for name in "ABC")
        shared = (
            f"Consumers A and B share the group {everyone.name}: A has the queues {a}, B has {b}."
        )
        alone = (
            f"Consumer C is the group {filtered.name} with the tag filter {filtered.expression}: "
            f"it has {c}."
        )
        console.print(f"{shared}\n{alone}", soft_wrap=True)

    # --- the rows
    # ----------------------------------------------------------------------------------------------

    async def _send_and_receive(self, console: Console, producer: Producer) -> tuple[float, float]:
        """Seconds until all was sent, and until all was received."""
        rows = self._source.rows
        tag = self._filtered.expression
        totals = {
            "sent": rows,
            "received by A and B": rows,
            f"received by C ({tag})": self._source.tag_counts.get(tag, 0),
        }
        started = time.monotonic()
        with progress_display(console, totals) as display:
            ticking = asyncio.create_task(self._show(display, list(totals)))
            try:
                await self._send_all(producer)
                send_s = time.monotonic() - started
                last_arrival = await self._receive_rest()
            finally:
                ticking.cancel()
                await asyncio.gather(ticking, return_exceptions=True)
            display.update(self._counts(list(totals)))
        return send_s, max(send_s, last_arrival - started)

    async def _send_all(self, producer: Producer) -> None:
        """All rows, many in flight; in each queue in the order of the file."""
        numbered = enumerate(self._source.read())
        try:
            async with asyncio.TaskGroup() as senders:
                for _ in range(IN_FLIGHT):
                    senders.create_task(self._send_rows(producer, numbered))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _send_rows(self, producer: Producer, numbered: Iterator[tuple[int, Row]]) -> None:
        columns = self._source.columns
        failures_in_a_row = 0
        for number, row in numbered:
            tag, key = columns.tag_of(row, number), columns.key_of(row)
            message = Message(
                self._topic,
                row.body,
                tags=tag,
                keys=[key] if key else [],
                properties={ROW: str(number)},
            )
            try:
                await producer.send(message)
            except RocketMQError as error:
                self._failed += 1
                self._failure = self._failure or f"line {row.line}: {error}"
                failures_in_a_row += 1
                if failures_in_a_row == MAX_FAILURES_IN_A_ROW:
                    raise DemoError(f"sending fails again and again: {error}") from None
            else:
                failures_in_a_row = 0
                self._sent.add(number, tag)

    async def _receive_rest(self) -> float:
        """Wait until everything has come, or nothing more comes. Returns when the last arrived."""
        sent, everyone, filtered = self._sent, self._everyone.received, self._filtered.received
        last_count, last_arrival = -1, time.monotonic()
        while (
            everyone.distinct < sent.total
            or filtered.distinct < sent.confirmed[self._filtered.expression]
        ):
            count = everyone.per_consumer.total() + filtered.per_consumer.total()
            if count != last_count:
                last_count, last_arrival = count, time.monotonic()
            elif time.monotonic() - last_arrival > NOTHING_NEW_FOR:
                return last_arrival
            await asyncio.sleep(_LOOK_EVERY_S)
        return time.monotonic()

    async def _show(self, display: Display, names: list[str]) -> None:
        while True:
            display.update(self._counts(names))
            await asyncio.sleep(_SHOW_EVERY_S)

    def _counts(self, names: list[str]) -> dict[str, int]:
        counts = (
            self._sent.total,
            self._everyone.received.distinct,
            self._filtered.received.distinct,
        )
        return dict(zip(names, counts, strict=True))


def queue_text(queue_ids: list[int]) -> str:
    """Queue ids in short: ``0-3``."""
    if len(queue_ids) > 1 and queue_ids == list(range(queue_ids[0], queue_ids[-1] + 1)):
        return f"{queue_ids[0]}-{queue_ids[-1]}"
    return ", ".join(map(str, queue_ids)) or "none"
