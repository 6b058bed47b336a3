"""How far a stream is behind its topics, after every micro-batch: the figures that Kafka's source
has among its metrics, which a source written in Python cannot report.

    spark.streams.addListener(lag_listener())

logs a line for each batch; with a function of one's own the figures go where they are wanted.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..client.errors import ConfigError
from .access.checkpoint import from_json
from .access.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQueryListener

__all__ = ["Lag", "lag_listener", "lags"]

log: Final = logging.getLogger(__name__)


class Lag(NamedTuple):
    """Of one source of one query, when a micro-batch had ended."""

    query: str
    """Its name, or its id."""
    batch: int
    topics: tuple[str, ...]
    rows: int
    """Of the batch."""
    rows_per_second: float
    """That were processed."""
    queues: int
    least: int
    most: int
    average: float
    """Messages behind the latest that were seen when the batch was planned, by queue."""
    total: int

    def __str__(self) -> str:
        return (
            f"query={self.query} batch={self.batch} topics={','.join(self.topics)} "
            f"rows={self.rows} rowsPerSecond={self.rows_per_second:.0f} queues={self.queues} "
            f"behindLatest total={self.total} min={self.least} max={self.most} "
            f"avg={self.average:.1f}"
        )


def lags(progress: Mapping[str, Any]) -> Iterator[Lag]:
    """``progress``: Spark's ``StreamingQueryProgress``, as a dict of its JSON. One for each source
    of ours; before the first batch there is none."""
    for source in progress.get("sources", ()):
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if not end or latest is None:
            continue
        behind = [max(0, latest.get(queue, offset) - offset) for queue, offset in end.items()]
        behind += [offset for queue, offset in latest.items() if queue not in end]
        yield Lag(
            query=progress.get("name") or str(progress.get("id")),
            batch=int(progress.get("batchId", -1)),
            topics=tuple(sorted({queue.topic for queue in (*end, *latest)})),
            rows=int(source.get("numInputRows", 0)),
            rows_per_second=float(source.get("processedRowsPerSecond") or 0.0),
            queues=len(behind),
            least=min(behind),
            most=max(behind),
            average=sum(behind) / len(behind),
            total=sum(behind),
        )


def _offsets(table: Any) -> Offsets | None:
    """None: of a source that is none of ours, or not known."""
    try:
        return from_json(json.loads(table) if isinstance(table, str) else table).offsets
    except (ConfigError, ValueError):
        return None


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
