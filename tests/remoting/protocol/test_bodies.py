"""Typed bodies: every one survives its three written forms, and bad ones are refused with the
place."""

from __future__ import annotations

import importlib
import pkgutil
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol import bodies
from aiorocketmq.remoting.protocol.bodies.codec import (
    MAX_LONG_WAY_BYTES,
    BodyError,
    decode_body,
    decode_request_body,
    encode_body,
)
from aiorocketmq.remoting.protocol.bodies.connection import ConsumerConnection, ProducerConnection
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
)
from aiorocketmq.remoting.protocol.bodies.direct import queues_decoder
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.bodies.lists import TopicList
from aiorocketmq.remoting.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody
from aiorocketmq.remoting.protocol.bodies.registration import (
    RegisterBrokerBody,
    body_crc32,
    pack_registration,
    unpack_registration,
)
from aiorocketmq.remoting.protocol.bodies.reset import ResetOffsetBody, ResetOffsetBodyForC
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, TopicRouteData
from aiorocketmq.remoting.protocol.bodies.running_info import ConsumerRunningInfo
from aiorocketmq.remoting.protocol.bodies.stats import (
    BrokerStatsData,
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
)
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
    TopicFilterType,
)
from aiorocketmq.remoting.protocol.codes import LanguageCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.fastjson import writer as fastjson_writer
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.slices import at_once

from ...strategies import records


def _all_bodies() -> list[type[Record]]:
    """Every Record that a module of bodies/ declares, so that a new one is tested without being
    named here. The DLedger port's have a codec of their own (``test_dledger_bodies.py``)."""
    found = set()
    for module_info in pkgutil.iter_modules(bodies.__path__):
        if module_info.name in ("dledger", "stored_entries"):
            continue
        module = importlib.import_module(f"{bodies.__name__}.{module_info.name}")
        found |= {
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Record)
            and value.__module__ == module.__name__
        }
    return sorted(found, key=lambda body: body.__name__)


BODIES = _all_bodies()


def test_the_table_names_bodies_of_this_package() -> None:
    named = {
        body for command in COMMANDS.values() for body in command[2:] if body not in (None, bytes)
    }
    assert len(named) > 20
    assert named <= set(BODIES)


@pytest.mark.parametrize("body_type", BODIES, ids=lambda body: body.__name__)
@settings(max_examples=12)
@given(data=st.data())
def test_a_body_survives_all_forms(body_type: type[Record], data: st.DataObject) -> None:
    body = data.draw(records(body_type))
    assert decode_body(body_type, encode_body(body)) == body
    assert decode_body(body_type, fastjson_writer.dumps_browser_compatible(body)) == body
    assert decode_body(body_type, fastjson_writer.dumps_pretty(body).encode()) == body


@pytest.mark.parametrize("body_type", BODIES, ids=lambda body: body.__name__)
@settings(max_examples=8)
@given(data=st.data())
def test_both_ways_of_decoding_are_one(body_type: type[Record], data: st.DataObject) -> None:
    """A comment in front sends a body the long way."""
    encoded = encode_body(data.draw(records(body_type)))
    assert decode_body(body_type, b"/**/" + encoded) == decode_body(body_type, encoded)


@given(
    st.sampled_from(BODIES),
    st.binary(max_size=60) | st.text(alphabet="{}[]:,\"'0123aTq$ref.", max_size=60).map(str.encode),
)
def test_no_bytes_do_more_than_be_refused(body_type: type[Record], data: bytes) -> None:
    try:
        decode_body(body_type, data)
    except BodyError:
        pass


# --- what may be missing or different
# -----------------------------------------------------------------------------------


