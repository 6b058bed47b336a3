"""What docs/raft.md tells an administrator to do, done with real processes: nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq import Admin, Message, Producer, PullConsumer, StartFrom

from .cluster import create_topic, total_of, until
from .raft_group import GROUP, RaftGroup

TOPIC = "Orders"
QUEUES = 2
SLAVE = f"{GROUP}-1"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[RaftGroup]:
    with RaftGroup(tmp_path) as group:
        yield group


def send(namesrv: str, first: int, count: int) -> list[bytes]:
    """What was acknowledged: all of it, in the order of its numbers."""
    bodies = [b"%06d" % number for number in range(first, first + count)]

    async def send_all() -> None:
        async with Producer("p", namesrv=namesrv) as producer:
            for body in bodies:
                await producer.send(Message(TOPIC, body, keys=[body.decode()]))

    asyncio.run(send_all())
    return bodies


def received(namesrv: str, count: int, group: str = "reader") -> list[bytes]:
    """The next messages of a consumer group that begins with the first one; its offsets are
    committed."""

    async def read() -> list[bytes]:
        async with PullConsumer(
            group, TOPIC, namesrv=namesrv, start_from=StartFrom.FIRST
        ) as reader:
            messages = await total_of(reader, count)
            await reader.commit()
            return sorted(message.body for message in messages)

    return asyncio.run(read())


def make_topic(namesrv: str) -> None:
    asyncio.run(create_topic(namesrv, TOPIC, QUEUES))


def wait_for_equal_logs(group: RaftGroup) -> None:
    """Of all that run; and each has a vote, so that another one can be lost."""

    async def ends(admin: Admin) -> list[str]:
        figures = [await admin.broker_runtime_info(each.address) for each in group.brokers.values()]
        return [f"{each['commitLogMaxOffset']} {each.get('raftVotes')}" for each in figures]

    async def wait() -> None:
        async with Admin(namesrv=group.namesrv) as admin:

            async def equal() -> bool:
                found = await ends(admin)
                return found[0] not in ("0 true", "0 false") and len(set(found)) == 1

            await until(equal, f"the logs of {', '.join(group.brokers)} have one end")

    asyncio.run(wait())


def complete(group: RaftGroup) -> str:
    """The leader, when all that run have a role."""
    return asyncio.run(group.complete())


def kill_leader(group: RaftGroup) -> None:
    leader = complete(group)
    group.kill(leader)
    asyncio.run(group.leader(leader))


def converted(group: RaftGroup) -> tuple[list[bytes], list[bytes]]:
    """A master and a slave become a group of three, as the page says. What was sent before, and
    what of it a consumer group has had."""
    group.start_broker(GROUP, brokerRole="SYNC_MASTER")
    group.start_slave(GROUP)
    make_topic(group.namesrv)
    sent = send(group.namesrv, 0, 300)
    had = received(group.namesrv, 100)
    wait_for_equal_logs(group)
    group.stop_broker(GROUP)
    group.stop_broker(SLAVE)
    for name, log in (("n0", GROUP), ("n1", SLAVE), ("n2", GROUP)):
        shutil.copytree(group.store_of(log), group.store_of(name))
        shutil.rmtree(group.store_of(name) / "config")
        shutil.copytree(group.store_of(GROUP) / "config", group.store_of(name) / "config")
    return sent, had


def test_a_master_and_its_slave_become_a_group(group: RaftGroup) -> None:
    sent, had = converted(group)
    group.start()
    complete(group)
    sent += send(group.namesrv, 300, 200)
    wait_for_equal_logs(group)
    rest = received(group.namesrv, len(sent) - len(had))
    assert sorted(had + rest) == sent, "the consumer group goes on behind what it had"
    assert received(group.namesrv, 500, "another") == sent
    kill_leader(group)
    sent += send(group.namesrv, 500, 10)
    assert received(group.namesrv, 510, "third") == sent


def test_a_group_without_messages_goes_back_to_master_and_slave(group: RaftGroup) -> None:
    sent, _ = converted(group)
    group.start()
    complete(group)
    for name in group.names:
        group.stop_broker(name)
    for name, member in ((GROUP, "n0"), (SLAVE, "n1")):
        shutil.rmtree(group.store_of(name))
        shutil.move(group.store_of(member), group.store_of(name))
        shutil.rmtree(group.store_of(name) / f"dledger-{member}")
        (group.store_of(name) / "config" / "dledgerMember.json").unlink()
    group.start_broker(GROUP, brokerRole="SYNC_MASTER")
    group.start_slave(GROUP)
    sent += send(group.namesrv, 300, 100)
    assert received(group.namesrv, 400, "another") == sent


def test_a_member_that_lost_its_disk_is_sent_everything(group: RaftGroup) -> None:
    group.start()
    leader = complete(group)
    make_topic(group.namesrv)
    sent = send(group.namesrv, 0, 300)
    lost = next(name for name in group.names if name != leader)
    group.kill(lost)
    shutil.rmtree(group.store_of(lost))
    sent += send(group.namesrv, 300, 100)
    group.start(lost)
    wait_for_equal_logs(group)
    kill_leader(group)
    sent += send(group.namesrv, 400, 10)
    assert received(group.namesrv, 410) == sent


def test_a_machine_is_replaced_by_one_with_another_address(group: RaftGroup) -> None:
    group.start()
    leader = complete(group)
    make_topic(group.namesrv)
    sent = send(group.namesrv, 0, 300)
    gone, other = (name for name in group.names if name != leader)
    group.stop_broker(gone)
    shutil.rmtree(group.store_of(gone))
    group.move(gone)
    group.start(gone)
    group.stop_broker(other)
    group.start(other)
    asyncio.run(transfer(group, other))
    wait_for_equal_logs(group)
    group.stop_broker(leader)
    group.start(leader)
    sent += send(group.namesrv, 300, 100)
    wait_for_equal_logs(group)
    kill_leader(group)
    sent += send(group.namesrv, 400, 10)
    assert received(group.namesrv, 410) == sent


async def transfer(group: RaftGroup, to: str) -> None:
    """As soon as the other one is there."""
    async with Admin(namesrv=group.namesrv) as admin:

        async def leads() -> bool:
            leader = await group.leader()
            if leader != to:
                await admin.transfer_leader(group.address(leader), to)
            return leader == to

        await until(leads, f"{to} leads")


def test_the_old_log_goes_with_a_member_and_goes_when_it_is_old(group: RaftGroup) -> None:
    sent, _ = converted(group)
    group.start()
    leader = complete(group)
    later = send(group.namesrv, 300, 50)
    lost = next(name for name in group.names if name != leader)
    group.kill(lost)
    shutil.rmtree(group.store_of(lost))
    shutil.copytree(group.store_of(leader) / "commitlog", group.store_of(lost) / "commitlog")
    group.start(lost)
    wait_for_equal_logs(group)
    asyncio.run(transfer(group, lost))
    assert received(group.namesrv, 350, "another") == sent + later, "the new disk has it"
    for name in [*(each for each in group.names if each != lost), lost]:
        group.stop_broker(name)
        shutil.rmtree(group.store_of(name) / "commitlog")
        group.start(name)
        complete(group)
        wait_for_equal_logs(group)
    assert received(group.namesrv, 50, "third") == later, "what was in it is gone for good"


def test_three_members_become_five(group: RaftGroup) -> None:
    group.start()
    complete(group)
    make_topic(group.namesrv)
    sent = send(group.namesrv, 0, 100)
    wait_for_equal_logs(group)
    for name in group.names:
        group.stop_broker(name)
    for name in ("n3", "n4"):
        group.names.append(name)
        group.move(name)
    group.start()
    complete(group)
    wait_for_equal_logs(group)
    for _ in range(2):
        kill_leader(group)
    sent += send(group.namesrv, 100, 10)
    assert received(group.namesrv, 110) == sent


def test_a_group_is_drained_into_another_broker(group: RaftGroup) -> None:
    group.start()
    complete(group)
    make_topic(group.namesrv)
    sent = send(group.namesrv, 0, 100)
    group.start_broker("broker-b")
    make_topic(group.namesrv)
    asyncio.run(read_only(group))
    later = send(group.namesrv, 100, 50)
    assert received(group.namesrv, 150) == sent + later
    for name in group.names:
        group.stop_broker(name)
    assert received(group.namesrv, 50, "another") == later, "all of it is at the other broker"


async def read_only(group: RaftGroup) -> None:
    """Producers do not send there any more."""
    async with Admin(namesrv=group.namesrv) as admin:
        for name in group.names:
            await admin.update_broker_config(group.address(name), {"brokerPermission": "4"})

        async def known() -> bool:
            route = await admin.topic_route(TOPIC)
            return {data.perm & 2 for data in route.queue_datas if data.broker_name == GROUP} == {0}

        await until(known, "the name server knows that nothing is to be sent there")
