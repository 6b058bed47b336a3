"""A slave asks where its master's log begins."""

from __future__ import annotations

from pathlib import Path

from aiorocketmq.broker.replication.roles import Slave
from aiorocketmq.remoting.errors import ConnectError

from .slave_scenes import Pair, play
from .test_queue_ends import FILE, with_expired


async def told(pair: Pair) -> int | None:
    slave = pair.slave.broker.replication.slave
    assert isinstance(slave, Slave)
    slave._remoting = pair.network  # type: ignore[assignment]
    return await slave._begin_of_masters_log()


def test_the_master_tells_where_its_log_begins(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        assert await told(pair) == 0, "it is empty"
        await pair.at_master.send("T", b"")
        assert await told(pair) == 0
        await with_expired(pair)
        assert await told(pair) == FILE

    play(tmp_path, scene)


def test_nobody_who_cannot_be_asked_tells_anything(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        await pair.at_master.send("T", b"")

        async def away(*_: object, **__: object) -> None:
            raise ConnectError("it is away")

        pair.network.invoke = away  # type: ignore[assignment,method-assign]
        assert await told(pair) is None
        pair.sync.master = None
        assert await told(pair) is None

    play(tmp_path, scene)