def test_absent_keys_get_the_original_defaults() -> None:
    assert decode_body(SubscriptionData, b'{"topic":"T"}') == SubscriptionData(
        topic="T",
        tags_set=(),
        code_set=(),
        sub_version=0,
        expression_type="TAG",
        class_filter_mode=False,
    )
    assert decode_body(SubscriptionGroupConfig, b'{"groupName":"g"}') == SubscriptionGroupConfig(
        group_name="g", retry_max_times=16, retry_queue_nums=1, which_broker_when_consume_slowly=1
    )
    assert decode_body(HeartbeatData, b'{"clientID":"c"}') == HeartbeatData(client_id="c")
    assert decode_body(TopicConfig, b'{"topicName":"T"}').read_queue_nums == 16


def test_null_is_absent() -> None:
    assert decode_body(TopicConfig, b'{"topicName":"T","perm":null,"order":null}') == TopicConfig(
        topic_name="T"
    )
    assert decode_body(KVTable, b'{"table":{"a":null,"b":"x"}}') == KVTable(table={"b": "x"})


def test_keys_of_5x_are_ignored() -> None:
    body = b'{"dataVersion":{"counter":1},"offsetTable":{"T@g":{0:5}},"groupAttributes":{"x":[1]}}'
    assert decode_body(ConsumerOffsetTable, body) == ConsumerOffsetTable(
        offset_table={"T@g": {0: 5}}
    )
    topic = b'{"attributes":{"+k":"v"},"topicName":"T","perm":4}'
    assert decode_body(TopicConfig, topic) == TopicConfig(topic_name="T", perm=4)


def test_state_version_is_kept() -> None:
    version = decode_body(DataVersion, b'{"counter":1,"stateVersion":7,"timestamp":2}')
    assert version.state_version == 7
    assert encode_body(version.next(9)) == b'{"counter":2,"stateVersion":7,"timestamp":9}'
    assert encode_body(DataVersion(counter=1, timestamp=2)) == b'{"counter":1,"timestamp":2}'


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{1:7,3:9}}',
        b'{"offsetTable":{"1":7,"3":"9"}}',
        b"{'offsetTable':{1:7,3:9.0,},}",
    ],
)
def test_numeric_keys_quoted_or_not(body: bytes) -> None:
    assert decode_body(DelayOffsetTable, body) == DelayOffsetTable(offset_table={1: 7, 3: 9})


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:5}}',
        b'{"offsetTable":{{topic:"T",queueId:"3",brokerName:"b",more:1}:5}}',
        b'{"offsetTable":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":3,\\"topic\\":\\"T\\"}":5}}',
    ],
)
def test_queues_as_keys(body: bytes) -> None:
    assert decode_body(ResetOffsetBody, body) == ResetOffsetBody(
        offset_table={MessageQueue("T", "b", 3): 5}
    )


KEY = b'{"brokerName":"b","queueId":3,"topic":"T"}'


def test_queues_as_keys_go_straight_through_msgspec() -> None:
    """As fastjson writes them; else a page of lags takes a console longer than its whole rest."""
    decode = queues_decoder(ConsumeStatsList)
    assert decode is not None
    stats = ConsumeStats(offset_table={MessageQueue("T", "b", 3): OffsetWrapper(broker_offset=7)})
    found = decode(
        b'{"brokerAddr":null,"consumeStatsList":[{"g":[{"offsetTable":{%b:{"brokerOffset":7}}}]},'
        b'{"idle":[]}]}' % KEY
    )
    assert found == ConsumeStatsList(consume_stats_list=[{"g": [stats]}, {"idle": []}])


def test_a_number_names_no_queue() -> None:
    """Numbers stand for queues inside the decoder only."""
    for body in (b'{"offsetTable":{"0":5}}', b'{"offsetTable":{%b:5,"1":6}}' % KEY):
        with pytest.raises(BodyError, match="an object"):
            decode_body(ResetOffsetBody, body)


def test_text_that_looks_like_a_queue_is_text() -> None:
    text = KEY.decode() + ":"
    body = encode_body({"properties": {"x": text}, "mqTable": {}})
    assert decode_body(ConsumerRunningInfo, body).properties == {"x": text}
    stats = ConsumeStatsList(consume_stats_list=[], broker_addr=text)
    assert decode_body(ConsumeStatsList, encode_body(stats)) == stats


