"""Members of a group as services: electing, replicating, stopping."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from aiorocketmq.broker.raft import node
from aiorocketmq.broker.raft.mending import ExpiredEverywhereError
from aiorocketmq.broker.raft.node import HANDING_OVER, MAX_HELD, TOO_MANY
from aiorocketmq.remoting.dispatch import PENDING, Context, Dispatcher
from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerCode,
    Entry,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    TransferResponse,
    VoteRequest,
    encode_dledger,
)
from aiorocketmq.remoting.protocol.bodies.stored_entries import StoredEntries, side_by_side
from aiorocketmq.remoting.protocol.wire import NoFields
from aiorocketmq.store.model.status import PutResult, PutStatus
from aiorocketmq.store.raft.entry_log import CommittedConflict
from aiorocketmq.store.raft.ready import Role

from ...sim import SimOwner, connect
from ...store.raft.list_log import ListLog
from .world import MOST_WAITING, PEERS, Group, Sends, SimNode


def run(test: Callable[[Group], Awaitable[None]], group: Callable[[], Group] = Group) -> None:
    async def main() -> None:
        world = group()
        try:
            await test(world)
        finally:
            await world.close()

    asyncio.run(main())


def test_three_elect_one_and_replicate() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        sends = Sends()
        for number in range(20):
            sends.send(leader, b"%d" % number)
        await group.until(lambda: len(sends.told) == 20)
        assert set(sends.told.values()) == {PutStatus.PUT_OK}
        await group.until(lambda: len({len(each.bodies) for each in group.stores.values()}) == 1)
        assert len({tuple(each.bodies) for each in group.stores.values()}) == 1

    run(test)


def test_an_answer_that_comes_while_a_member_stops_is_none_to_act_on() -> None:
    """Its connections close after that; an error would be in the log of each."""

    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        stopped: Any = leader.node
        other = next(each for each in PEERS if each != leader.id)
        await leader.crash()
        late = encode_dledger(HeartbeatResponse(takes_bytes=True))
        stopped._answered(other, HeartbeatRequest(), late)

    run(test)


def test_a_member_alone_leads_itself() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        sends.send(leader, b"1")
        await group.until(lambda: sends.told)
        assert sends.told == {b"1": PutStatus.PUT_OK}
        await leader.stop()

    run(test, lambda: Group({"n0": "10.0.0.1:40911"}))


def test_with_a_secret_they_elect_as_well() -> None:
    async def test(group: Group) -> None:
        group.start()
        await group.leader()

    run(test, lambda: Group(secret=b"sixteen bytes ..."))


def test_what_was_stored_in_a_turn_is_one_push() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        await group.turns(100)
        sends.send(leader, b"first")
        await group.until(lambda: sends.told)
        before = [len(pipe.writes) for pipe in group.pipes_of(leader)]
        for number in range(50):
            sends.send(leader, b"%d" % number)
        await group.turns(4)
        after = [len(pipe.writes) for pipe in group.pipes_of(leader)]
        assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1]
        await group.turns(40)
        assert len(sends.told) == 51, "time stands still: nothing waits for a deadline"

    run(test)


def twelve_told(told: Callable[[Group, SimNode, Sends], Awaitable[None]]) -> None:
    """So many sent together, and have just heard that their messages are committed."""

    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        sends.send(leader, b"their logs are compared")
        await group.until(lambda: sends.told)
        sends.told.clear()
        for number in range(12):
            sends.send(leader, b"first %d" % number)
        while len(sends.told) < 12:
            await group.turns(1)
        await told(group, leader, sends)

    run(test)


def test_a_push_waits_for_many_senders_that_were_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "LONGEST_S", 60.0)

    async def told(group: Group, leader: SimNode, sends: Sends) -> None:
        await group.turns(100)
        before = [len(pipe.writes) for pipe in group.pipes_of(leader)]
        for number in range(12):
            assert [len(pipe.writes) for pipe in group.pipes_of(leader)] == before
            sends.send(leader, b"again %d" % number)
            await group.turns(2)
        while len(sends.told) < 24:
            await group.turns(1)
        after = [len(pipe.writes) for pipe in group.pipes_of(leader)]
        assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1]

    twelve_told(told)


def test_it_does_not_wait_long() -> None:
    async def told(group: Group, leader: SimNode, sends: Sends) -> None:
        for number in range(3):
            sends.send(leader, b"again %d" % number)
        while len(sends.told) < 15:
            await group.turns(1)

    twelve_told(told)


def test_members_of_ours_push_entries_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_stored(log: ListLog, first: int, most: int) -> Sequence[Entry]:
        found = listed(log, first, most)
        data, count = side_by_side(found, 1 << 20)
        return StoredEntries(data, count, first, found[0].pos) if found else found

    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        sends.send(leader, b"before" * 99)
        await group.until(lambda: group.clock.monotonic() > 5)
        body = b"as it is" * 99
        sends.send(leader, body)
        await group.until(lambda: body in sends.told)
        for pipe in group.pipes_of(leader):
            (push,) = (write for write in pipe.writes if body in write)
            assert b64encode(body[:99]) not in push
        assert leader.store.log.stored[-1].body == body
        await group.until(lambda: len({len(each.bodies) for each in group.stores.values()}) == 1)
        assert len({tuple(each.bodies) for each in group.stores.values()}) == 1

    listed = ListLog.entries
    monkeypatch.setattr(ListLog, "entries", as_stored)
    run(test)


def test_when_the_leader_is_gone_another_one_goes_on() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        sends.send(leader, b"1")
        await group.until(lambda: sends.told)
        # a member of a new group has no vote from its first entry until it has caught up
        await group.until(
            lambda: all(each.store.bodies and each.node.votes for each in group.members.values())
        )
        await leader.crash()
        begun = group.clock.monotonic()
        following = await group.leader()
        assert group.clock.monotonic() - begun < 2.0
        await group.until(lambda: b"1" in following.store.bodies)
        sends.send(following, b"2")
        await group.until(lambda: len(sends.told) == 2)
        group.start(leader.id)
        await group.until(lambda: leader.store.bodies == following.store.bodies)
        assert following.store.bodies[-1] == b"2"

    run(test)


@pytest.mark.parametrize("ordered", [False, True], ids=["at once", "after an order"])
def test_a_leader_that_stops_has_another_one_lead_first(ordered: bool) -> None:
    """The order is to have one lead who is cut off: it comes to nothing."""

    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        sends.send(leader, b"1")
        await group.turns(40)
        begun = group.clock.monotonic()
        away, _ = leader.node.settings.others
        order: asyncio.Future[TransferResponse] | None = None
        if ordered:
            group.cut(away)
            order = asyncio.ensure_future(leader.node.transfer(away))
        await leader.stop()
        assert leader.roles[-1].role is not Role.LEADER  # the one that takes over has our vote, too
        group.heal()
        following = await group.leader()
        assert ordered or group.clock.monotonic() - begun < 0.5
        await group.until(lambda: b"1" in following.store.bodies)
        if order is not None:
            assert (await order).code == DledgerCode.NETWORK_ERROR

    run(test)


def test_a_sender_hears_of_its_message_when_it_can_be_read() -> None:
    """Whoever reads at the leader then finds it."""

    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        leader.store.unreadable = 1
        sends.send(leader, b"1")
        await group.until(lambda: b"1" in leader.store.bodies)
        await group.turns()
        assert sends.told == {}
        leader.store.unreadable = 0
        leader.node.more_is_readable()
        assert sends.told == {b"1": PutStatus.PUT_OK}

    run(test)


def test_leadership_goes_where_it_is_wanted() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        wanted = next(each for each in PEERS if each != leader.id)
        begun = group.clock.monotonic()
        asked = asyncio.ensure_future(leader.node.transfer(wanted))
        await group.until(asked.done)
        assert asked.result().code == 200
        assert (await group.leader()).id == wanted
        assert group.clock.monotonic() - begun < 0.5
        asked = asyncio.ensure_future(leader.node.transfer(wanted))
        await group.until(asked.done)
        assert asked.result().code == 404, "it does not lead any more"

    run(test)


@pytest.mark.parametrize("away", [False, True], ids=["all there", "the next one is away"])
def test_members_with_the_same_damage_lead_in_turn(away: bool) -> None:
    """Of three with two that are damaged everybody has led after two."""

    async def test(group: Group) -> None:
        group.start()
        first = leader = await group.leader()
        if away:
            following = leader.node.settings.others[0]
            await group.members[following].crash()
        led = [first.id]
        for _ in range(2):
            handing = asyncio.ensure_future(leader.node.hand_over_damaged())
            await group.until(handing.done)
            leader = await group.leader()
            led.append(leader.id)
        if away:
            assert led == [first.id, led[1], first.id]
            assert len(set(led)) == 2
        else:
            assert set(led) == set(PEERS)

    run(test)


def test_a_leader_that_cannot_store_anything_gives_up() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        leader.store.log.full = True
        await group.until(lambda: leader.node.role is Role.FOLLOWER)
        following = await group.leader()
        sends = Sends()
        sends.send(following, b"1")
        await group.until(lambda: sends.told)
        assert sends.told == {b"1": PutStatus.PUT_OK}

    run(test)


async def with_a_stuck_leader(group: Group) -> tuple[SimNode, SimNode]:
    """It is elected, for its log is the best, but cannot begin; and the other one that is left."""
    group.start()
    leader, sends = await group.leader(), Sends()
    stuck, other = (group.members[each] for each in leader.node.settings.others)
    sends.send(leader, b"0")
    await group.until(lambda: other.store.bodies == stuck.store.bodies == [b"0"])
    group.cut(other.id)
    sends.send(leader, b"1")
    await group.until(lambda: b"1" in sends.told)
    stuck.store.stuck = True
    await leader.crash()
    group.heal()
    await group.until(lambda: any(each.role is Role.LEADER for each in stuck.roles))
    return stuck, other


def test_a_leader_that_cannot_begin_its_term_gives_up() -> None:
    async def test(group: Group) -> None:
        stuck, other = await with_a_stuck_leader(group)
        assert stuck.store.term is None
        assert await group.leader() is other
        await group.until(lambda: b"1" in other.store.bodies)

    run(test)


def test_a_leader_that_cannot_begin_its_term_takes_nothing() -> None:
    """It would be of an earlier term. Nobody else can lead either, and so it goes on asking."""

    async def test(group: Group) -> None:
        for store in group.stores.values():
            store.stuck = True
        group.start()
        await group.until(lambda: group.leaders)
        (leader,) = group.leaders
        node, end = leader.node, group.clock.monotonic() + 12

        def some_seconds_have_passed() -> bool:
            assert all(store.refusal is not None for store in group.stores.values())
            return group.clock.monotonic() >= end

        await group.until(some_seconds_have_passed)
        to = group.stores[node.settings.others[0]]
        to.stuck, to.disk = False, asyncio.Event()
        handing = asyncio.ensure_future(node.transfer(node.settings.others[0]))
        await group.until(lambda: node._member.transferee)
        leader.store.stuck = False
        await group.until(lambda: leader.store.term is not None)
        assert leader.store.refusal is HANDING_OVER
        to.disk.set()
        await group.until(handing.done)

    run(test)


def test_a_member_alone_begins_its_term_when_it_can() -> None:
    """Nobody else has it take a turn."""

    async def test(group: Group) -> None:
        store = group.stores["n0"]
        store.stuck = True
        group.start()
        await group.until(lambda: group.leaders)
        await group.turns(100)
        assert store.term is None
        store.stuck = False
        took = await group.until(lambda: store.term is not None)
        assert took < 1.1

    run(test, lambda: Group({"n0": "10.0.0.1:40911"}))


def test_a_leader_gives_up_however_many_wait_for_it() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        leader.store.stuck, leader.store.unreadable = True, 1 << 20
        for number in range(MOST_WAITING):
            sends.send(leader, b"%d" % number)
        await group.until(lambda: leader.store.refusal is TOO_MANY)
        await group.until(lambda: leader.node.role is not Role.LEADER, most_s=1.0)

    run(test)


def test_who_is_to_lead_leads_again_when_it_can_store_something() -> None:
    """Until then it would only give its leadership back, and nothing be stored meanwhile."""

    async def test(group: Group) -> None:
        group.start()
        preferred = group.members["n0"]
        await group.until(lambda: preferred.store.term is not None)
        preferred.store.log.full = True
        await group.until(lambda: preferred.node.role is Role.FOLLOWER)
        leader = await group.leader()
        term, end = leader.node.term, group.clock.monotonic() + 40
        await group.until(lambda: group.clock.monotonic() >= end)
        assert leader.node.role is Role.LEADER
        assert leader.node.term == term
        preferred.store.log.full = False
        await group.until(lambda: preferred.store.term is not None)

    run(test, partial(Group, preferred=("n0",)))


def test_leadership_does_not_go_round_where_nobody_can_store_anything() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        term = leader.node.term
        for store in group.stores.values():
            store.log.full = True
        end = group.clock.monotonic() + 40

        def forty_seconds_have_passed() -> bool:
            for store in group.stores.values():
                assert store.term is not None or store.refusal is not None
            return group.clock.monotonic() >= end

        await group.until(forty_seconds_have_passed)
        assert max(each.node.term for each in group.members.values()) - term <= 12

    run(test)


def test_who_waits_is_told_when_leadership_is_lost() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        group.cut(leader.id)
        sends.send(leader, b"lost")
        await group.until(lambda: sends.told)
        assert sends.told == {b"lost": PutStatus.SERVICE_NOT_AVAILABLE}
        assert leader.store.term is None
        following = await group.leader(among=[each for each in PEERS if each != leader.id])
        sends.send(following, b"kept")
        await group.until(lambda: b"kept" in sends.told)
        group.heal()
        await group.until(lambda: leader.store.bodies == following.store.bodies)
        assert b"lost" not in following.store.bodies

    run(test)


def test_while_too_many_wait_nothing_more_is_taken() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        await group.turns(100)
        refusals: list[PutResult | None] = []
        leader.store.refuse = refusals.append  # type: ignore[method-assign, assignment]
        for number in range(MOST_WAITING):
            sends.send(leader, b"%d" % number)
        await group.until(lambda: len(sends.told) == MOST_WAITING)
        assert refusals == [TOO_MANY, None]
        await leader.stop()
        assert refusals == [TOO_MANY, None, HANDING_OVER]

    run(test)


def test_who_asks_when_the_node_has_ended_is_not_answered() -> None:
    """Others of its broker end after it, and the leader that it has handed over to is looked for
    until then."""

    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        await leader.stop()
        assert leader.node.leader_id in leader.node.settings.others
        for peer in leader.node.settings.others:
            assert await leader.node.broker_of(peer) is None
        assert await leader.node.leader_broker() is None
        assert [each async for each in leader.node.entries_of_others(0)] == []
        leader.node.tell_not_registered()

    run(test)


def test_who_waits_at_a_member_alone_is_told_when_it_takes_too_long() -> None:
    """Nothing else happens there: it has nobody to send heartbeats to."""

    async def test(group: Group) -> None:
        group.start()
        alone, sends = group.members["n0"], Sends()
        await group.until(lambda: alone.store.term is not None)
        await group.turns(100)
        alone.store.unreadable = 1 << 20
        for number in range(MOST_WAITING):
            sends.send(alone, b"%d" % number)
        await group.until(lambda: len(sends.told) == MOST_WAITING, most_s=5.0)
        assert set(sends.told.values()) == {PutStatus.OS_PAGECACHE_BUSY}
        await group.until(lambda: alone.store.refusal is None, most_s=1.0)
        for number in range(MOST_WAITING):
            sends.send(alone, b"again %d" % number)
        await group.until(lambda: alone.store.refusal is TOO_MANY, most_s=1.0)
        alone.store.unreadable = 0
        alone.node.more_is_readable()
        assert len(sends.told) == 2 * MOST_WAITING
        await group.until(lambda: alone.store.refusal is None, most_s=1.0)

    run(test, partial(Group, {"n0": PEERS["n0"]}))


def test_a_follower_says_why_it_falls_behind(caplog: pytest.LogCaptureFixture) -> None:
    """Files of another size than its leader's, say; it is the only one who knows."""

    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        following = group.members[leader.node.settings.others[0]]
        following.store.log.full = True
        sends.send(leader, b"1")
        says = (
            "what the leader sends is not stored, this member falls behind reason=the disk is full"
        )
        await group.until(lambda: says in caplog.text)
        begun = group.clock.monotonic()
        await group.until(lambda: group.clock.monotonic() > begun + 30)
        assert caplog.text.count("falls behind") == 1
        following.store.log.full = False
        await group.until(lambda: following.store.bodies == leader.store.bodies)

    run(test)


