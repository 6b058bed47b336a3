"""``guarantee=exactly_once``: every row of a batch is in its topic once, whatever is tried again.

Tasks stage their rows (``staging.py``) and send nothing. When Spark has chosen one attempt of each
task, the driver decides where each chunk goes and which number it has (``manifest.py``), and sends
them with sequences, which brokers store once. Whoever repeats the batch, after a crash of the
driver at any point, finds the decision and sends the same again, whatever rows the plan makes this
time. So nothing is asked of the plan: rows may come in another order, from other partitions, from a
function that is not deterministic.

Rows become visible one by one while a batch is sent: see ``docs/spark.md``, Exactly once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import Final

from ...client.cluster.instance import ClientInstance
from ...client.errors import ConfigError
from ...loop_thread import LoopThread
from ...remoting.protocol.message.message_queue import MessageQueue
from ..access.broker_access import BrokerAccess
from .manifest import Batches, Manifest, Placed, placed_chunks
from .numbered_delivery import NotExactlyOnceError, NumberedDeliverer
from .sink_delivery import Outbox
from .sink_options import SinkOptions
from .staging import ANEW, StagedTask, StagingError, check_readable, folder_of

__all__ = ["send_batch"]

log: Final = logging.getLogger(__name__)


def send_batch(
    options: SinkOptions,
    write_id: str,
    batch: int,
    tasks: Sequence[StagedTask],
    *,
    counted: bool = True,
    query: str | None = None,
    run: str | None = None,
) -> int:
    """Have the rows of a batch in their topics, once; how many it has. Raises ``RocketMQError``:
    then it may be called again, with whatever the tasks have staged by then.

    ``counted``: it is one of several, whose number says that it is the same again. ``query``: who
    counts, as ``Manifest`` has it. ``run``: of the query, in whose ``foreachBatch`` it is written;
    None: nobody can tell.
    """
    batches = Batches(folder_of(options.staging_location) / write_id)
    manifest, last = batches.manifest(batch), batches.last()
    plan = _plan_of(options, batch, query)
    _check_same_query(options.write_id, last, batch, query)
    if manifest is not None:
        _check_same_write(options.write_id, manifest, tasks)
        _check_same_plan(write_id, manifest, plan)
    if manifest is not None and batches.is_done(batch):
        if options.write_id is not None and not counted:
            _check_same_rows(options.write_id, manifest, tasks)
        log.warning(
            "batch %d of %s is in its topics already, with %d rows: it is not sent",
            batch,
            write_id,
            manifest.rows,
        )
        _finish(options, batches, batch, tasks, run)
        return manifest.rows
    if manifest is None and not any(task.rows for task in tasks):
        batches.forget(batch)
        return 0
    if manifest is None and last is not None:
        _check_in_order(write_id, last, batch)
    with BrokerAccess(options.connection).client() as instance:
        sender = _Sender(options, instance)
        if manifest is None:
            check_readable(batches.folder(batch), tasks)
            manifest = sender.decided(batches.producer_id(), batch, tasks)
            manifest.query, manifest.plan = query, plan
            if not batches.decide(manifest):  # somebody was faster
                return send_batch(
                    options, write_id, batch, tasks, counted=counted, query=query, run=run
                )
        else:
            log.warning(
                "batch %d of %s was begun before: its %d rows are sent as they were then",
                batch,
                write_id,
                manifest.rows,
            )
        sender.send(batches, manifest)
    _finish(options, batches, batch, tasks, run)
    return manifest.rows


def _finish(
    options: SinkOptions,
    batches: Batches,
    batch: int,
    tasks: Sequence[StagedTask],
    run: str | None,
) -> None:
    """Raises ``ConfigError`` where one run of a query writes a batch twice, in ``foreachBatch``:
    the second write is none that is repeated, and its rows would be nowhere."""
    is_first = batches.done(batch, run)
    if options.write_id is not None and not is_first and any(task.rows for task in tasks):
        raise ConfigError(
            f"option writeId {options.write_id!r}, batch {batch}: this run of the query has "
            "written the batch already, so this is another write, none of whose rows is written: "
            "give each write of a foreachBatch an id of its own"
        )


def _check_same_query(
    write_id: str | None, last: Manifest | None, batch: int, query: str | None
) -> None:
    """A query with a new checkpoint counts from 0 again: its first batches are not those that are
    in the topic under these numbers. Raises ``ConfigError``."""
    if write_id is None or last is None or None in (query, last.query) or query == last.query:
        return
    theirs, ours = (
        f"of the query {each}" if each else "of no query" for each in (last.query, query)
    )
    raise ConfigError(
        f"option writeId {write_id!r}, batch {batch}: that is the id of writes {theirs}, and this "
        f"write is {ours}: none of its rows is written. A new checkpoint makes a new query, which "
        "counts its batches from 0 again: give it a writeId of its own, or go on with the old "
        "checkpoint"
    )


def _plan_of(options: SinkOptions, batch: int, query: str | None) -> str | None:
    """What Spark writes down before it runs a batch for the first time, and does not write again
    when it repeats it. None: nobody can tell."""
    is_of_query = options.write_id is None or query
    if options.checkpoint is None or not is_of_query:
        return None
    try:
        offsets = (folder_of(options.checkpoint) / "offsets").read(str(batch))
    except StagingError as error:  # with a stagingLocation it need not be within reach
        log.info("whether batch %d was planned anew cannot be told: %s", batch, error)
        return None
    return None if offsets is None else hashlib.sha256(offsets).hexdigest()


def _check_same_plan(write_id: str, manifest: Manifest, plan: str | None) -> None:
    """Other rows under the number of a batch are no repetition, and would not be sent. Raises
    ``NotExactlyOnceError``."""
    if plan is None or manifest.plan is None or plan == manifest.plan:
        return
    raise NotExactlyOnceError(
        f"batch {manifest.batch} of {write_id} is not the one that was begun under this number: "
        "its checkpoint was set back, or has lost what it had last, and Spark has planned other "
        f"rows; none of them is written, and those of the first time, {manifest.rows}, may be in "
        f"their topics. To go on with the new plan, {ANEW}"
    )


def _check_same_write(
    write_id: str | None, manifest: Manifest, tasks: Sequence[StagedTask]
) -> None:
    """Rows for other topics than before are no repetition, and would not be sent. (What a query
    repeats, its checkpoint says.) Raises ``ConfigError``."""
    topics = _topics_of(tasks)
    if write_id is not None and topics and manifest.queues.keys().isdisjoint(topics):
        raise ConfigError(
            f"option writeId {write_id!r}, batch {manifest.batch}: that write wrote to "
            f"{', '.join(sorted(manifest.queues))}, not to {', '.join(topics)}; give each write an "
            "id of its own"
        )


def _check_same_rows(write_id: str, manifest: Manifest, tasks: Sequence[StagedTask]) -> None:
    """A job that has the same id every night would write nothing from the second one on. (What was
    half done may come with other rows: those of the first time are finished. So may a micro-batch
    of ``foreachBatch``, which has a number.) Raises ``ConfigError``."""
    rows = sum(task.rows for task in tasks)
    if rows and rows != manifest.rows:
        raise ConfigError(
            f"option writeId {write_id!r}, batch {manifest.batch}: that write is done, with "
            f"{manifest.rows} rows, and this one has {rows}, none of which is written. If it is "
            "another one, give it an id of its own (with the date, say); if it is the same again, "
            "nothing is left to do"
        )


def _check_in_order(write_id: str, last: Manifest, batch: int) -> None:
    """Brokers refuse a batch before the last one only in queues that have rows of that; elsewhere
    they would take some rows for others and store the rest. Raises ``NotExactlyOnceError``."""
    if last.batch > batch:
        raise NotExactlyOnceError(
            f"batch {batch} of {write_id} comes after batch {last.batch}, and what was known of it "
            "is gone: another driver runs the same query, or its checkpoint was set back; none of "
            f"its rows is written. To have batches once more that are in the topic, {ANEW}"
        )


def _topics_of(tasks: Sequence[StagedTask]) -> list[str]:
    return sorted(frozenset().union(*(task.topics for task in tasks)))


class _Sender:
    """One batch on its way from this process."""

    def __init__(self, options: SinkOptions, instance: ClientInstance) -> None:
        self._options: Final = options
        self._loop: Final = LoopThread.shared()
        self._deliverer: Final = self._loop.run(NumberedDeliverer.new(instance, options))

    def decided(self, producer_id: str, batch: int, tasks: Sequence[StagedTask]) -> Manifest:
        """With the queues that there are now."""
        topics = _topics_of(tasks)
        queues = {topic: self._loop.run(self._deliverer.queues(topic)) for topic in topics}
        bound = {name: topic for task in tasks for name, topic in task.brokers.items()}
        brokers = {each.broker_name: topic for topic in topics for each in queues[topic]} | bound
        begun_ms = self._loop.run(self._deliverer.greet(producer_id, brokers, bound))
        for topic, some in queues.items():
            its = {each.broker_name: topic for each in some}
            if begun_ms.keys().isdisjoint(its):  # its rows cannot go to those who answer
                begun_ms |= self._loop.run(self._deliverer.greet(producer_id, its, ()))
        return Manifest(
            batch=batch,
            producer_id=producer_id,
            begun_ms=begun_ms,
            queues={
                topic: [(e.broker_name, e.queue_id) for e in some if e.broker_name in begun_ms]
                for topic, some in queues.items()
            },
            files=[task.name for task in tasks if task.rows],
            rows=sum(task.rows for task in tasks),
        )

    def send(self, batches: Batches, manifest: Manifest) -> None:
        """Return when all are stored. Behind a chunk that is not, nothing of its queue is sent: a
        broker takes the first number of a batch that comes, and what lies before it for stored."""
        in_order: dict[MessageQueue, asyncio.Lock] = {}
        broken: dict[MessageQueue, BaseException] = {}

        async def deliver(placed: Placed) -> None:
            async with in_order.setdefault(placed.queue, asyncio.Lock()):
                if (before := broken.get(placed.queue)) is not None:
                    raise before
                try:
                    await self._deliverer.deliver(placed)
                except BaseException as error:  # also where it was cancelled
                    broken[placed.queue] = error
                    raise

        outbox = Outbox(self._loop.submit, deliver, self._options.max_in_flight)
        try:
            for placed in placed_chunks(batches.folder(manifest.batch), manifest):
                outbox.put(placed)
            outbox.finish()
        finally:
            outbox.give_up()