def test_enums_by_name_or_ordinal() -> None:
    body = (
        b'{"consumeFromWhere":4,"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":0}'
    )
    heartbeat = decode_body(HeartbeatData, b'{"clientID":"c","consumerDataSet":[' + body + b"]}")
    (consumer,) = heartbeat.consumer_data_set
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is MessageModel.BROADCASTING


def test_an_unknown_language_is_none() -> None:
    body = (
        b'{"connectionSet":[{"language":"PYTHON","version":409},{"language":"COBOL"},'
        b'{"language":3},{"language":99}]}'
    )
    languages = [
        connection.language for connection in decode_body(ProducerConnection, body).connection_set
    ]
    assert languages == [LanguageCode.PYTHON, None, LanguageCode.PYTHON, None]


def test_any_annotation_is_a_type() -> None:
    versions = {"plain_acl.yml": DataVersion(counter=1)}
    assert decode_body(dict[str, DataVersion], encode_body(versions)) == versions
    assert decode_body(list[str], b"['a',]") == ["a"]
    assert decode_body(bytes, memoryview(b"raw")) == b"raw"


def test_memoryviews_are_read() -> None:
    assert decode_body(TopicList, memoryview(b'{"topicList":["a","b"]}')) == TopicList(
        topic_list=("a", "b")
    )


def test_references_are_followed() -> None:
    body = (
        b'{"statsDay":{"avgpt":2.0,"sum":3,"tps":1.5},"statsHour":{"$ref":"$.statsDay"},'
        b'"statsMinute":{"sum":1}}'
    )
    stats = decode_body(BrokerStatsData, body)
    assert stats.stats_hour == stats.stats_day
    assert (stats.stats_hour.sum, stats.stats_minute.sum) == (3, 1)


# --- what is refused
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body_type", "body", "message"),
    [
        (TopicList, b"", "the body is missing: expected TopicList"),
        (TopicList, b'{"topicList":[', "the body is no JSON: .* at position 14"),
        (TopicList, b"[]", r"TopicList: \$ must be an object"),
        (TopicList, b'{"topicList":{}}', r"\$\.topicList must be an array, not {}"),
        (TopicList, b'{"topicList":["a",[]]}', r"\$\.topicList\[1\] must be text"),
        (TopicConfig, b'{"perm":6}', r"\$\.topicName must be there, not absent"),
        (TopicConfigTable, b'{"topicConfigTable":{"T":{"topicName":"T","perm":"x"}}}',
         r"\$\.topicConfigTable\['T'\]\.perm must be a whole number, not 'x'"),
        (TopicConfig, b'{"topicName":"T","perm":2147483648}',
        r"\$\.perm must be a number from -2147483648 to 2147483647"),
        (TopicConfig, b'{"topicName":"T","perm":1.5}', r"\$\.perm must be a whole number, not 1.5"),
        (TopicConfig, b'{"topicName":"T","order":"yes"}',
        r"\$\.order must be true or false, not 'yes'"),
        (TopicConfig, b'{"topicName":"T","topicFilterType":"X"}',
        r"Type must be one of SINGLE_TAG, MULTI_TAG"),
        (DelayOffsetTable, b'{"offsetTable":{"x":1}}',
        r"\$\.offsetTable\['x'\] must be a whole number"),
        (ResetOffsetBody, b'{"offsetTable":{"x":1}}',
        r"\$\.offsetTable\['x'\] must be an object as key"),
        (ResetOffsetBody, b'{"offsetTable":{{"topic":"T"}:1}}',
        r"\.brokerName must be text, not absent"),
        (LockBatchRequestBody, b'{"clientId":"c","consumerGroup":"g","mqSet":[[]]}',
        r"\$\.mqSet\[0\] must be an object"),
        (BrokerStatsData, b'{"statsDay":{"tps":1e999}}', r"\$\.statsDay\.tps must be a number"),
    ],
)  # fmt: skip
def test_a_bad_body_is_refused_with_its_place(body_type: Any, body: bytes, message: str) -> None:
    with pytest.raises(BodyError, match=message):
        decode_body(body_type, body)


