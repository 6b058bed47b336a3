"""What a leader changed in its tables, everybody has who did what the log says."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.assembly.group import leave_out_deleted
from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.replication.table_log import NOBODY, QUEUE_ID, TableChange, TableLog
from aiorocketmq.broker.state.subscription_groups import SubscriptionGroups
from aiorocketmq.broker.state.topics import Topics
from aiorocketmq.remoting.errors import NoPermission, RequestError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion, TopicConfig
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import tags_code
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.dledger.deletions import Deletions
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole, MessageStoreConfig
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import PutResult, PutStatus
from aiorocketmq.store.put.queue_numbers import QueueNumbers

from ...sim import ManualClock
from ..sim_broker import SimBroker, sim_broker

OK = int(ResponseCode.SUCCESS)


class Acks:
    """In the place of ``Durability``: the test says when, and how."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[int], None]] = []

    def when_stored(self, _phy_offset: int, done: Callable[[int], None]) -> None:
        self.waiting.append(done)

    def tell(self, code: int = OK) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(code)


class Tables:
    """Of one member, on a log that all of the test's have in common."""

    def __init__(self, store: MessageStore, clock: ManualClock, *, leads: bool = False) -> None:
        config = BrokerConfig(broker_name="b", broker_cluster_name="C")
        self.topics, self.groups = Topics(config, clock), SubscriptionGroups(config, clock)
        self.leads = leads
        self.acks = Acks()
        self.writes = 0
        self._store, self._clock = store, clock
        self.open()

    def open(self) -> None:
        """As after a start."""
        durability: Any = self.acks
        numbers = QueueNumbers(self._store._table)
        self.deletions = Deletions(self._store._queues, numbers, (), self._clock)
        self.log = TableLog(
            self._store,
            self.topics,
            self.groups,
            self._clock,
            leads=lambda: self.leads,
            changed=self._written,
            durability=durability,
            deletions=self.deletions,
        )

    def _written(self) -> None:
        self.writes += 1

    def from_file(self, file: tuple[Any, Any]) -> None:
        """Begin with what another one's tables were then."""
        self.topics.load(file[0])
        self.groups.load(file[1])
        self.open()

    @property
    def file(self) -> tuple[Any, Any]:
        return self.topics.record(), self.groups.record()


def play(folder: Path, test: Callable[[SimBroker], Awaitable[None]]) -> None:
    async def main() -> None:
        async with sim_broker(folder) as sim:
            await test(sim)

    asyncio.run(main())


NAMES = st.sampled_from(["A", "B", "D"])  # "C" is the cluster: its topic is made at each start
CHANGES = st.lists(
    st.tuples(st.sampled_from(["topic", "no topic", "group", "no group", "wait"]), NAMES),
    max_size=15,
)


def change(tables: Tables, what: str, name: str, number: int) -> None:
    if what == "topic":
        tables.topics.update(TopicConfig(topic_name=name, read_queue_nums=1 + number))
    elif what == "no topic":
        tables.topics.delete(name)
    elif what == "group":
        tables.groups.update(SubscriptionGroupConfig(group_name=name, retry_max_times=number))
    elif what == "no group":
        tables.groups.delete(name)


@given(CHANGES, st.data())
def test_a_follower_has_what_its_leader_changed_whatever_its_files_had(
    changes: list[tuple[str, str]], data: st.DataObject
) -> None:
    kept = data.draw(st.integers(0, len(changes)))

    async def test(sim: SimBroker) -> None:
        store, clock = sim.broker.store, sim.clock
        leader = Tables(store, clock, leads=True)
        follower = Tables(store, clock)
        file = leader.file
        for number, (what, name) in enumerate(changes):
            clock.advance(0.001 if what == "wait" else 0)
            change(leader, what, name, number)
            if data.draw(st.booleans()):
                follower.log.catch_up()
            if number + 1 == kept:
                file = leader.file
        follower.log.catch_up()
        assert follower.file == leader.file
        started = Tables(store, clock)
        started.from_file(file)
        started.log.catch_up()
        assert started.file == leader.file

    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), test)


