"""Every form of the body of a registration says the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.namesrv.registration_body import CrcError, RegistrationBody, read_registration
from aiorocketmq.remoting.protocol.bodies.codec import BodyError, encode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody, body_crc32, pack_registration
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion, TopicConfig, TopicConfigTable
from aiorocketmq.remoting.protocol.codes import VERSION
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerRequest
from aiorocketmq.remoting.slices import at_once

TOPICS = {"T": TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=4, perm=6)}
TABLE = TopicConfigTable(topic_config_table=TOPICS, data_version=DataVersion(counter=7, timestamp=8))
BODY = RegisterBrokerBody(topic_config_table=TABLE, filter_server_list=["f"])


def request(*, compressed: bool = False, crc: int = 0) -> RegisterBrokerRequest:
    return RegisterBrokerRequest(
        broker_name="a",
        broker_addr="10.0.0.1:10911",
        cluster_name="C",
        ha_server_addr="10.0.0.1:10912",
        broker_id=0,
        compressed=compressed,
        body_crc32=crc,
    )


def read(body: bytes, *, version: int = VERSION, compressed: bool = False, crc: int = 0) -> RegistrationBody:
    return at_once(read_registration(request(compressed=compressed, crc=crc), version, memoryview(body)))


def all_of(body: RegistrationBody) -> tuple[object, ...]:
    return body.data_version, body.filter_servers, body.topics()


@pytest.mark.parametrize("version", [37, VERSION, 479])
def test_plain_and_packed(version: int) -> None:
    wanted = (DataVersion(counter=7, timestamp=8), ["f"], TOPICS)
    assert all_of(read(encode_body(BODY), version=version)) == wanted
    assert all_of(read(pack_registration(BODY), version=version, compressed=True)) == wanted


def test_brokers_before_3_0_11_send_the_table_alone() -> None:
    assert all_of(read(encode_body(TABLE), version=36)) == (DataVersion(counter=7, timestamp=8), None, TOPICS)


def test_no_body_is_no_topics() -> None:
    assert all_of(read(b"")) == (DataVersion(), [], {})


def test_a_body_of_5_x_and_what_fastjson_tolerates() -> None:
    text = (
        b"{filterServerList:[],'topicConfigSerializeWrapper':{'dataVersion':{'counter':1,'stateVersion':3,'timestamp':2},"
        b"'mappingDataVersion':{},'topicConfigTable':{'T':{'attributes':{},'perm':'6','readQueueNums':3,'topicName':'T',"
        b"'writeQueueNums':4}},'topicQueueMappingInfoMap':{}},}"
    )
    version = DataVersion(counter=1, timestamp=2, state_version=3)
    assert all_of(read(text)) == (version, [], TOPICS)
    assert all_of(read(text.replace(b"filterServerList", b'"filterServerList"').replace(b"'", b'"'))) == (
        version,
        [],
        TOPICS,
    )


def test_the_crc_is_31_bits_of_what_was_sent() -> None:
    body = next(b for i in range(100) if (b := encode_body([i])) and body_crc32(b) != 0)
    with pytest.raises(CrcError, match="crc32 not match"):
        read(body, crc=body_crc32(body) ^ 1)
    packed = pack_registration(BODY)
    assert read(packed, compressed=True, crc=body_crc32(packed)).topics() == TOPICS


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"topicConfigSerializeWrapper":[]}', b"\xff", b"[" * 100_000])
def test_a_broken_body_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        all_of(read(body))
    with pytest.raises(BodyError):
        read(body, compressed=True)


def test_broken_topics_are_found_when_they_are_read() -> None:
    body = encode_body(BODY).replace(b'"perm":6', b'"perm":{}')
    registration = read(body)
    assert registration.data_version.counter == 7
    with pytest.raises(BodyError, match="perm"):
        registration.topics()


versions = st.builds(DataVersion, counter=st.integers(0, 2**63 - 1), timestamp=st.integers(0, 2**63 - 1))
configs = st.builds(
    TopicConfig,
    topic_name=st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1),
    read_queue_nums=st.integers(0, 1024),
    write_queue_nums=st.integers(0, 1024),
    perm=st.integers(0, 7),
)


@given(versions, st.lists(configs, max_size=4), st.lists(st.text(st.characters(codec="utf-8")), max_size=2))
def test_any_registration_in_both_forms(version: DataVersion, topics: list[TopicConfig], filters: list[str]) -> None:
    table = {topic.topic_name: topic for topic in topics}
    body = RegisterBrokerBody(
        topic_config_table=TopicConfigTable(topic_config_table=table, data_version=version), filter_server_list=filters
    )
    assert all_of(read(encode_body(body))) == (version, filters, table)
    assert all_of(read(pack_registration(body), compressed=True)) == (version, filters, table)
