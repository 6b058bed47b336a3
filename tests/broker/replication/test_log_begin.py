"""A slave asks where its master's log begins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiorocketmq.broker.replication.log_begin import ask_where_log_begins
from aiorocketmq.broker.replication.roles import Slave
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable

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


@pytest.mark.parametrize(
    ("said", "begin"), [("12", 12), ("", None), ("-1", None), ("9" * 5000, None), ("\u0661", None)]
)
def test_what_is_no_place_of_a_log_is_nothing(said: str, begin: int | None) -> None:
    body = encode_body(KVTable(table={"commitLogMinOffset": said}))
    answer = SimpleNamespace(check=lambda _address: SimpleNamespace(body=body))

    async def invoke(*_: object, **__: object) -> SimpleNamespace:
        return answer

    remoting: Any = SimpleNamespace(invoke=invoke)
    assert asyncio.run(ask_where_log_begins(remoting, "10.0.0.1:10911")) == begin