FIVE = PEERS | {"n3": "10.0.0.4:40911", "n4": "10.0.0.5:40911"}


def test_who_knows_of_more_members_than_others_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def test(group: Group) -> None:
        group.lists["n2"] = FIVE
        group.start()
        says = "dLegerPeers of member n0 is not that of this one, which names n0, n1, n2, n3, n4"
        asking = asyncio.ensure_future(group.members["n2"].node.broker_of("n0"))
        await group.until(lambda: says in caplog.text)
        await group.until(asking.done)

    run(test)


def test_who_knows_nothing_of_who_wants_to_lead_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """All are on one machine: else its port says that it comes from nobody's address."""
    peers = {f"n{number}": f"10.0.0.1:{40911 + number}" for number in range(3)}

    async def test(group: Group) -> None:
        group.lists["n2"] = {"n1": peers["n1"], "n2": peers["n2"]}
        group.start("n0", "n2")
        says = "dLegerPeers of member n0 is not that of this one, which names n1, n2"
        await group.until(lambda: says in caplog.text)

    run(test, partial(Group, peers))


def test_members_that_agree_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        for each in leader.node.settings.others:
            assert await asyncio.wait_for(leader.node.broker_of(each), 5)
        assert "dLegerPeers" not in caplog.text

    run(test)


