"""Reading topics once: from some offsets to others, both fixed when the read is planned."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...remoting.errors import BrokerError, RemotingError
from ...remoting.protocol.message.message_queue import MessageQueue
from ..access.errors import DataLossError
from ..access.offsets import behind
from ..access.options import SourceOptions
from .coverage import check_coverage
from .planner import QueueRange, plan, ranges_between
from .positions import find_queues, resolve_position
from .read_task import read_ranges

if TYPE_CHECKING:
    import pyarrow as pa

    from ..access.broker_access import BrokerAccess

__all__ = ["RangesPartition", "RocketMQReader", "partitions_of"]

log: Final = logging.getLogger(__name__)


class RangesPartition(InputPartition):
    """What one task reads, and where its brokers were when that was planned."""

    def __init__(self, ranges: Sequence[QueueRange], hints: dict[str, dict[int, str]]) -> None:
        self.ranges: tuple[QueueRange, ...] = tuple(ranges)
        self.hints = hints

    def __repr__(self) -> str:
        return f"RangesPartition({', '.join(map(str, self.ranges))})"


def partitions_of(
    ranges: Sequence[QueueRange], options: SourceOptions, access: BrokerAccess
) -> list[InputPartition]:
    """The tasks for these ranges."""
    tasks = plan(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
        max_partitions=options.max_partitions,
    )
    hints = {
        queue.broker_name: _replicas(queue, access)
        for queue in {each.broker_name: each.queue for each in ranges}.values()
    }
    return [
        RangesPartition(task, {each.broker_name: hints[each.broker_name] for each in task})
        for task in tasks
    ]


def _replicas(queue: MessageQueue, access: BrokerAccess) -> dict[int, str]:
    try:
        return access.replicas(queue)
    except (RemotingError, BrokerError) as error:  # executors ask again
        log.warning("the brokers of %s are not known at present: %s", queue, error)
        return {}


class RocketMQReader(DataSourceReader):
    """Plans on the driver, reads on executors; only ``options`` and ``columns`` travel.

    There is no ``pushFilters``: Spark keeps what one query pushed for all others of its DataFrame
    (docs/design/spark-columns.md).
    """

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        from ..access.broker_access import BrokerAccess  # not in tasks

        options = self._options
        access = BrokerAccess(
            options.connection,
            retries=options.retries,
            retry_interval_ms=options.retry_interval_ms,
            group=options.group,
        )
        queues = find_queues(options, access, must_exist=True)
        check_coverage(options, access, queues)
        start = resolve_position(options.starting, queues, options, access).offsets
        end = resolve_position(options.ending, queues, options, access).offsets
        ends = access.latest(behind(start, end))  # of queues that are to end before they begin
        if beyond := behind(start, ends):
            what = "; ".join(
                f"{queue.topic}/{queue.broker_name}/{queue.queue_id}: asked to begin at "
                f"{start[queue]}, but the queue ends at {latest}"
                for queue, latest in beyond.items()
            )
            if options.fail_on_data_loss:
                raise DataLossError(what)
            log.warning("%s: nothing is read there (failOnDataLoss=false)", what)
        return partitions_of(ranges_between(start, end), options, access)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(
            partition, RangesPartition
        ):  # Spark makes one up where there is nothing to read
            return iter(())
        return read_ranges(partition.ranges, partition.hints, self._options, self._columns)