def test_clocks_of_leaders_need_not_agree(tmp_path: Path) -> None:
    """A file is older than the log, and all members were killed: what the log says since is done,
    though the leader's clock was behind that of the one before."""

    async def test(sim: SimBroker) -> None:
        store, clock = sim.broker.store, sim.clock
        clock.put_forward(3600)
        leader = Tables(store, clock, leads=True)
        change(leader, "topic", "A", 1)
        change(leader, "group", "A", 1)
        file = leader.file
        clock.put_forward(-3600)
        change(leader, "topic", "B", 2)
        change(leader, "no topic", "A", 3)
        change(leader, "group", "B", 4)
        started = Tables(store, clock)
        started.from_file(file)
        started.log.catch_up()
        assert started.file == leader.file

    play(tmp_path, test)


def test_what_is_older_than_a_file_is_not_done_again(tmp_path: Path) -> None:
    """A leader of the original has changed the topic since, and says nothing in the log. The groups
    were never written: for them all of the log counts."""

    async def test(sim: SimBroker) -> None:
        store, clock = sim.broker.store, sim.clock
        leader = Tables(store, clock, leads=True)
        change(leader, "topic", "A", 1)
        change(leader, "group", "A", 7)
        clock.advance(1)
        leader.leads = False
        change(leader, "topic", "A", 2)
        started = Tables(store, clock)
        started.from_file((leader.file[0], started.file[1]))
        started.log.catch_up()
        assert started.topics.record() == leader.topics.record()
        assert list(started.groups) == list(leader.groups)
        assert started.groups.data_version == leader.groups.data_version.unsure  # it is asked for

    play(tmp_path, test)


def test_what_never_came_into_the_log_is_not_hidden_by_what_did(tmp_path: Path) -> None:
    """A member that led changed its tables when it could not write any more. What the next leader
    changes must not give it that one's version."""

    async def test(sim: SimBroker) -> None:
        store, clock = sim.broker.store, sim.clock
        first, second = Tables(store, clock, leads=True), Tables(store, clock)
        change(first, "group", "A", 1)
        first.log.catch_up()
        second.log.catch_up()
        first.leads, second.leads = False, True
        change(first, "group", "A", 2)
        for number, restarts in enumerate((False, False, True)):
            clock.advance(1)
            change(second, "group", "B", number)
            if restarts:
                first.from_file(first.file)
            first.log.catch_up()
            assert first.groups.find("B") == second.groups.find("B")
            assert first.groups.find("A") != second.groups.find("A")
            assert first.groups.data_version != second.groups.data_version
        first.groups.replace(second.groups.record())  # as it is asked for then
        change(second, "group", "B", 9)
        first.log.catch_up()
        assert first.groups.record() == second.groups.record()

    play(tmp_path, test)


def test_a_table_that_was_taken_back_does_not_keep_its_version(tmp_path: Path) -> None:
    """A start does an older change again, the table is written and the process killed: the next
    start has to do the rest again, too."""

    async def test(sim: SimBroker) -> None:
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        change(leader, "topic", "A", 1)
        made = leader.topics.data_version
        leader.leads = False
        change(leader, "no topic", "A", 2)  # in the file, and not in the log that is there yet
        started = Tables(sim.broker.store, sim.clock)
        started.from_file(leader.file)
        started.log.catch_up()
        assert "A" in started.topics
        assert started.topics.data_version == made.unsure

    play(tmp_path, test)


def test_what_the_log_lacks_is_asked_for(tmp_path: Path) -> None:
    """A leader took a new version without a word in the log."""

    async def test(sim: SimBroker) -> None:
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        follower = Tables(sim.broker.store, sim.clock)
        leader.topics.new_version()
        change(leader, "topic", "A", 1)
        follower.log.catch_up()
        assert "A" in follower.topics
        assert follower.topics.data_version == leader.topics.data_version.unsure

    play(tmp_path, test)


def test_tables_are_written_when_they_have_changed_only(tmp_path: Path) -> None:
    async def test(sim: SimBroker) -> None:
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        follower = Tables(sim.broker.store, sim.clock)
        change(leader, "topic", "A", 1)
        for _ in range(2):
            follower.log.catch_up()
        assert (follower.writes, leader.writes) == (1, 0)

    play(tmp_path, test)


def test_a_leader_does_not_do_again_what_it_did(tmp_path: Path) -> None:
    """Its tables know more by then."""

    async def test(sim: SimBroker) -> None:
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        change(leader, "topic", "A", 1)
        change(leader, "no topic", "A", 2)
        leader.log.catch_up()
        assert "A" not in leader.topics

    play(tmp_path, test)


