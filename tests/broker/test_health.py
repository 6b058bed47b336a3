"""What a broker calls healthy, and to whom it says it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aiorocketmq.broker.assembly.health import health
from aiorocketmq.broker.monitoring.health import HealthProcessor
from aiorocketmq.broker.raft.node import RaftNode
from aiorocketmq.broker.registry.name_servers import NameServers
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.wire import NoFields
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.raft.ready import Role

from .accounts import home
from .sim_broker import sim_broker

NO_NAME_SERVER = "no name server knows this broker, so that no client finds it"
NO_LEADER = "this member of the group has no leader"
BEHIND = "this member of the group has lost entries and is catching up"


def told(processor: HealthProcessor) -> tuple[int, str | None]:
    reply = processor.health(NoFields(), b"", cast(Any, None))
    return int(reply.code), reply.remark


def test_a_broker_whose_messages_have_no_place_is_not_healthy() -> None:
    store = cast(MessageStore, SimpleNamespace(trouble=None, no_room="no file can be made"))
    names = cast(NameServers, SimpleNamespace(links=[]))
    assert told(health(store, names, None)) == (14, "no file can be made")


@pytest.mark.parametrize(
    ("trouble", "registered", "role", "votes", "expected"),
    [
        (None, [True], None, None, (0, None)),
        (None, [False, True], None, None, (0, None)),
        (None, [], None, None, (0, None)),
        (None, [False, False], None, None, (14, NO_NAME_SERVER)),
        ("the disk is full", [True], None, None, (14, "the disk is full")),
        ("the disk is full", [False], None, None, (14, f"the disk is full; {NO_NAME_SERVER}")),
        (None, [True], Role.LEADER, True, (0, None)),
        (None, [True], Role.FOLLOWER, True, (0, None)),
        (None, [True], Role.FOLLOWER, False, (14, BEHIND)),
        (None, [True], Role.CANDIDATE, True, (14, NO_LEADER)),
    ],
)
def test_what_keeps_a_broker_from_being_healthy(
    trouble: str | None,
    registered: list[bool],
    role: Role | None,
    votes: bool | None,
    expected: tuple[int, str | None],
) -> None:
    """Of store, name servers and node only what is looked at."""
    store = cast(MessageStore, SimpleNamespace(trouble=trouble, no_room=None))
    links = [SimpleNamespace(registered=each) for each in registered]
    names = cast(NameServers, SimpleNamespace(links=links))
    node = None if role is None else cast(RaftNode, SimpleNamespace(role=role, votes=votes))
    assert told(health(store, names, node)) == expected


def test_it_is_told_without_a_signature_and_nothing_else_is(tmp_path: Path) -> None:
    async def ask() -> None:
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path, ""))
        ) as sim:
            client = sim.connect()
            assert (await client.ask(RequestCode.HEALTH)).code == 0
            refused = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
            assert refused.code == 1

    asyncio.run(ask())