def test_only_short_bodies_of_requests_may_need_the_long_way() -> None:
    padding = b" " * MAX_LONG_WAY_BYTES
    assert decode_request_body(DataVersion, b"{counter:3}").counter == 3
    assert decode_request_body(DataVersion, b'{"counter":3}' + padding).counter == 3
    assert decode_body(DataVersion, b"{counter:3}" + padding).counter == 3
    with pytest.raises(BodyError, match="must be standard JSON"):
        decode_request_body(DataVersion, b"{counter:3}" + padding)


def test_a_reference_and_nothing_else_is_refused() -> None:
    with pytest.raises(BodyError, match="must be an object"):
        decode_body(DataVersion, b'{"$ref":"$"}')


def test_references_cannot_blow_up() -> None:
    """Ten elements, each ten times the one before, ..: small on the wire, endless when written
    out."""
    wide = b",".join([b'{"$ref":"$.x%d"}'] * 10)
    levels = b",".join(
        b'"x%d":[' % i + wide.replace(b"%d", b"%d" % (i + 1)) + b"]" for i in range(9)
    )
    body = b'{"table":{"a":"b"},' + levels + b',"x9":["end"]}'
    with pytest.raises(BodyError, match="too large once its references are written out"):
        decode_body(KVTable, body)


@pytest.mark.parametrize("reference", ["$", "..", "@"])
def test_references_in_a_circle_are_refused(reference: str) -> None:
    with pytest.raises(BodyError, match="too large once its references"):
        decode_body(
            ConsumeStatsList, b'{"consumeStatsList":[{"g":[{"$ref":"%s"}]}]}' % reference.encode()
        )


# --- single bodies
# --------------------------------------------------------------------------------------------------


def test_names_that_are_not_camel_case() -> None:
    assert encode_body(LockBatchResponseBody(lock_ok_mq_set=(MessageQueue("T", "b", 0),))) == (
        b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    )
    assert (
        encode_body(HeartbeatData(client_id="c"))
        == b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[]}'
    )


def test_connections_are_written_with_names() -> None:
    body = (
        b'{"connectionSet":[{"clientAddr":"1.1.1.1:1","clientId":"c","language":"GO",'
        b'"version":409}],"subscriptionTable":{}}'
    )
    connection = decode_body(ConsumerConnection, body)
    assert connection.connection_set[0].language is LanguageCode.GO
    assert encode_body(connection) == body


def test_offsets_for_those_who_cannot_read_object_keys() -> None:
    body = b'{"offsetTable":[{"brokerName":"b","offset":9,"queueId":1,"topic":"T"}]}'
    assert encode_body(decode_body(ResetOffsetBodyForC, body)) == body


def test_master_of_a_broker() -> None:
    assert (
        BrokerData(broker_name="b", broker_addrs={1: "slave", 0: "master"}).master_addr == "master"
    )
    assert BrokerData(broker_name="b", broker_addrs={1: "slave"}).master_addr is None


def test_how_far_a_group_is_behind() -> None:
    stats = ConsumeStats(
        offset_table={
            MessageQueue("T", "b", 0): OffsetWrapper(broker_offset=9, consumer_offset=5),
            MessageQueue("T", "b", 1): OffsetWrapper(broker_offset=3, consumer_offset=3),
        }
    )
    assert stats.total_diff == 4


def test_a_route_reads_from_both_forms() -> None:
    legacy = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"C"}],'
        b'"filterServerTable":{},"queueDatas":[]}'
    )
    standard = legacy.replace(b"{0:", b'{"0":')
    route = decode_body(TopicRouteData, legacy)
    assert route == decode_body(TopicRouteData, standard)
    assert (encode_body(route), fastjson_writer.dumps_browser_compatible(route)) == (
        legacy,
        standard,
    )