def test_followers_are_told_where_the_leaders_broker_is() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        follower = next(each for each in group.members.values() if each is not leader)
        asked = asyncio.ensure_future(follower.node.leader_broker())
        await group.until(asked.done)
        assert asked.result() == f"{leader.host}:10911"
        assert await leader.node.leader_broker() is None, "it would ask itself"
        group.cut(follower.id)
        asked = asyncio.ensure_future(follower.node.leader_broker())
        await group.until(asked.done)
        assert asked.result() is None

    run(test)


def test_followers_hear_of_changed_tables_once_a_turn() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        told: list[str] = []
        for member in group.members.values():
            member.node.on_tables_changed.append(partial(told.append, member.id))
        await group.turns(100)
        for _ in range(5):
            leader.node.tell_tables_changed()
        await group.turns()
        assert sorted(told) == sorted(each for each in PEERS if each != leader.id)
        follower = next(each for each in group.members.values() if each is not leader)
        follower.node.tell_tables_changed()
        await group.turns()
        assert len(told) == 2, "it does not lead"
        for member in group.members.values():
            member.node.on_not_registered.append(partial(told.append, f"{member.id} registers"))
        follower.node.tell_not_registered()
        leader.node.tell_not_registered()
        await group.turns()
        assert told[2:] == [f"{leader.id} registers"]

    run(test)


