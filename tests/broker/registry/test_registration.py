"""Registration: what is sent, when it has to be sent, and the address list. The service is in
tests/scenario."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.registry.registration import (
    Identity,
    in_parts,
    is_outdated,
    name_server_addresses,
    period_s,
    registration,
    retry_s,
)
from aiorocketmq.namesrv.route_table import RouteTable
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.registration import (
    RegisterBrokerBody,
    body_crc32,
    unpack_registration,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.remoting.slices import at_once

from ...golden_files import golden_lines

WHO = Identity("broker-g", "127.0.0.1:27811", "DefaultCluster", 0, "127.0.0.1:27812")
TABLE = TopicConfigTable(
    topic_config_table={
        "T": TopicConfig(
            topic_name="T",
            read_queue_nums=4,
            write_queue_nums=3,
            perm=7,
            order=True,
            topic_sys_flag=1,
        ),
        "U": TopicConfig(topic_name="U", perm=4),
    },
    data_version=DataVersion(counter=5, timestamp=6),
)


def test_everything_is_sent_as_json() -> None:
    sent = registration(WHO, TABLE, broker_permission=6, compressed=False)
    assert decode_body(RegisterBrokerBody, sent.body) == RegisterBrokerBody(
        topic_config_table=TABLE
    )
    assert to_fields(sent.header) == {
        "brokerName": "broker-g",
        "brokerAddr": "127.0.0.1:27811",
        "clusterName": "DefaultCluster",
        "haServerAddr": "127.0.0.1:27812",
        "brokerId": "0",
        "compressed": "false",
        "bodyCrc32": str(body_crc32(sent.body)),
    }


def test_packed_is_only_what_the_packed_form_has_room_for() -> None:
    """It would lose the flags of T, and that its messages are in order."""
    sent = registration(WHO, TABLE, broker_permission=6, compressed=True)
    assert not sent.header.compressed
    assert sent == registration(WHO, TABLE, broker_permission=6, compressed=False)
    plain = TopicConfigTable(
        topic_config_table={"U": TopicConfig(topic_name="U", perm=4)},
        data_version=TABLE.data_version,
    )
    sent = registration(WHO, plain, broker_permission=6, compressed=True)
    assert sent.header.compressed
    assert sent.header.body_crc32 == body_crc32(sent.body)
    assert at_once(unpack_registration(sent.body)).topic_config_table == plain


NAMES = st.lists(st.text("abc%", min_size=1, max_size=9), unique=True, max_size=12)


def table_of(names: list[str], counter: int = 5) -> TopicConfigTable:
    topics = {name: TopicConfig(topic_name=name, perm=len(name)) for name in names}
    return TopicConfigTable(
        topic_config_table=topics, data_version=DataVersion(counter=counter, timestamp=6)
    )


@given(NAMES, st.integers(1, 2_000))
def test_parts_are_the_whole(names: list[str], part_bytes: int) -> None:
    table = table_of(names)
    parts = in_parts(table, part_bytes)
    together = [each for part in parts for each in part.topic_config_table.items()]
    assert together == list(table.topic_config_table.items())
    assert parts[-1].data_version == table.data_version
    versions = [part.data_version for part in parts]
    assert len(set(versions)) == len(versions)
    assert all(version.counter < -1 for version in versions[:-1])
    for part in parts:
        size = len(encode_body(part.topic_config_table))
        assert size <= part_bytes + 2 or len(part.topic_config_table) == 1


@given(NAMES, NAMES, st.integers(1, 600), st.integers(0, 12))
@example(["a", "b"], ["c", "d"], 1, 1)
def test_a_name_server_puts_parts_together_whatever_it_knew(
    before: list[str], names: list[str], part_bytes: int, done: int
) -> None:
    """An earlier table of the same millisecond came through to a part."""
    routes, request = (
        RouteTable(),
        registration(WHO, TABLE, broker_permission=6, compressed=False).header,
    )
    for part in (
        *in_parts(table_of(before, 4), part_bytes)[:done],
        *in_parts(table_of(names), part_bytes),
    ):
        topics = partial(getattr, part, "topic_config_table")
        routes.register(request, part.data_version, [], topics, None, 0)
    assert set(names) <= set(at_once(routes.topics()))
    for name in names:
        route = routes.route(name)
        assert route is not None
        assert [queue.perm for queue in route.queue_datas] == [len(name)]
    assert not routes.is_changed(WHO.request(), table_of(names).data_version)


@pytest.mark.parametrize(("whole", "said"), [(True, "true"), (False, None)])
def test_a_broker_says_that_this_is_all_that_it_has(whole: bool, said: str | None) -> None:
    sent = registration(WHO, TABLE, broker_permission=4, compressed=False, whole=whole)
    assert to_fields(sent.header).get("wholeTable") == said


@pytest.mark.parametrize(
    ("permission", "expected"), [(6, [7, 4]), (7, [7, 4]), (4, [4, 4]), (2, [2, 2]), (0, [0, 0])]
)
def test_a_broker_that_may_not_be_read_and_written_limits_its_topics(
    permission: int, expected: list[int]
) -> None:
    sent = registration(WHO, TABLE, broker_permission=permission, compressed=False)
    topics = decode_body(RegisterBrokerBody, sent.body).topic_config_table.topic_config_table
    assert [topic.perm for topic in topics.values()] == expected
    assert [topic.perm for topic in TABLE.topic_config_table.values()] == [7, 4]


def test_the_body_is_that_of_the_original() -> None:
    """A captured registration, read and sent again."""
    frames = golden_lines("json-wire")
    frame = next(
        f for f in frames if f["code"] == 103 and f["kind"] == "req" and f["initiator"] == "broker"
    )
    body = bytes.fromhex(frame["hex"])[-frame["bodyLen"] :]
    fields = frame["header"]["extFields"]
    table = decode_body(RegisterBrokerBody, body).topic_config_table
    sent = registration(WHO, table, broker_permission=6, compressed=False)
    assert decode_body(RegisterBrokerBody, sent.body) == decode_body(RegisterBrokerBody, body)
    assert {
        name: value for name, value in to_fields(sent.header).items() if name != "bodyCrc32"
    } == {name: value for name, value in fields.items() if name != "bodyCrc32"}
    assert sent.body == body
    assert to_fields(sent.header)["bodyCrc32"] == fields["bodyCrc32"]


MINE, OTHER = DataVersion(counter=1, timestamp=2), DataVersion(counter=2, timestamp=2)


@pytest.mark.parametrize(
    ("changed", "theirs", "outdated"),
    [
        (False, MINE, False),
        (False, None, False),
        (False, OTHER, True),
        (True, MINE, True),
        (True, None, True),
    ],
)
def test_when_a_name_server_has_to_be_told(
    changed: bool, theirs: DataVersion | None, outdated: bool
) -> None:
    assert is_outdated(MINE, changed, theirs) is outdated


@pytest.mark.parametrize(
    ("configured", "seconds"), [(30_000, 30), (1, 10), (10_000, 10), (90_000, 60), (-5, 10)]
)
def test_the_period_is_kept_in_its_limits(configured: int, seconds: float) -> None:
    assert period_s(BrokerConfig(register_name_server_period=configured)) == seconds


@given(st.integers(1, 10_000))
def test_retries_get_slower_up_to_five_seconds(failures: int) -> None:
    """Seed 14050163: of a name server that came back after 18 s the next attempt was made 13 s
    later, up to then it knew none of the broker's topics."""
    assert retry_s(1) == 1.0
    assert 1.0 <= retry_s(failures) <= retry_s(failures + 1) <= 5.0


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        (None, []),
        ("", []),
        (";", []),
        ("a:1", ["a:1"]),
        ("a:1;b:2", ["a:1", "b:2"]),
        (" a:1 ;; a:1;b:2;", ["a:1", "b:2"]),
    ],
)
def test_addresses(text: str | None, addresses: list[str]) -> None:
    assert name_server_addresses(text) == addresses
