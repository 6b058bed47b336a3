"""Writing DataFrames to topics, at once (spark.md §5.6; what
``RocketMQDataSource.writer`` returns).

A writer is made where the query is planned and pickled into every task. ``write`` of a task returns
when every row is acknowledged by a broker, and raises when one is not: then Spark tries the task
again and rows may be there twice, with the same ``SPARK_DEDUP_ID`` (as far as they are divided as
before: ``dedup.py``). With ``guarantee=exactly_once`` it stages them instead, and ``commit`` sends
them (``exactly_once.py``).
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ...client.cluster.instance import ClientInstance
from ...client.errors import ConfigError
from ...loop_thread import LoopThread
from ...remoting.protocol.message.message_queue import MessageQueue
from ..access.broker_access import BrokerAccess
from ..source.fetch import settle_worker
from .chunks import Rules, chunks
from .dedup import key_ids, scope_of
from .encode import MessageIds, encode_items
from .exactly_once import send_batch
from .sink_delivery import Outbox, new_deliverer
from .sink_options import SinkOptions, parse_sink_options
from .staging import StagedRows, StagedTask, StagingError, folder_of, name_of_rows
from .write_columns import check_columns

__all__ = [
    "BATCH_ID",
    "QUERY_ID",
    "RocketMQArrowWriter",
    "Written",
    "batch_writer",
    "checked_options",
    "staged_tasks",
    "write_rows",
]

log: Final = logging.getLogger(__name__)

BATCH_ID: Final = "streaming.sql.batchId"
"""Spark's property of a task for the number of its micro-batch, in ``foreachBatch`` as well."""
QUERY_ID: Final = "sql.streaming.queryId"
"""Spark's property of a task for its query, by the id that the checkpoint keeps; likewise."""
_JOB_GROUP: Final = "spark.jobGroup.id"
"""Of a query its run: another one each time that it is started."""
_RUN_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""In ``foreachBatch`` a program may call a group of jobs anything else."""
_message_ids: Final = MessageIds()
_MOST_BYTES: Final = 64 << 20
"""Of rows that are encoded at once, which takes as many bytes once more; so many Spark 4.3 gives
(``spark.sql.execution.arrow.maxBytesPerBatch``), others give 10,000 rows of any length."""


@dataclass
class Written(WriterCommitMessage):
    """What one task has written."""

    rows: int
    frames: int
    staged: StagedTask | None = None
    """With ``guarantee=exactly_once``: nothing is sent yet."""
    batch: int = 0
    """Whose rows are staged."""
    counted: bool = True
    """It is one of several: a micro-batch, or the option ``batchId``."""
    query: str | None = None
    """Who counts them: as ``Manifest`` has it."""
    run: str | None = None
    """Of that query; None: nobody can tell."""


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> RocketMQArrowWriter:
    """For ``df.write``. Raises ``ConfigError`` for options or columns that cannot be."""
    if overwrite:
        raise ConfigError(
            'a topic cannot be overwritten: write with .mode("append"), in SQL with INSERT INTO'
        )
    parsed = checked_options(options, schema)
    write_id = parsed.write_id or parsed.dedup_prefix or uuid.uuid4().hex
    return RocketMQArrowWriter(parsed, write_id)


def checked_options(options: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Raises ``ConfigError``."""
    parsed = parse_sink_options(options)
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    check_columns(types, topic_given=parsed.topic is not None, not_sent=parsed.dedup_key_columns)
    if not {"keys", "tags"} <= types.keys() and parsed.drop_reserved is None:
        # They are among the system's properties, and must come by their own columns.
        return replace(parsed, drop_reserved=False)
    return parsed


class RocketMQArrowWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: SinkOptions, write_id: str) -> None:
        self._options = options
        self._write_id = write_id

    def write(self, iterator: Iterator[Any]) -> Written:
        """All rows of a task."""
        return write_rows(iterator, self._options, self._write_id, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One attempt of each task has been chosen."""
        written = [each for each in messages if isinstance(each, Written)]
        if self._options.exactly_once and written:
            first, tasks = written[0], staged_tasks(written)
            try:
                send_batch(
                    self._options,
                    self._write_id,
                    first.batch,
                    tasks,
                    counted=first.counted,
                    query=first.query,
                    run=first.run,
                )
            finally:
                BrokerAccess(self._options.connection).close()
        self._forget()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The write has failed; what was sent cannot be taken back."""
        self._forget()

    def _forget(self) -> None:
        """What is staged, where nobody knows the id to repeat the write with."""
        if not self._options.exactly_once or self._options.write_id is not None:
            return
        try:
            folder_of(self._options.staging_location).delete(self._write_id)
        except StagingError as error:
            log.warning("staged rows are left behind: %s", error)


def staged_tasks(messages: Iterable[WriterCommitMessage | None]) -> list[StagedTask]:
    """What the chosen attempts have staged, in the order of the tasks."""
    return [each.staged for each in messages if isinstance(each, Written) and each.staged]


def _batch_of(options: SinkOptions) -> int | None:
    """Which of the writes of one id this is; None: the only one."""
    if options.batch is not None:
        return options.batch
    context = TaskContext.get()
    in_foreach_batch = context.getLocalProperty(BATCH_ID) if context is not None else None
    return int(in_foreach_batch) if in_foreach_batch else None


def _query_of(*, counted: bool) -> str | None:
    """Whose task this is; empty: that of no query. None where a write is counted by somebody whom
    Spark does not name (over Spark Connect, in a thread of the user's)."""
    context = TaskContext.get()
    query_id = context.getLocalProperty(QUERY_ID) if context is not None else None
    return query_id or (None if counted else "")


def _run_of() -> str | None:
    context = TaskContext.get()
    group = context.getLocalProperty(_JOB_GROUP) if context is not None else None
    return group if group and _RUN_ID.fullmatch(group) else None


def _scope_of(
    options: SinkOptions, write_id: str, batch_id: str | None, number: int | None, partition: int
) -> str:
    """In ``foreachBatch`` all micro-batches may have one ``dedupPrefix``, and each counts its rows
    from 0; a key may be meant to be the same in several."""
    if options.dedup_key_columns:
        return scope_of(write_id, batch_id, None)
    if options.dedup_prefix is not None and number is not None:
        batch_id = str(number)
    return scope_of(write_id, batch_id, partition)


def write_rows(
    batches: Iterator[Any], options: SinkOptions, write_id: str, batch_id: str | None
) -> Written:
    """Send every row and wait for the acknowledgements. Raises ``RocketMQError`` when one cannot be
    had."""
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    settle_worker()
    with BrokerAccess(options.connection).client() as instance:
        task = _Task(instance, options, write_id, batch_id, partition)
        try:
            for batch in batches:
                task.send(batch)
            return task.finish()
        finally:
            task.close()


class _Task:
    """One task's writing: encodes in this thread, while the loop's thread sends what was encoded
    before."""

    def __init__(
        self,
        instance: ClientInstance,
        options: SinkOptions,
        write_id: str,
        batch_id: str | None,
        partition: int,
    ) -> None:
        self._options = options
        self._loop = LoopThread.shared()
        self._clock = instance.clock
        deliverer = self._deliverer = self._loop.run(new_deliverer(instance, options))
        number = _batch_of(options) if batch_id is None else int(batch_id)
        self._batch, self._counted = number or 0, number is not None
        self._query = _query_of(counted=self._counted)
        self._staged = self._stage(write_id, partition) if options.exactly_once else None
        self._outbox = self._staged or Outbox(
            self._loop.submit, deliverer.deliver, options.max_in_flight
        )
        self._scope = _scope_of(options, write_id, batch_id, number, partition)
        self._rules = Rules(
            options.topic,
            options.batch_bytes,
            options.compress_over,
            partition if options.orderly else None,
        )
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._rows = 0

    def _stage(self, write_id: str, partition: int) -> StagedRows:
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        folder = folder_of(self._options.staging_location) / write_id / str(self._batch)
        return StagedRows(folder, write_id, name_of_rows(partition, attempt))

    def send(self, batch: Any) -> None:
        """Raises ``MessageError`` for rows that cannot be sent, and what became of rows that were
        sent before."""
        for start in range(0, batch.num_rows, MessageIds.MOST):
            self._send(batch.slice(start, MessageIds.MOST))

    def _send(self, batch: Any) -> None:
        if batch.nbytes > _MOST_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self._send(batch.slice(0, half))
            return self._send(batch.slice(half))
        ids = _message_ids.take(self._clock.time_ms(), batch.num_rows)
        items = encode_items(
            batch, ids, self._dedup(batch), drop_reserved=self._options.drop_reserved
        )
        self._rows += batch.num_rows
        for chunk in chunks(batch, items, self._rules, self._queues_of):
            self._outbox.put(chunk)

    def finish(self) -> Written:
        totals = self._outbox.finish()
        staged = None if self._staged is None else self._staged.task
        run = _run_of() if self._query else None
        return Written(
            totals.rows, totals.frames, staged, self._batch, self._counted, self._query, run
        )

    def close(self) -> None:
        """Nothing of a task that failed may arrive later than necessary."""
        self._outbox.give_up()

    def _dedup(self, batch: Any) -> tuple[str, Any] | None:
        if not self._options.dedup:
            return None
        if names := self._options.dedup_key_columns:
            return self._scope, key_ids([batch.column(name) for name in names])
        return self._scope, range(self._rows, self._rows + batch.num_rows)

    def _queues_of(self, topic: str, brokers: Collection[str]) -> tuple[MessageQueue, ...]:
        """The same ones for all rows of the task: a key must not change its queue in between. A
        broker that rows name and that was away when the task began is waited for."""
        known = self._queues.get(topic, ())
        if not known or not set(brokers) <= {queue.broker_name for queue in known}:
            known = self._loop.run(self._deliverer.queues(topic, frozenset(brokers)))
            self._queues[topic] = known
        return known
