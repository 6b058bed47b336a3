"""What stays is looked at once by the garbage collector; what comes and goes needs no collector.

What these tests set aside stays aside (``gc.unfreeze`` would bring back the three million objects
of ``conftest.py``, for every later test of this process): it goes as soon as nobody refers to it.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from aiorocketmq.daemon.long_lived import looked_at_once
from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport.connection import Connection

from ..sim import SimOwner, connect


@pytest.fixture
def full_collections() -> Iterator[list[int]]:
    """How many objects each of them looked at."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            found.append(len(gc.get_objects()))

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_a_table_that_grows_is_looked_at_in_pieces(full_collections: list[int]) -> None:
    table: list[list[list[int]]] = []
    with looked_at_once():
        del full_collections[:]
        while len(table) < 200_000:
            table.append([[]])
        assert len(full_collections) > 5
        assert max(full_collections) < 60_000
    assert sum(full_collections) < 600_000  # 400,000 of them in all


def test_what_is_set_aside_is_freed_when_nobody_refers_to_it() -> None:
    class Row:
        pass

    with looked_at_once():
        before = gc.get_freeze_count()
        rows = [Row() for _ in range(20_000)]
        seen = [weakref.ref(row) for row in rows]
        gc.collect()
        assert gc.get_freeze_count() > before + 20_000
        rows.clear()
        assert [each for each in seen if each() is not None] == []


def test_python_collects_as_before_when_it_is_over() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    with looked_at_once():
        assert (gc.get_threshold(), list(gc.callbacks)) != before
    assert (gc.get_threshold(), list(gc.callbacks)) == before


def test_a_connection_that_ended_is_no_circle() -> None:
    """It may have been set aside while it was open: then nobody would ever look for it again."""

    def once(owner: SimOwner) -> weakref.ref[Connection]:
        connection, transport = connect(owner)
        waiting = connection.invoke(RequestCode.QUERY_CONSUMER_OFFSET, timeout=60)
        connection.flush()
        transport.close()
        transport.protocol = None  # as the transports of uvloop do
        assert waiting.exception() is not None
        owner.lost.clear()
        return weakref.ref(connection)

    async def scene() -> None:
        seen = once(SimOwner(Dispatcher({})))
        await asyncio.sleep(0)
        assert seen() is None

    gc.disable()
    try:
        asyncio.run(scene())
    finally:
        gc.enable()
