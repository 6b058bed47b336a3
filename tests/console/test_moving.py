"""A group that is moved queue by queue."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from aiorocketmq.client.admin import OffsetMove
from aiorocketmq.console.cluster import ClusterView
from aiorocketmq.console.pages.groups import PartlyMoved, reset
from aiorocketmq.remoting.errors import ConsumerNotOnline, RequestTimeout


class _Admin:
    """Nobody of the group is online, and a broker hangs."""

    async def move_offsets(
        self, _group: str, _topic: str, _at_ms: int, *, dry_run: bool = False
    ) -> list[OffsetMove]:
        if dry_run:
            return []
        raise RequestTimeout("no answer to UPDATE_CONSUMER_OFFSET from 10.0.0.3:10911 in time")

    async def reset_offsets(self, _group: str, _topic: str, _at_ms: int) -> None:
        raise ConsumerNotOnline(206, "nobody is online")


def test_who_fails_in_the_middle_says_that_some_may_have_been_moved() -> None:
    view = cast("ClusterView", SimpleNamespace(admin=_Admin()))
    with pytest.raises(PartlyMoved) as failed:
        asyncio.run(reset(view, "g", "T", 0))
    assert str(failed.value) == (
        "no answer to UPDATE_CONSUMER_OFFSET from 10.0.0.3:10911 in time; some queues may have "
        "been moved before: the preview shows where the group stands, moving it once more moves "
        "all of them"
    )