def test_lost_leadership_is_told_before_the_new_term_is_on_the_disk() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        leader.store.disk = asyncio.Event()  # and never set
        group.cut(leader.id)
        await group.until(lambda: leader.roles[-1].role is not Role.LEADER)
        leader.store.disk.set()

    run(test)


def test_nothing_is_answered_before_term_and_vote_are_on_the_disk() -> None:
    async def test(group: Group) -> None:
        disks = {peer: asyncio.Event() for peer in PEERS}
        for peer, store in group.stores.items():
            store.disk = disks[peer]
        group.start()
        disks["n0"].set()
        await group.until(lambda: group.clock.monotonic() > 1010)
        assert not group.leaders, "no other one can promise anything"
        disks["n1"].set()
        leader = await group.leader(among=("n0", "n1"))
        assert leader.store.saves[-1] == (leader.node.term, leader.id)
        disks["n2"].set()

    run(test)


def context() -> Context:
    """Of a request that somebody asks."""
    connection, _ = connect(SimOwner(Dispatcher({})))
    return Context(NoFields(), 50_000, 1, 0, 409, 0, connection, 0, b"")


def test_few_requests_wait_for_a_disk_that_takes_nothing() -> None:
    async def test(group: Group) -> None:
        group.start("n0", "n1")
        leader = await group.leader()
        other = next(each for each in group.members.values() if each is not leader)
        other.store.disk = asyncio.Event()
        node: Any = other.node
        asked = context()
        vote = VoteRequest(group="g", remote_id=other.id, leader_id="n2", term=other.node.term + 1)
        node._request(VoteRequest, NoFields(), encode_dledger(vote), asked)
        await group.until(lambda: node._saving)
        body = encode_dledger(MetadataRequest(group="g", remote_id=other.id))
        answers = [
            node._request(MetadataRequest, NoFields(), body, asked) for _ in range(MAX_HELD + 1)
        ]
        taken = answers.count(PENDING)  # its leader may have asked for something meanwhile
        assert MAX_HELD - 8 <= taken <= MAX_HELD
        assert {each.code for each in answers[taken:]} == {2}
        other.store.disk.set()
        await group.until(lambda: not node._saving)

    run(test)