def test_a_deletion_takes_the_queues_of_who_did_not_ask_for_it(tmp_path: Path) -> None:
    """Those of a follower, and of a leader no sooner: before it is committed it may come to
    nothing."""

    async def test(sim: SimBroker) -> None:
        store, client = sim.broker.store, sim.connect()
        for leads in (False, True):
            leader, member = (Tables(store, sim.clock, leads=each) for each in (True, leads))
            await sim.make_topic("A")
            for number in range(20):
                await client.send("A", b"%d" % number)
            member.log.catch_up()
            for told in (leader, member):
                told.topics.take_over(TopicConfig(topic_name="A"), told.topics.data_version)
            change(leader, "no topic", "A", 1)
            assert store.max_offset("A", 0) == 20
            member.log.catch_up()
            member.deletions.finish()
            assert store.max_offset("A", 0) == 0

    play(tmp_path, test)


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_after_a_kill_deletes_again(tmp_path: Path, clean: bool) -> None:
    """However new the file of topics is: recovery has made queues that it does not tell of."""

    async def test(sim: SimBroker) -> None:
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        for what, name in (("topic", "B"), ("no topic", "B"), ("topic", "A"), ("group", "A")):
            change(leader, what, name, 1)
        assert sim.broker.store.recovery is not None
        sim.broker.store.recovery.clean = clean
        started = Tables(sim.broker.store, sim.clock)
        started.from_file(leader.file)
        started.log.catch_up()
        assert started.deletions.are_due is not clean
        assert started.file == leader.file

    play(tmp_path, test)


def test_a_topic_that_its_table_has_not_is_deleted_as_well(tmp_path: Path) -> None:
    """Queues may be left; and what could not be put is tried again by whoever asks again."""

    async def test(sim: SimBroker) -> None:
        store = sim.broker.store
        leader, follower = Tables(store, sim.clock, leads=True), Tables(store, sim.clock)
        await sim.connect().send("A", b"x")
        full = PutResult(PutStatus.SERVICE_NOT_AVAILABLE)
        for cannot in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                if cannot:
                    patch.setattr(store, "put_again", lambda _message: full)
                deleted = asyncio.ensure_future(leader.log.deleted("A"))
                await asyncio.sleep(0)
                leader.acks.tell()
                await asyncio.wait([deleted])
            assert (deleted.exception() is not None) is cannot
            follower.log.catch_up()
            follower.deletions.finish()
            assert store.max_offset("A", 0) == cannot

    play(tmp_path, test)


def test_what_was_deleted_last_is_told_from_what_nobody_told_of(tmp_path: Path) -> None:
    """Also where a file is newer than all that the log says."""

    async def test(sim: SimBroker) -> None:
        store, clock = sim.broker.store, sim.clock
        leader = Tables(store, clock, leads=True)
        for what, name in (
            ("topic", "A"), ("topic", "B"), ("topic", "D"),
            ("no topic", "A"), ("no topic", "B"), ("topic", "B"), ("no group", "D"),
        ):  # fmt: skip
            clock.advance(1)
            change(leader, what, name, 1)
        started = Tables(store, clock)
        started.from_file(leader.file)
        started.log.catch_up()
        assert at_once(started.log.deleted_topics()) == {"A"}

    play(tmp_path, test)


def test_whoever_leads_makes_no_topic_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that the log has brought and nobody has told of. Where the log cannot be read they
    are made: messages that nobody can read are worse."""

    async def test(sim: SimBroker) -> None:
        slave = MessageStoreConfig(
            store_path_root_dir=str(tmp_path / "s"), broker_role=BrokerRole.SLAVE
        )
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        for what, name in (("topic", "A"), ("topic", "B"), ("no topic", "A")):
            change(leader, what, name, 1)
        async with sim_broker(tmp_path / "s", store=slave, broker_id=1) as member:
            assert member.broker.replication.slave is not None
            sync = member.broker.replication.slave.sync
            for cannot_be_read in (True, False):
                for topic in ("A", "B", "Untold"):
                    sync._queue_made(topic)
                assert sync.has_unknown_topics
                with monkeypatch.context() as patch:
                    if cannot_be_read:
                        patch.setattr(sim.broker.store, "message_by_offset", _cannot)
                    await leave_out_deleted(sync, leader.log)
                made = sync.leads()
                assert made == (["A", "B", "Untold"] if cannot_be_read else ["B", "Untold"])

    play(tmp_path, test)


def _cannot(*_: Any) -> None:
    raise StoreFileError(Path("commitlog"), "EIO")


def told(store: MessageStore, body: bytes, by: bytes = NOBODY) -> None:
    """As a broker's own message."""
    message = PutMessage(
        TopicName.SELF_TEST, QUEUE_ID, body, b"TAGS\1TABLES\2", by, 1, 1, tags_code("TABLES")
    )
    assert store.put_message(message).status is PutStatus.PUT_OK


