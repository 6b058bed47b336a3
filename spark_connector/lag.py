"""How far a stream is behind its topics, and what it lost, after every micro-batch: figures that
Kafka's source has among its metrics, which a source written in Python cannot report.

    spark.streams.addListener(lag_listener())

logs a line for each batch; with a function of one's own the figures go where they are wanted.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..client.errors import ConfigError
from .access import seen
from .access.checkpoint import Checkpoint, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQueryListener

__all__ = ["Lag", "lag_listener", "lags"]

log: Final = logging.getLogger(__name__)


class Lag(NamedTuple):
    """Of one source of one query, when a micro-batch had ended."""

    query: str
    """Its name, or its id."""
    source: str
    """What it reads: ``RocketMQ[Subscribe[Orders]]``."""
    batch: int
    topics: tuple[str, ...]
    offsets: int
    """Of the batch."""
    rows: int
    """That Spark got for them."""
    rows_per_second: float
    """That were processed."""
    queues: int
    least: int
    most: int
    average: float
    """Messages behind the latest that were seen when the batch was planned, by queue."""
    total: int
    losses: int
    """How often something could not be read any more, since the query was started."""
    lost_messages: int
    """How many that were, as far as brokers tell."""
    away: tuple[str, ...]
    """Brokers whose queues wait."""

    @property
    def left_out(self) -> int:
        """Offsets of the batch that gave no row: filtered, damaged, lost while it was read. Too low
        where the query reads its source several times, as Spark counts rows each time."""
        return max(0, self.offsets - self.rows)

    def __str__(self) -> str:
        return (
            f"query={self.query} source={self.source} batch={self.batch} "
            f"topics={','.join(self.topics)} rows={self.rows} leftOut={self.left_out} "
            f"rowsPerSecond={self.rows_per_second:.0f} queues={self.queues} "
            f"behindLatest total={self.total} min={self.least} max={self.most} "
            f"avg={self.average:.1f} losses={self.losses} lostMessages={self.lost_messages} "
            f"away={','.join(self.away) or '-'}"
        )


def lags(progress: Mapping[str, Any]) -> Iterator[Lag]:
    """``progress``: Spark's ``StreamingQueryProgress``, as a dict of its JSON. One for each source
    of ours; before the first batch there is none."""
    for source in progress.get("sources", ()):
        try:
            start, end = (_checkpoint(source.get(f"{which}Offset")) for which in ("start", "end"))
            now = seen.from_json(_table(source.get("latestOffset")))
        except (ConfigError, ValueError):
            continue  # of a source that is none of ours, or not known yet
        if not end.offsets:
            continue
        latest = now.latest
        behind = [
            max(0, latest.get(queue, offset) - offset) for queue, offset in end.offsets.items()
        ]
        behind += [offset for queue, offset in latest.items() if queue not in end.offsets]
        topics = tuple(sorted({queue.topic for queue in (*end.offsets, *latest)}))
        begins = end.starts(start.offsets)
        yield Lag(
            query=progress.get("name") or str(progress.get("id")),
            source=now.source or f"RocketMQ[{', '.join(topics)}]",
            batch=int(progress.get("batchId", -1)),
            topics=topics,
            offsets=sum(max(0, at - begins.get(queue, 0)) for queue, at in end.offsets.items()),
            rows=int(source.get("numInputRows", 0)),
            rows_per_second=float(source.get("processedRowsPerSecond") or 0.0),
            queues=len(behind),
            least=min(behind),
            most=max(behind),
            average=sum(behind) / len(behind),
            total=sum(behind),
            losses=now.losses,
            lost_messages=now.lost_messages,
            away=tuple(sorted(now.away)),
        )


def _table(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _checkpoint(value: Any) -> Checkpoint:
    """The first batch has no start."""
    return Checkpoint({}) if value is None else from_json(_table(value))


def lag_listener(tell: Callable[[Lag], object] | None = None) -> StreamingQueryListener:
    """For ``spark.streams.addListener``. ``tell`` is called in the driver; without it each one is
    a line of the log (INFO)."""
    from pyspark.sql.streaming import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            for lag in lags(json.loads(event.progress.json)):
                (tell or _log)(lag)

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

    return Listener()


def _log(lag: Lag) -> None:
    log.info("%s", lag)
