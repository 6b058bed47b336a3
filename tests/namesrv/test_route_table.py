"""The route table, with time as an argument: each rule of ``namesrv.md`` §5.3–5.8, then any
sequence against a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aiorocketmq.client.cluster.lost_brokers import LOST_BROKERS
from aiorocketmq.namesrv.route_table import BROKER_EXPIRED_MS, Registered, RouteTable
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.route import QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion, TopicConfig
from aiorocketmq.remoting.protocol.commands.route import BrokerRequest, RegisterBrokerRequest
from aiorocketmq.remoting.protocol.fastjson import writer as fastjson_writer
from aiorocketmq.remoting.slices import at_once

A, B, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def topic(name: str, queues: int = 4, perm: int = 6, flags: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=flags,
    )


def register(
    table: RouteTable,
    *topics: TopicConfig,
    addr: str = A,
    name: str = "a",
    cluster: str = "C",
    broker_id: int = 0,
    version: int = 1,
    filters: list[str] | None = None,
    connection: object = "connection",
    now_ms: int = 0,
) -> Registered:
    request = RegisterBrokerRequest(
        broker_name=name,
        broker_addr=addr,
        cluster_name=cluster,
        ha_server_addr=f"ha-of-{addr}",
        broker_id=broker_id,
    )
    configs = {t.topic_name: t for t in topics}
    return table.register(
        request, DataVersion(counter=version), filters, lambda: configs, connection, now_ms
    )


def broker(addr: str = A, name: str = "a", cluster: str = "C", broker_id: int = 0) -> BrokerRequest:
    return BrokerRequest(
        broker_name=name, broker_addr=addr, cluster_name=cluster, broker_id=broker_id
    )


def route(table: RouteTable, name: str) -> TopicRouteData:
    found = table.route(name)
    assert found is not None
    return found


def test_a_topic_is_where_its_brokers_are() -> None:
    table = RouteTable()
    assert register(table, topic("T"), topic("U", queues=8, perm=4, flags=1)) == Registered(True, 2)
    register(table, topic("T", queues=2), addr=B, name="b", filters=["10.0.0.9:1"])
    found = route(table, "T")
    assert found.queue_datas == [
        QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6),
        QueueData(broker_name="b", read_queue_nums=2, write_queue_nums=2, perm=6),
    ]
    assert [(b.cluster, b.broker_name, b.broker_addrs) for b in found.broker_datas] == [
        ("C", "a", {0: A}),
        ("C", "b", {0: B}),
    ]
    assert found.filter_server_table == {B: ["10.0.0.9:1"]}
    assert route(table, "U").queue_datas == [
        QueueData(broker_name="a", read_queue_nums=8, write_queue_nums=8, perm=4, topic_sys_flag=1)
    ]
    assert table.route("V") is None


def test_the_two_encodings() -> None:
    table = RouteTable()
    register(table, topic("T/ü"))
    register(table, addr=SLAVE, broker_id=1)
    legacy = table.encoded_route("T/ü", standard=False, order_conf="a:4/")
    standard = table.encoded_route("T/ü", standard=True, order_conf="a:4/")
    rest = (
        b'"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSysFlag":0,'
        b'"writeQueueNums":4}]}'
    )
    assert legacy == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.3:10911"},'
        b'"brokerName":"a","cluster":"C"}],'
        b'"filterServerTable":{},"orderTopicConf":"a:4/",' + rest
    )
    assert standard == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.3:10911"},'
        b'"brokerName":"a","cluster":"C"}],'
        b'"filterServerTable":{},"orderTopicConf":"a:4\\/",' + rest
    )
    assert table.encoded_route("nowhere", standard=True) is None


def test_a_known_data_version_spares_reading_the_topics() -> None:
    table = RouteTable()
    register(table, topic("T", queues=4))
    assert register(table, topic("T", queues=8)) == Registered(False, 0)
    assert route(table, "T").queue_datas[0].read_queue_nums == 4
    assert register(table, topic("T", queues=8), version=2) == Registered(False, 1)
    assert route(table, "T").queue_datas[0].read_queue_nums == 8


def test_a_registration_that_may_not_be_all_removes_no_topic() -> None:
    table = RouteTable()
    register(table, topic("T"), topic("U"))
    register(table, topic("U"), version=2)
    assert at_once(table.topics()) == ["T", "U"]


def test_a_slave_has_no_topics_and_learns_its_master() -> None:
    table = RouteTable()
    assert register(table, topic("T"), addr=SLAVE, broker_id=1) == Registered(True, 0)
    assert at_once(table.topics()) == []
    register(table, topic("T"))
    assert register(table, topic("U"), addr=SLAVE, broker_id=1, version=2) == Registered(
        False, 0, A, f"ha-of-{A}"
    )
    assert route(table, "T").broker_datas[0].broker_addrs == {0: A, 1: SLAVE}
    table.unregister(broker())
    assert register(table, addr=SLAVE, broker_id=1, version=2) == Registered(False, 0)


def test_a_slave_that_becomes_master_loses_its_old_id() -> None:
    table = RouteTable()
    register(table, topic("T"))
    register(table, addr=SLAVE, broker_id=1)
    assert register(table, topic("T"), addr=SLAVE, broker_id=0) == Registered(False, 0)
    assert route(table, "T").broker_datas[0].broker_addrs == {0: SLAVE}


def test_a_second_broker_of_one_name_and_id_is_noticed_when_both_have_come_back() -> None:
    table = RouteTable()
    rivals = [
        register(table, topic("T"), addr=addr, connection=addr).rival
        for addr in (A, SLAVE, SLAVE, A, A, SLAVE, SLAVE, A)
    ]
    assert rivals == [None, None, None, None, None, A, None, SLAVE]
    table.disconnect(SLAVE)
    assert register(table, topic("T"), addr=SLAVE, connection=SLAVE).rival is None


def test_brokers_that_change_their_roles_or_leave_are_no_rivals() -> None:
    table = RouteTable()
    steps = [(A, 0), (SLAVE, 1), (SLAVE, 0), (A, 2), (A, 0), (SLAVE, 1), (SLAVE, 0)]
    for addr, broker_id in steps:
        assert register(table, topic("T"), addr=addr, broker_id=broker_id).rival is None
    table.unregister(broker(addr=SLAVE))
    for _ in range(2):
        assert register(table, topic("T"), addr=A).rival is None


def test_leadership_that_swings_back_before_its_loser_has_said_so_makes_no_rivals() -> None:
    """Again and again: the next leader has followed, as far as this table knows, in between."""
    table = RouteTable()
    for _ in range(3):
        for addr, broker_id in ((A, 0), (SLAVE, 0), (A, 0), (SLAVE, 1)):
            assert register(table, topic("T"), addr=addr, broker_id=broker_id).rival is None


def test_filter_servers_stay_are_removed_or_replaced() -> None:
    table = RouteTable()
    register(table, topic("T"), filters=["x"])
    register(table, filters=None)
    assert route(table, "T").filter_server_table == {A: ["x"]}
    register(table, filters=["y"])
    assert route(table, "T").filter_server_table == {A: ["y"]}
    register(table, filters=[])
    assert route(table, "T").filter_server_table == {}


def test_a_topic_body_that_cannot_be_read_changes_nothing() -> None:
    def unreadable() -> dict[str, TopicConfig]:
        raise ValueError("bad body")

    table = RouteTable()
    request = RegisterBrokerRequest(
        broker_name="a", broker_addr=A, cluster_name="C", ha_server_addr="", broker_id=0
    )
    with pytest.raises(ValueError, match="bad body"):
        table.register(request, DataVersion(), [], unreadable, "connection", 0)
    assert not table.cluster_info().broker_addr_table
    assert not table.cluster_info().cluster_addr_table
    assert not table._live


def test_unregistering_the_last_address_takes_the_topics_along() -> None:
    table = RouteTable()
    register(table, topic("T"), topic("U"))
    register(table, topic("U"), addr=B, name="b")
    register(table, addr=SLAVE, broker_id=1)
    assert table.unregister(broker())
    assert route(table, "T").broker_datas[0].broker_addrs == {1: SLAVE}
    assert table.unregister(broker(SLAVE, broker_id=1))
    assert at_once(table.topics()) == ["U"]
    assert table.cluster_info().cluster_addr_table == {"C": ("b",)}
    assert not table.unregister(broker(SLAVE, broker_id=1))


def test_a_master_that_was_replaced_takes_nobody_along_when_it_leaves() -> None:
    table = RouteTable()
    register(table, topic("T"))
    register(table, topic("T"), addr=B)
    assert table.unregister(broker(A))
    assert route(table, "T").broker_datas[0].broker_addrs == {0: B}
    assert list(table._live) == [B]


def test_who_leaves_goes_whatever_id_it_had_registered_with() -> None:
    """It may have been about to tell that it is the master now."""
    table = RouteTable()
    register(table, topic("T"))
    register(table, addr=SLAVE, broker_id=1)
    assert table.unregister(broker(SLAVE))
    assert route(table, "T").broker_datas[0].broker_addrs == {0: A}
    assert list(table._live) == [A]


@pytest.mark.parametrize("ends_first", ["first", "second"])
def test_a_broker_stays_while_one_of_the_connections_that_registered_it_does(
    ends_first: str,
) -> None:
    """Also where what the older one sent came last: that of a process that was killed."""
    table = RouteTable()
    register(table, topic("T"), connection="first")
    register(table, topic("T"), connection="second")
    assert table.disconnect(ends_first) == []
    assert table.route("T") is not None
    (other,) = {"first", "second"} - {ends_first}
    assert [r.address for r in table.disconnect(other)] == [A]
    assert table.route("T") is None
    assert table.cluster_info().cluster_addr_table == {}
    assert table.disconnect("second") == []


def test_a_connection_takes_all_its_brokers_along_and_all_names_of_an_address() -> None:
    table = RouteTable()
    register(table, topic("T"), connection="both")
    register(table, topic("T"), addr=B, name="b", connection="both")
    register(table, topic("U"), addr=B, name="renamed", connection="both", version=2)
    assert {r.address for r in table.disconnect("both")} == {A, B}
    assert at_once(table.topics()) == []
    assert table.cluster_info().broker_addr_table == {}


def test_a_broker_whose_address_is_anothers_is_gone() -> None:
    """It lost power, say, and its connection hangs: what is written to its queues would be written
    into those of the other one."""
    table = RouteTable()
    register(table, topic("T"), name="old", connection="hangs", filters=["f"])
    done = register(table, topic("T"), name="new", connection="new", now_ms=1000)
    assert [q.broker_name for q in route(table, "T").queue_datas] == ["new"]
    assert (done.is_new, done.instead_of) == (True, "old")
    assert table.lost.table(LOST_BROKERS) == {"old": "0"}
    assert not table.unregister(broker(name="old")), "late, and no word about the other one"
    assert route(table, "T").filter_server_table == {}
    assert table.disconnect("hangs") == []
    assert table.unregister(broker(name="new"))
    assert table.cluster_info().broker_addr_table == {}
    assert table.cluster_info().cluster_addr_table == {}


def test_a_broker_that_takes_an_address_over_tells_its_topics_whatever_its_version_is() -> None:
    """A renamed broker has the version that it had."""
    table = RouteTable()
    register(table, addr=B, name="new")
    register(table, topic("T"), name="old")
    assert table.query_data_version(broker(name="new"), DataVersion(counter=1), 0) == (True, None)
    assert register(table, topic("T"), name="new").topics_taken == 1
    assert [q.broker_name for q in route(table, "T").queue_datas] == ["new"]


def test_a_broker_expires_after_120_seconds_of_silence() -> None:
    table = RouteTable()
    register(table, topic("T"), now_ms=1000, connection="it")
    register(table, topic("T"), addr=B, name="b", now_ms=2000)
    assert table.expire(1000 + BROKER_EXPIRED_MS) == []
    assert table.expire(1001 + BROKER_EXPIRED_MS) == [(A, ("it",))]
    assert [q.broker_name for q in route(table, "T").queue_datas] == ["b"]


def test_an_unchanged_data_version_is_a_sign_of_life_but_no_claim() -> None:
    table = RouteTable()
    assert table.query_data_version(broker(), DataVersion(counter=1), 0) == (True, None)
    register(table, topic("T"), connection="owner")
    assert table.query_data_version(broker(), DataVersion(counter=1), 100_000) == (
        False,
        DataVersion(counter=1),
    )
    assert table.query_data_version(broker(), DataVersion(counter=2), 200_000) == (
        True,
        DataVersion(counter=1),
    )
    assert table.expire(100_000 + BROKER_EXPIRED_MS) == []
    assert len(table.expire(100_001 + BROKER_EXPIRED_MS)) == 1


def test_write_permission_goes_and_comes() -> None:
    table = RouteTable()
    register(table, topic("T", perm=7), topic("R", perm=4))
    register(table, topic("T"), addr=B, name="b")
    assert at_once(table.wipe_write_perm("a")) == 2
    assert [q.perm for q in route(table, "T").queue_datas] == [5, 6]
    assert at_once(table.add_write_perm("a")) == 2
    assert route(table, "T").queue_datas[0].perm == 6
    assert route(table, "R").queue_datas[0].perm == 6
    assert at_once(table.wipe_write_perm("nobody")) == at_once(table.add_write_perm("nobody")) == 0


def test_wiped_permission_lasts_until_a_changed_registration() -> None:
    table = RouteTable()
    register(table, topic("T"))
    at_once(table.wipe_write_perm("a"))
    register(table, topic("T"))
    assert route(table, "T").queue_datas[0].perm == 4
    register(table, topic("T"), version=2)
    assert route(table, "T").queue_datas[0].perm == 6


def test_deleting_a_topic_everywhere_or_in_a_cluster() -> None:
    table = RouteTable()
    for cluster, name, addr in (("C", "a", A), ("D", "b", B)):
        register(table, topic("T"), topic("U"), cluster=cluster, name=name, addr=addr)
    table.delete_topic("T", "C")
    assert [q.broker_name for q in route(table, "T").queue_datas] == ["b"]
    table.delete_topic("T", "nowhere")
    table.delete_topic("T", "D")
    assert at_once(table.topics()) == ["U"]
    table.delete_topic("U", "")
    table.delete_topic("U")
    assert at_once(table.topics()) == []


def test_lists_of_topics() -> None:
    table = RouteTable()
    register(
        table, topic("plain"), topic("unit", flags=1), topic("sub", flags=2), topic("both", flags=3)
    )
    register(table, topic("plain"), topic("other"), addr=B, name="b", cluster="D")
    assert at_once(table.topics_of_cluster("C")) == ["plain", "unit", "sub", "both"]
    assert at_once(table.topics_of_cluster("D")) == ["plain", "other"]
    assert at_once(table.topics_of_cluster("?")) == []
    assert at_once(table.topics_with_flags(unit=True)) == ["unit", "both"]
    assert at_once(table.topics_with_flags(unit_sub=True)) == ["sub", "both"]
    assert at_once(table.topics_with_flags(unit=False, unit_sub=True)) == ["sub"]
    system = table.system_topics()
    assert system.topic_list == ("C", "a", "D", "b")
    assert system.broker_addr == A
    assert RouteTable().system_topics().broker_addr is None


def test_cluster_info() -> None:
    table = RouteTable()
    register(table)
    assert encode_body(table.cluster_info()) == (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"a","cluster":"C"}},'
        b'"clusterAddrTable":{"C":["a"]}}'
    )


# --- any sequence, against a model that has nothing but flat facts and does everything by looking
# at all of them ---------

NAMES, CLUSTERS, TOPICS = ["a", "b", "c"], ["C", "D"], ["T", "U", "V"]
ADDRESSES, CONNECTIONS = [A, B, SLAVE], ["x", "y"]
TOPIC_CONFIGS = st.builds(
    topic, st.sampled_from(TOPICS), st.integers(1, 3), st.sampled_from([2, 4, 6]), st.integers(0, 3)
)
BROKERS = st.builds(
    broker,
    st.sampled_from(ADDRESSES),
    st.sampled_from(NAMES),
    st.sampled_from(CLUSTERS),
    st.integers(0, 2),
)


class RouteTableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.now = 0
        self.address: dict[tuple[str, int], str] = {}
        self.first_cluster: dict[str, str] = {}
        self.members: set[tuple[str, str]] = set()
        self.queues: dict[tuple[str, str], QueueData] = {}
        self.live: dict[str, list[Any]] = {}
        self.filters: dict[str, list[str]] = {}

    @rule(
        who=BROKERS,
        configs=st.lists(TOPIC_CONFIGS, max_size=3),
        version=st.integers(0, 2),
        filters=st.sampled_from([None, [], ["f"], ["f", "g"]]),
        connection=st.sampled_from(CONNECTIONS),
    )
    def register(
        self,
        who: BrokerRequest,
        configs: list[TopicConfig],
        version: int,
        filters: list[str] | None,
        connection: str,
    ) -> None:
        name, broker_id, addr = who.broker_name, who.broker_id, who.broker_addr
        is_new = (name, broker_id) not in self.address
        if addr in self.live and self.live[addr][3] != name:
            self._remove({addr})
        is_changed = addr not in self.live or self.live[addr][1] != version
        self.members.add((who.cluster_name, name))
        self.first_cluster.setdefault(name, who.cluster_name)
        self.address = {key: a for key, a in self.address.items() if key[0] != name or a != addr}
        self.address[name, broker_id] = addr
        if broker_id == 0 and (is_new or is_changed):
            for config in configs:
                self.queues[config.topic_name, name] = QueueData(
                    broker_name=name,
                    read_queue_nums=config.read_queue_nums,
                    write_queue_nums=config.write_queue_nums,
                    perm=config.perm,
                    topic_sys_flag=config.topic_sys_flag,
                )
        before = self.live[addr][2] if addr in self.live else set()
        self.live[addr] = [self.now, version, before | {connection}, name]
        if filters is not None:
            self.filters[addr] = filters
        master = self.address.get((name, 0))
        has_master = broker_id != 0 and master in self.live
        done = register(
            self.table,
            *configs,
            addr=addr,
            name=name,
            cluster=who.cluster_name,
            broker_id=broker_id,
            version=version,
            filters=filters,
            connection=connection,
            now_ms=self.now,
        )
        assert done.is_new == is_new
        assert done.master_addr == (master if has_master else None)

    @rule(who=BROKERS)
    def unregister(self, who: BrokerRequest) -> None:
        live = self.live.get(who.broker_addr)
        is_live = live is not None and live[3] == who.broker_name
        if is_live:
            self._remove({who.broker_addr})
        assert self.table.unregister(who) == is_live

    @rule(connection=st.sampled_from(CONNECTIONS))
    def disconnect(self, connection: str) -> None:
        gone = {addr for addr, live in self.live.items() if live[2] == {connection}}
        for live in self.live.values():
            live[2].discard(connection)
        self._remove(gone)
        assert {removed.address for removed in self.table.disconnect(connection)} == gone

    @rule(passed_ms=st.integers(0, BROKER_EXPIRED_MS))
    def expire(self, passed_ms: int) -> None:
        self.now += passed_ms
        gone = {addr for addr, live in self.live.items() if self.now - live[0] > BROKER_EXPIRED_MS}
        self._remove(gone)
        assert {removed.address for removed in self.table.expire(self.now)} == gone

    @rule(who=BROKERS, version=st.integers(0, 2))
    def query(self, who: BrokerRequest, version: int) -> None:
        live = self.live.get(who.broker_addr)
        if live is not None and live[3] != who.broker_name:
            live = None
        changed = live is None or live[1] != version
        if live is not None and not changed:
            live[0] = self.now
        assert (
            self.table.query_data_version(who, DataVersion(counter=version), self.now)[0] == changed
        )

    @rule(name=st.sampled_from(NAMES), add=st.booleans())
    def change_perm(self, name: str, add: bool) -> None:
        touched = [key for key in self.queues if key[1] == name]
        for key in touched:
            old = self.queues[key]
            self.queues[key] = QueueData(
                broker_name=name,
                read_queue_nums=old.read_queue_nums,
                write_queue_nums=old.write_queue_nums,
                perm=6 if add else old.perm & ~2,
                topic_sys_flag=old.topic_sys_flag,
            )
        change = self.table.add_write_perm if add else self.table.wipe_write_perm
        assert at_once(change(name)) == len(touched)

    @rule(name=st.sampled_from(TOPICS), cluster=st.sampled_from([None, "", *CLUSTERS]))
    def delete_topic(self, name: str, cluster: str | None) -> None:
        self.queues = {
            (t, b): q
            for (t, b), q in self.queues.items()
            if t != name or (cluster and (cluster, b) not in self.members)
        }
        self.table.delete_topic(name, cluster)

    @rule()
    def tidy_up(self) -> None:
        at_once(self.table.tidy_up())
        assert {(t, b) for t, names in self.table._holders.items() for b in names} == set(
            self.queues
        )

    @rule()
    def begin_to_tidy_up(self) -> None:
        next(self.table.tidy_up(), None)

    def _remove(self, addresses: set[str]) -> None:
        for addr in addresses:
            del self.live[addr]
            self.filters.pop(addr, None)
        self.address = {key: a for key, a in self.address.items() if a not in addresses}
        self._sweep()

    def _sweep(self) -> None:
        alive = {name for name, _ in self.address}
        self.members = {m for m in self.members if m[1] in alive}
        self.first_cluster = {n: c for n, c in self.first_cluster.items() if n in alive}
        self.queues = {key: q for key, q in self.queues.items() if key[1] in alive}

    @invariant()
    def routes_are_those_of_the_model(self) -> None:
        for name in TOPICS:
            wanted = {b: q for (t, b), q in self.queues.items() if t == name}
            found = self.table.route(name)
            legacy = self.table.encoded_route(name, standard=False)
            standard = self.table.encoded_route(name, standard=True)
            if found is None:
                assert (wanted, legacy, standard) == ({}, None, None)
                continue
            assert {q.broker_name: q for q in found.queue_datas} == wanted
            assert {b.broker_name: (b.cluster, b.broker_addrs) for b in found.broker_datas} == {
                b: (self.first_cluster[b], self._addresses(b)) for b in wanted
            }
            assert found.filter_server_table == {
                a: self.filters[a]
                for b in wanted
                for a in self._addresses(b).values()
                if self.filters.get(a)
            }
            assert legacy == encode_body(found), "the kept answer is out of date"
            assert standard == fastjson_writer.dumps_browser_compatible(found), (
                "the kept answer is out of date"
            )

    @invariant()
    def tables_are_those_of_the_model(self) -> None:
        info = self.table.cluster_info()
        assert {
            (c, b) for c, names in info.cluster_addr_table.items() for b in names
        } == self.members
        assert {b: d.broker_addrs for b, d in info.broker_addr_table.items()} == {
            b: self._addresses(b) for b, _ in self.address
        }
        assert set(at_once(self.table.topics())) == {t for t, _ in self.queues}
        assert set(self.table._live) == set(self.live)
        for cluster in CLUSTERS:
            wanted = {t for t, b in self.queues if (cluster, b) in self.members}
            assert set(at_once(self.table.topics_of_cluster(cluster))) == wanted

    def _addresses(self, name: str) -> dict[int, str]:
        return {broker_id: a for (n, broker_id), a in self.address.items() if n == name}


RouteTableMachine.TestCase.settings = settings(
    deadline=None, max_examples=150, stateful_step_count=30
)
TestAnySequence = RouteTableMachine.TestCase