def test_logs_that_contradict_each_other_end_the_node() -> None:
    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        member: Any = leader.node

        def take(_now_ms: int) -> None:
            raise CommittedConflict("entry 7 is another one")

        member._member.take = take
        await group.until(leader.task.done)
        ended = leader.task.exception()
        assert isinstance(ended, ExceptionGroup)
        assert ended.split(CommittedConflict)[1] is None, "nothing else went wrong"
        assert leader.store.term is None, "it takes no more messages"
        del group.members[leader.id]

    run(test)


def test_a_member_is_told_entries_by_all_others() -> None:
    """A leader as well: followers tell what is committed."""

    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        sends.send(leader, b"1")
        await group.until(lambda: sends.told)
        await group.until(lambda: len({len(each.bodies) for each in group.stores.values()}) == 1)
        (other, *_) = [member for member in group.members.values() if member is not leader]
        log = leader.store.log
        last = log.end_index

        async def told(member: SimNode, index: int) -> list[Entry]:
            return [each async for each in member.node.entries_of_others(index)]

        for member, index, count in ((other, last, 2), (other, last + 1, 0), (leader, last, 2)):
            asked = asyncio.ensure_future(told(member, index))
            await group.until(asked.done)
            assert asked.result() == list(log.entries(last, 0)) * count

    run(test)


