"""What one send costs the broker: synchronous and pipelined clients, JSON and binary headers, many
topics, many kinds of clients at once, accounts, and a mixture of requests.

Lengths, properties and the order of header fields are drawn for each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from aiorocketmq.remoting.protocol.frames.serialization import SerializeType
from aiorocketmq.remoting.signature import Credentials

from .harness.figures import NO_GOALS, Goal, Goals
from .harness.frames import QUEUES, TOPIC, mixture, sends
from .harness.pages import fetch_pages
from .harness.play import Frames
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import (
    Server,
    broker,
    create_topic,
    floor,
    has_floor,
    pure_broker,
    work_folder,
)
from .pull import Shape as Pulled
from .pull import fill

BUSY: Final = [f"Busy-{number}" for number in range(64)]
ORDERS: Final = 16
ACCOUNT: Final = Credentials("benchmark", "a secret of the benchmark")
_FILLED: Final = Pulled("mixture", range(QUEUES, 2 * QUEUES), 32, 128, 2048)


class Shape(NamedTuple):
    """Connections x requests on their way over each."""

    name: str
    connections: int
    window: int
    size: int = 128
    form: SerializeType = SerializeType.JSON
    goals: Goals = NO_GOALS
    awake: bool = False
    topics: int = 0
    """Busy ones; 0: the usual one."""
    orders: int = 1
    """In which the fields of headers stand."""


_GOALS: dict[str, Goals] = {
    "1x1": {"rate": Goal(45_000, original=10_500), "p50": Goal(22, original=91)},
    "8x1": {},
    "64x1": {"cpu": Goal(None, 1.6, 28, 16), "rate": Goal(75_000, original=55_700)},
    "8x16": {"cpu": Goal(2.5, pure_mark=8), "user": Goal(1.3)},
    "8x64": {
        "cpu": Goal(2.0, None, 11.7, 6.5),
        "user": Goal(1.1),
        "rate": Goal(250_000, original=142_000),
    },
}
_BINARY: dict[str, Goals] = {
    "64x1": {"cpu": Goal(None, 1.6, None, 16)},
    "8x16": {"cpu": Goal(2.5, pure_mark=8), "user": Goal(1.3)},
    "8x64": {"cpu": Goal(2.0, pure_mark=6.5), "user": Goal(1.1)},
}
_COUNTS = ((1, 1), (8, 1), (64, 1), (8, 16), (8, 64))
SHAPES = [
    *(Shape(f"send {c}x{w}", c, w, goals=_GOALS[f"{c}x{w}"]) for c, w in _COUNTS),
    Shape("send 1x1, client awake", 1, 1, goals=_GOALS["1x1"], awake=True),
    *(
        Shape(
            f"send {c}x{w}, binary header",
            c,
            w,
            form=SerializeType.ROCKETMQ,
            goals=_BINARY.get(f"{c}x{w}", NO_GOALS),
        )
        for c, w in _COUNTS
    ),
    Shape(
        "send 64x1, 1 KiB",
        64,
        1,
        1024,
        goals={"cpu": Goal(12, None, 31), "rate": Goal(None, None, 47_600)},
    ),
    Shape("send 64x1, 16 topics", 64, 1, topics=16, goals={"cpu": Goal(None, 1.6, None, 16)}),
    Shape("send 8x64, 64 busy topics", 8, 64, topics=64, goals={"cpu": Goal(2.3, pure_mark=7)}),
    Shape(
        f"send 8x64, {ORDERS} kinds of clients",
        8,
        64,
        orders=ORDERS,
        goals={"cpu": Goal(2.0, pure_mark=6.5)},
    ),
]
WITH_ACCOUNTS = Shape("send 8x64, with accounts (ACL)", 8, 64)
ACCOUNTS_COST: Final = 2.5
"""µs that accounts may add to a send: two SHA-1 of a block more."""
MIXTURE = Shape("mixture 8x16, a request", 8, 16, orders=ORDERS)


def run(rows: Rows) -> None:
    """One broker with its defaults, and all rows one after the other; then one with accounts."""
    with work_folder(rows.options.directory) as folder, floor(folder) as least:
        if rows.wants_any([shape.name for shape in (*SHAPES, MIXTURE)]):
            with broker(folder) as server, pure_broker(folder) as pure:
                for each in (server, pure) if pure else (server,):
                    create_topic(each, TOPIC, queues=2 * QUEUES)
                    create_topic(each, *BUSY)
                for shape in SHAPES:
                    _add(rows, shape, _frames(rows, shape), server, least, folder, pure)
                if rows.wants(MIXTURE.name):
                    _add(rows, MIXTURE, _mixture(rows, server, least), server, least, folder)
        if rows.wants(WITH_ACCOUNTS.name):
            without = [
                row.figures["cpu"].best
                for row in rows.rows
                if row.name == "send 8x64" and row.figures
            ]
            goals = {"cpu": Goal(without[0] + ACCOUNTS_COST)} if without else NO_GOALS
            with _with_accounts(folder) as server:
                shape = WITH_ACCOUNTS._replace(goals=goals)
                _add(rows, shape, _frames(rows, shape, ACCOUNT), server, least, folder)


def _add(
    rows: Rows,
    shape: Shape,
    frames: Frames,
    server: Server,
    least: Server,
    folder: Path,
    pure: Server | None = None,
) -> None:
    if not rows.wants(shape.name):
        return
    with rows.attempt(shape.name):
        row = Traffic(shape.name, shape.connections, shape.window, shape.goals, shape.awake)
        rows.add(
            traffic(row, frames, server, least, rows.options, partial(fetch_pages, folder), pure)
        )


def _frames(rows: Rows, shape: Shape, account: Credentials | None = None) -> Frames:
    topics = BUSY[: shape.topics] or [TOPIC]
    places = [(topic, queue_id) for queue_id in range(QUEUES) for topic in topics]
    draw = rows.draw(shape.name, shape.orders)
    return sends(shape.size, form=shape.form, queues=places, draw=draw, credentials=account)


def _mixture(rows: Rows, server: Server, least: Server) -> Frames:
    for target in (server, least) if has_floor() else (server,):
        fill(target, _FILLED)
    places = [
        (q, at)
        for at in range(0, _FILLED.each - _FILLED.most, _FILLED.most)
        for q in _FILLED.queue_ids
    ]
    return mixture(rows.draw(MIXTURE.name, MIXTURE.orders), BUSY[:5], places, _FILLED.most)


@contextmanager
def _with_accounts(folder: Path) -> Iterator[Server]:
    """A broker that knows one account; its topic is made by the first message."""
    conf = folder / "accounts" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(
        f"accounts:\n- accessKey: {ACCOUNT.access_key}\n  secretKey: {ACCOUNT.secret_key}\n"
        "  defaultTopicPerm: PUB|SUB\n  defaultGroupPerm: PUB|SUB\n"
    )
    with broker(folder, "accounts", aclEnable=True) as server:
        yield server
