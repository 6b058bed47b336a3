"""Which messages ``cat`` and ``export`` are about, and what they tell of each."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...daemon.printable import printable
from ...remoting.protocol.message.compression import CompressionError
from ...remoting.protocol.record.decode import MessageExt
from ...store.inspect import QueueReader, StoreDirectory
from ...store.log.log_reader import Damage, FileSequence, LogReader, LogRecord
from ...store.queues.consume_queue import CQ_UNIT, FILLER_SIZE

__all__ = ["Selection", "body_of", "described", "select"]


class Selection(NamedTuple):
    """What is wanted; None: all."""

    topic: str | None = None
    queue_id: int | None = None
    first_offset: int | None = None
    """Of a queue."""
    begin: int | None = None
    """Store time in ms, inclusive; ``end`` too."""
    end: int | None = None
    limit: int | None = None

    def wants(self, record: LogRecord) -> bool:
        return (
            (self.topic is None or record.topic == self.topic)
            and (self.queue_id is None or record.queue_id == self.queue_id)
            and (self.first_offset is None or record.queue_offset >= self.first_offset)
            and (self.begin is None or record.store_timestamp >= self.begin)
            and (self.end is None or record.store_timestamp <= self.end)
        )


def select(
    root: Path, selection: Selection, warn: Callable[[str], None], commit_log: Sequence[Path] = ()
) -> Iterator[MessageExt]:
    """The messages in the order of the log; ``warn`` is told of each damaged place. Raises OSError
    without a log."""
    log = StoreDirectory(root, commit_log).log_files()
    left = selection.limit
    if left == 0:
        return
    intact_from = log.start  # the reader gives out those whose bodies are damaged, too
    for item in LogReader(log).read(_start(root, log, selection)):
        if isinstance(item, Damage):
            intact_from = item.end
            if not item.tail:
                warn(
                    printable(
                        f"{item.path}: byte {item.position}: record at {item.begin}: {item.problem}"
                    )
                )
        elif item.phy_offset >= intact_from and selection.wants(item):
            yield item.message()
            if left is not None:
                left -= 1
                if not left:
                    return


def _start(root: Path, log: FileSequence, selection: Selection) -> int:
    """A physical offset in front of which nothing is wanted: by the consume queue, else by the
    first records of files."""
    if (
        selection.topic is not None
        and selection.queue_id is not None
        and selection.first_offset is not None
    ):
        found = _position(root, log, selection.topic, selection.queue_id, selection.first_offset)
        if found is not None:
            return log.begin_of(found)
    start = log.start
    if selection.begin is not None:
        for file in log.files:
            first = _record_at(log, file.start + file.head)
            if first is not None and first.store_timestamp < selection.begin:
                start = file.start
    return start


def _position(root: Path, log: FileSequence, topic: str, queue_id: int, number: int) -> int | None:
    """Where message ``number`` of a queue lies, if entry and record agree."""
    folder = root / "consumequeue" / topic / str(queue_id)
    if "/" in topic or not folder.is_dir():
        return None
    unit = QueueReader(topic, queue_id, folder).unit(number)
    if not unit:
        return None
    phy_offset, size, _ = CQ_UNIT.unpack(unit)
    record = _record_at(log, phy_offset) if 0 < size < FILLER_SIZE else None
    if record is None or (record.topic, record.queue_id, record.queue_offset) != (
        topic,
        queue_id,
        number,
    ):
        return None
    return record.phy_offset


def _record_at(log: FileSequence, phy_offset: int) -> LogRecord | None:
    if log.find(phy_offset) is None:
        return None
    item = next(LogReader(log).read(log.begin_of(phy_offset)), None)
    return item if isinstance(item, LogRecord) and item.phy_offset == phy_offset else None


def body_of(message: MessageExt) -> tuple[bytes, bool]:
    """The body, and whether it is still compressed, because it cannot be unpacked here."""
    try:
        return message.body, False
    except CompressionError:
        return message.stored_body, True


def described(message: MessageExt) -> dict[str, Any]:
    """A message for JSON. ``body`` is text, ``bodyBase64`` stands for what is no UTF-8 or cannot be
    unpacked."""
    head = message.head
    row: dict[str, Any] = {
        "topic": message.topic,
        "queueId": head.queue_id,
        "queueOffset": head.queue_offset,
        "phyOffset": head.phy_offset,
        "size": head.store_size,
        "storeTimestamp": head.store_timestamp,
        "bornTimestamp": head.born_timestamp,
        "storeHost": message.store_host,
        "bornHost": message.born_host,
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "tags": message.tags,
        "keys": list(message.keys),
        "flag": head.flag,
        "sysFlag": head.sys_flag,
        "reconsumeTimes": head.reconsume_times,
        "preparedTransactionOffset": head.prepared_transaction_offset,
        "properties": message.properties,
    }
    body, compressed = body_of(message)
    if compressed:
        row["bodyCompressed"] = True
    else:
        try:
            row["body"] = body.decode("utf-8")
            return row
        except UnicodeDecodeError:
            pass
    row["bodyBase64"] = base64.b64encode(body).decode("ascii")
    return row