def test_an_entry_that_has_expired_at_all_others_is_known_to_have() -> None:
    """One that cannot be asked may have it."""

    async def test(group: Group) -> None:
        group.start()
        leader, sends = await group.leader(), Sends()
        for body in (b"1", b"2", b"3"):
            sends.send(leader, body)
        await group.until(lambda: len(sends.told) == 3)
        await group.until(lambda: len({len(each.bodies) for each in group.stores.values()}) == 1)
        others = [member for member in group.members.values() if member is not leader]

        async def told() -> list[Entry]:
            return [each async for each in leader.node.entries_of_others(0)]

        for expired, count in ((0, 2), (1, 1), (2, None)):
            for member in others[:expired]:
                del member.store.log.stored[: max(0, 1 - member.store.log.begin_index)]
            asked = asyncio.ensure_future(told())
            await group.until(asked.done)
            if count is None:
                assert isinstance(asked.exception(), ExpiredEverywhereError)
            else:
                assert len(asked.result()) == count
        await others[0].crash()
        asked = asyncio.ensure_future(told())
        await group.until(asked.done)
        assert asked.result() == []

    run(test)


def test_a_group_of_one_asks_nobody_for_an_entry() -> None:
    """Readers do not wait for it."""

    async def test(group: Group) -> None:
        group.start()
        leader = await group.leader()
        with pytest.raises(ExpiredEverywhereError, match="no other member has the entry 0"):
            await anext(leader.node.entries_of_others(0))

    run(test, lambda: Group(dict([next(iter(PEERS.items()))])))
