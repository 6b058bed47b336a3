"""What a message costs in a store whose log and queues begin far out, as after a terabyte that has
expired."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record

from .harness.figures import Row
from .harness.frames import QUEUES, TOPIC, sends
from .harness.rows import Rows
from .harness.scale import Step, scaled
from .harness.servers import broker, create_topic, floor, has_floor, work_folder

GIB = 1 << 30
SIZES = (0, 1, 32, 1024)
_RECORD = 350
_HOST = pack_host("127.0.0.1", 10911)
_PROPERTIES = encode_properties({"TAGS": "TagA"})
_STORED_AT = 1_700_000_000_000


def run(rows: Rows) -> None:
    """A broker for each size, on a log whose first file begins there with a message for each
    queue."""
    name = "CPU time of a send against where the log begins, 8x64"
    figures, floor_is = {}, ""
    with (
        work_folder(rows.options.directory) as folder,
        rows.attempt("offsets"),
        ExitStack() as stack,
    ):
        least = stack.enter_context(floor(folder)) if has_floor() else None
        for size in SIZES[:2] if rows.options.small else SIZES:
            if size:
                begin_at(folder / f"broker{size}" / "store", size * GIB)
            with broker(folder, f"broker{size}") as server:
                create_topic(server)
                one = scaled("", "GiB", [Step(size, sends(), 8, 64)], server, least, rows.options)
                figures.update(one.figures)
                floor_is = one.floor_is
        rows.add(Row(benchmark="", name=name, figures=figures, floor_is=floor_is, note="GiB"))


def begin_at(store: Path, start: int) -> None:
    """A commit log of one sparse file; the broker makes queues of it as after a crash."""
    folder = store / "commitlog"
    folder.mkdir(parents=True)
    at = start
    with (folder / f"{start:020d}").open("wb") as file:
        for queue_id in range(QUEUES):
            record = encode_record(NewRecord(
                TOPIC, queue_id, b"x" * 128, _PROPERTIES, queue_offset=start // _RECORD // QUEUES,
                phy_offset=at, sys_flag=0,
                born_timestamp=_STORED_AT, born_host=_HOST, store_timestamp=_STORED_AT,
                store_host=_HOST,
            ))  # fmt: skip
            file.write(record)
            at += len(record)
        file.truncate(GIB)
    (store / "abort").touch()
