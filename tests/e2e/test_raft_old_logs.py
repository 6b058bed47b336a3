"""A group that was begun on the logs of a master and a slave that had not caught up."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .raft_group import GROUP, RaftGroup
from .test_mqadmin import Tool
from .test_raft_procedures import (
    SLAVE,
    complete,
    kill_leader,
    make_topic,
    received,
    send,
    transfer,
    wait_for_equal_logs,
)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[RaftGroup]:
    with RaftGroup(tmp_path) as group:
        yield group


def unequal(group: RaftGroup) -> list[bytes]:
    """n0 has the log of the slave, n1 and n2 that of the master. What was sent before."""
    group.start_broker(GROUP)
    group.start_slave(GROUP)
    make_topic(group.namesrv)
    sent = send(group.namesrv, 0, 100)
    wait_for_equal_logs(group)
    group.stop_broker(SLAVE)
    sent += send(group.namesrv, 100, 50)
    group.stop_broker(GROUP)
    for name, log in (("n0", SLAVE), ("n1", GROUP), ("n2", GROUP)):
        shutil.copytree(group.store_of(log), group.store_of(name))
        shutil.rmtree(group.store_of(name) / "config")
        shutil.copytree(group.store_of(GROUP) / "config", group.store_of(name) / "config")
    return sent


def test_who_has_less_says_so_does_not_lead_and_is_put_right(
    group: RaftGroup, tmp_path: Path
) -> None:
    sent = unequal(group)
    mqadmin = Tool(group, tmp_path)

    def old_logs() -> dict[str, str]:
        rows = json.loads(mqadmin("raftStatus --json").out)
        return {row["member"]: str(row["oldLog"]) for row in rows}

    group.start("n0", "n1")
    leader = complete(group)
    assert leader == "n1", "nobody else has as much"
    group.start("n2")
    leader = complete(group)
    sent += send(group.namesrv, 150, 50)
    wait_for_equal_logs(group)
    shown = old_logs()
    assert {name: "differs" in end for name, end in shown.items()} == {
        "n0": True,
        "n1": False,
        "n2": False,
    }
    assert shown["n1"] == shown["n2"]
    line = f"is not that of its leader {leader}: it ends at {shown['n0'].split()[0]} "
    assert "ERROR" in next(each for each in group.log_of("n0").splitlines() if line in each)
    assert "old commit log of this member" not in group.log_of("n1") + group.log_of("n2")
    asked = mqadmin(f"transferLeader -b {group.address(leader)} -t n0")
    assert (asked.code, "less of the commit log" in asked.err) == (1, True)

    group.stop_broker("n0")
    shutil.rmtree(group.store_of("n0"))
    shutil.copytree(group.store_of(leader) / "commitlog", group.store_of("n0") / "commitlog")
    group.start("n0")
    wait_for_equal_logs(group)
    assert set(old_logs().values()) == {shown["n1"]}
    asyncio.run(transfer(group, "n0"))
    assert received(group.namesrv, 200) == sent
    kill_leader(group)
    assert received(group.namesrv, 200, "another") == sent