BODY = encode_body(
    TableChange(version=DataVersion(counter=9, timestamp=9), topic=TopicConfig(topic_name="A"))
)


def test_a_client_cannot_say_what_topics_there_are(tmp_path: Path) -> None:
    async def test(sim: SimBroker) -> None:
        store = sim.broker.store
        follower = Tables(store, sim.clock)
        with pytest.raises(NoPermission):
            await sim.connect().send(TopicName.SELF_TEST, BODY, properties="TAGS\1TABLES\2")
        told(store, BODY, pack_host("127.0.0.1", 50_000))  # if there were another way
        follower.log.catch_up()
        assert "A" not in follower.topics
        told(store, BODY)
        follower.log.catch_up()
        assert "A" in follower.topics

    play(tmp_path, test)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"version":1}', bytes(100)])
def test_what_cannot_be_understood_changes_nothing(tmp_path: Path, body: bytes) -> None:
    async def test(sim: SimBroker) -> None:
        follower = Tables(sim.broker.store, sim.clock)
        before = follower.file
        told(sim.broker.store, body)
        follower.log.catch_up()
        assert (follower.file, follower.writes) == (before, 0)
        told(sim.broker.store, BODY)
        follower.log.catch_up()
        assert "A" in follower.topics

    play(tmp_path, test)


def test_who_asks_for_a_change_is_answered_when_a_majority_has_it(tmp_path: Path) -> None:
    async def test(sim: SimBroker) -> None:
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        change(leader, "topic", "A", 1)
        answer = asyncio.ensure_future(leader.log.committed())
        await asyncio.sleep(0)
        assert not answer.done()
        leader.acks.tell()
        await answer
        await leader.log.committed()  # there is nothing to wait for any more

    play(tmp_path, test)


def test_a_change_that_no_majority_has_is_tried_once_more(tmp_path: Path) -> None:
    async def test(sim: SimBroker) -> None:
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        change(leader, "topic", "A", 1)
        answer = asyncio.ensure_future(leader.log.committed())
        leader.acks.tell(ResponseCode.SYSTEM_ERROR)
        with pytest.raises(RequestError, match="a majority is not known to have it"):
            await answer
        again = asyncio.ensure_future(leader.log.committed())
        leader.acks.tell()
        await again
        assert sim.broker.store.max_offset(TopicName.SELF_TEST, QUEUE_ID) == 2

    play(tmp_path, test)


def test_a_change_that_cannot_be_put_is_said(tmp_path: Path) -> None:
    async def test(sim: SimBroker) -> None:
        store = sim.broker.store
        leader = Tables(store, sim.clock, leads=True)
        store._refusals.from_now_on("the disk is full")
        change(leader, "group", "A", 1)
        with pytest.raises(RequestError, match="a majority is not known to have it"):
            await leader.log.committed()

    play(tmp_path, test)


def test_no_limit_on_messages_keeps_a_change_from_the_log(tmp_path: Path) -> None:
    async def test(sim: SimBroker) -> None:
        store = sim.broker.store
        leader = Tables(store, sim.clock, leads=True)
        store.config.max_message_size = 100
        store.reconfigure()
        change(leader, "topic", "A", 1)
        assert store.max_offset(TopicName.SELF_TEST, QUEUE_ID) == 1

    play(tmp_path, test)


def test_who_leads_no_more_promises_nothing(tmp_path: Path) -> None:
    async def test(sim: SimBroker) -> None:
        leader = Tables(sim.broker.store, sim.clock, leads=True)
        change(leader, "topic", "A", 1)
        answer = asyncio.ensure_future(leader.log.committed())
        leader.leads = False
        leader.acks.tell()
        with pytest.raises(RequestError, match="ask the broker that leads again"):
            await answer

    play(tmp_path, test)