# --- the packed registration
# --------------------------------------------------------------------------------------------

REGISTRATION = RegisterBrokerBody(
    topic_config_table=TopicConfigTable(
        topic_config_table={
            "T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8, perm=6),
            "%RETRY%g": TopicConfig(
                topic_name="%RETRY%g", topic_filter_type=TopicFilterType.MULTI_TAG
            ),
        },
        data_version=DataVersion(counter=3, timestamp=1700000000000),
    ),
    filter_server_list=["1.1.1.1:1"],
)
PLAIN = (
    b"\0\0\0\x27" + b'{"counter":3,"timestamp":1700000000000}' + b"\0\0\0\2"
    + b"\0\0\0\x12" + b"T 4 8 6 SINGLE_TAG" + b"\0\0\0\x1a" + b"%RETRY%g 16 16 6 MULTI_TAG"
    + b"\0\0\0\x0d" + b'["1.1.1.1:1"]'
)  # fmt: skip


def test_packed_registration() -> None:
    packed = pack_registration(REGISTRATION)
    assert packed[:2] == b"\x78\xda"
    assert zlib.decompress(packed) == PLAIN
    assert at_once(unpack_registration(packed)) == REGISTRATION
    assert at_once(unpack_registration(memoryview(packed))) == REGISTRATION


def test_packed_registration_of_5x() -> None:
    """A sixth word per topic, and queue mappings behind the filter servers."""
    plain = PLAIN.replace(b"\0\0\0\x12T 4 8 6 SINGLE_TAG", b'\0\0\0\x1aT 4 8 6 SINGLE_TAG {"a b"}')
    assert (
        at_once(unpack_registration(zlib.compress(plain + b"\0\0\0\1\0\0\0\2{}"))) == REGISTRATION
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no zlib", "no zlib stream"),
        (zlib.compress(PLAIN)[:-6], "ends too early"),
        (zlib.compress(PLAIN[:20]), "39 bytes at 4 are more than"),
        (zlib.compress(PLAIN[:44]), "ends too early"),
        (zlib.compress(PLAIN.replace(b"\0\0\0\2", b"\x7f\0\0\2")), "2130706434 topics do not fit"),
        (
            zlib.compress(PLAIN.replace(b"T 4 8 6 SINGLE_TAG", b"T 4 8 SINGLE_TAG 6")),
            "cannot read the topic 'T 4 8 SINGLE_TAG 6'",
        ),
        (
            zlib.compress(PLAIN.replace(b"T 4 8 6 SINGLE_TAG", b"T_4_8_6_SINGLE_TAG")),
            "cannot read the topic",
        ),
        (
            zlib.compress(
                PLAIN.replace(b"T 4 8 6 ", b"T 4 9999999999999999 ").replace(b"\x12T", b"\x1fT")
            ),
            "cannot read the topic",
        ),
        (zlib.compress(PLAIN.replace(b'{"counter"', b'["counter"')), "no JSON"),
        (zlib.compress(b""), "ends too early"),
    ],
)
def test_a_damaged_registration_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BodyError, match=message):
        at_once(unpack_registration(data))


def test_a_registration_cannot_blow_up() -> None:
    bomb = zlib.compress(bytes(30_000_000), 9)
    assert len(bomb) < 50_000
    tracemalloc.start()
    try:
        with pytest.raises(BodyError, match="larger than 1000000 bytes"):
            at_once(unpack_registration(bomb, max_bytes=1_000_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@given(st.binary(max_size=80))
def test_no_registration_does_more_than_be_refused(plain: bytes) -> None:
    try:
        at_once(unpack_registration(zlib.compress(plain)))
    except BodyError:
        pass


def test_checksum_has_31_bits() -> None:
    body = b"12"
    assert zlib.crc32(body) & 0x7FFFFFFF == body_crc32(body)
    assert all(body_crc32(bytes([byte])) < 2**31 for byte in range(256))
    assert any(zlib.crc32(bytes([byte])) >= 2**31 for byte in range(256))
