"""What a follower says of a commit log from before the group that is not its leader's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.broker.raft.figures import figures
from aiorocketmq.store.raft.old_log import NO_OLD_LOG, UNTOLD, OldLog

from .world import Group

LONG, SHORT = OldLog(5000, 7), OldLog(4000, 8)


def run(test: Callable[[Group], Awaitable[None]]) -> None:
    async def main() -> None:
        group = Group()
        try:
            await test(group)
        finally:
            await group.close()

    asyncio.run(main())


def test_who_follows_with_another_old_log_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(group: Group) -> None:
        for name, old_log in (("n0", LONG), ("n1", LONG), ("n2", SHORT)):
            group.stores[name].log.old_log = old_log
        group.start()
        leader = await group.leader()
        (told,) = (each for each in caplog.records if "old commit log" in each.message)
        assert told.levelno == logging.ERROR
        assert f"that of its leader {leader.id}: it ends at 4000 (crc 00000008)" in told.message
        assert "docs/raft.md, A disk is lost" in told.message
        differs = {each.id: each.node.has_other_old_log for each in group.members.values()}
        assert differs == {"n0": False, "n1": False, "n2": True}
        shown = figures(group.members["n2"].node)
        assert (shown["raftOldLogEnd"], shown["raftOldLogDiffers"]) == ("4000", "true")
        assert figures(leader.node)["raftOldLogDiffers"] == "false"
        group.stores["n2"].log.old_log = UNTOLD
        assert figures(group.members["n2"].node)["raftOldLogEnd"] == ""

    run(test)


@pytest.mark.parametrize(("entries", "level"), [(0, logging.ERROR), (1, logging.WARNING)])
def test_who_follows_without_the_leaders_old_log_says_so(
    entries: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(group: Group) -> None:
        for store in group.stores.values():
            store.log.old_log = LONG
            if entries:
                store.log.put(1, b"first")
        group.stores["n2"].log.old_log = NO_OLD_LOG
        group.start("n0", "n1")
        await group.leader()
        group.start("n2")
        await group.leader()
        (told,) = (each for each in caplog.records if "old commit log" in each.message)
        assert (told.levelno, "up to 5000" in told.message) == (level, True)
        assert not group.members["n2"].node.has_other_old_log

    run(test)
