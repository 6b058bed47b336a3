"""Every form of the body of a registration says the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiorocketmq.namesrv import registration_body
from aiorocketmq.namesrv.registration_body import CrcError, RegistrationBody, read_registration
from aiorocketmq.remoting.protocol.bodies.codec import BodyError, decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.registration import (
    RegisterBrokerBody,
    body_crc32,
    pack_registration,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.codes import VERSION
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerRequest
from aiorocketmq.remoting.slices import at_once

TOPICS = {"T": TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=4, perm=6)}
TABLE = TopicConfigTable(
    topic_config_table=TOPICS, data_version=DataVersion(counter=7, timestamp=8)
)
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


def read(
    body: bytes, *, version: int = VERSION, compressed: bool = False, crc: int = 0
) -> RegistrationBody:
    return at_once(
        read_registration(request(compressed=compressed, crc=crc), version, memoryview(body))
    )


def all_of(body: RegistrationBody) -> tuple[object, ...]:
    return body.data_version, body.filter_servers, at_once(body.topics())


@pytest.mark.parametrize("version", [37, VERSION, 479])
def test_plain_and_packed(version: int) -> None:
    wanted = (DataVersion(counter=7, timestamp=8), ["f"], TOPICS)
    assert all_of(read(encode_body(BODY), version=version)) == wanted
    assert all_of(read(pack_registration(BODY), version=version, compressed=True)) == wanted


def test_brokers_before_3_0_11_send_the_table_alone() -> None:
    assert all_of(read(encode_body(TABLE), version=36)) == (
        DataVersion(counter=7, timestamp=8),
        None,
        TOPICS,
    )


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
    assert all_of(
        read(text.replace(b"filterServerList", b'"filterServerList"').replace(b"'", b'"'))
    ) == (
        version,
        [],
        TOPICS,
    )


def test_the_crc_is_31_bits_of_what_was_sent() -> None:
    body = next(b for i in range(100) if (b := encode_body([i])) and body_crc32(b) != 0)
    with pytest.raises(CrcError, match="crc32 not match"):
        read(body, crc=body_crc32(body) ^ 1)
    packed = pack_registration(BODY)
    assert at_once(read(packed, compressed=True, crc=body_crc32(packed)).topics()) == TOPICS


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"topicConfigSerializeWrapper":[]}', b"\xff", b"[" * 100_000]
)
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
        at_once(registration.topics())


@pytest.mark.parametrize("version", [36, VERSION])
def test_many_topics_are_read_in_pieces(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(500)}
    table = TopicConfigTable(topic_config_table=topics, data_version=DataVersion(counter=1))
    sizes: list[int] = []
    really = registration_body._decode_topics

    def decode(piece: bytes) -> dict[str, TopicConfig]:
        sizes.append(len(piece))
        return really(piece)

    monkeypatch.setattr(registration_body, "PIECE_BYTES", 1000)
    monkeypatch.setattr(registration_body, "_decode_topics", decode)
    monkeypatch.setattr(registration_body, "_long_way", None)  # never read at once
    text = encode_body(table if version == 36 else RegisterBrokerBody(topic_config_table=table))
    found = read(text, version=version)
    assert not sizes
    for turns, _ in enumerate(found.topics(), 1):
        assert len(sizes) == turns
    assert max(sizes) < 1200
    assert at_once(found.topics()) == topics


versions = st.builds(
    DataVersion, counter=st.integers(0, 2**63 - 1), timestamp=st.integers(0, 2**63 - 1)
)
configs = st.builds(
    TopicConfig,
    topic_name=st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1),
    read_queue_nums=st.integers(0, 1024),
    write_queue_nums=st.integers(0, 1024),
    perm=st.integers(0, 7),
)


@given(
    versions,
    st.lists(configs, max_size=4),
    st.lists(st.text(st.characters(codec="utf-8")), max_size=2),
)
def test_any_registration_in_both_forms(
    version: DataVersion, topics: list[TopicConfig], filters: list[str]
) -> None:
    table = {topic.topic_name: topic for topic in topics}
    body = RegisterBrokerBody(
        topic_config_table=TopicConfigTable(topic_config_table=table, data_version=version),
        filter_server_list=filters,
    )
    assert all_of(read(encode_body(body))) == (version, filters, table)
    assert all_of(read(pack_registration(body), compressed=True)) == (version, filters, table)


odd_text = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=6),
    st.sampled_from(['},"x":{', "},", ":{", '"', "\\", "}", "},{"]),
)
odd_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(odd_text, st.integers(0, 9), st.none(), st.just({})),
    lambda inner: st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=4,
)
odd_topics = st.dictionaries(
    odd_text,
    st.builds(
        lambda more, name: {**more, "topicName": name},
        st.dictionaries(odd_text, odd_values, max_size=3),
        odd_text,
    ),
    max_size=6,
)


@example({"0": {"order": {}, "topicName": ""}}, 0, False)
@given(odd_topics, st.integers(0, 40), st.booleans())
def test_pieces_say_what_the_whole_says(topics: dict[str, object], size: int, close: bool) -> None:
    """Whatever stands in the texts, and whatever else a topic has: an object in it looks like the
    border between two. Also where both refuse it: a field may have got a value that cannot be."""

    def outcome(topics_of: Callable[[], object]) -> object:
        try:
            return topics_of()
        except BodyError:
            return BodyError

    text = json.dumps(
        {"topicConfigSerializeWrapper": {"topicConfigTable": topics}},
        separators=(",", ":") if close else None,
    ).encode()
    before, registration_body.PIECE_BYTES = registration_body.PIECE_BYTES, size
    try:
        assert outcome(lambda: at_once(read(text).topics())) == outcome(
            lambda: decode_body(RegisterBrokerBody, text).topic_config_table.topic_config_table
        )
    finally:
        registration_body.PIECE_BYTES = before


@pytest.mark.parametrize("where", ["name", "text", "objects"])
def test_what_cannot_be_cut_into_pieces_is_refused_for_its_size(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not read in one, and not looked through to its end: 16 MiB of it took a quarter of a
    second."""
    monkeypatch.setattr(registration_body, "PIECE_BYTES", 1000)
    monkeypatch.setattr(registration_body, "MOST_BYTES_OF_A_TOPIC", 10_000)
    many = {"name": b"\\u0041" * 2000, "text": b"x" * 12_000, "objects": b""}[where]
    more = b'{},"' + b"x" * 4000 + b'",'
    topic = b'"T%s":{"topicName":"%s","more":[%s1]}' % (many, many, more * 3 * (where == "objects"))
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%s}}}' % b",".join([topic] * 3)
    with pytest.raises(BodyError, match="a topic takes more than 10000 bytes"):
        at_once(read(body).topics())


def test_objects_in_a_topic_are_no_border(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_body, "PIECE_BYTES", 1)
    monkeypatch.setattr(registration_body, "_long_way", None)
    of_5_x = (
        b'{"topicName":"%s","attributes":{"+a":{}},"more":{"x":{}},'
        b'"name\\"s":{"x":"},\\"y\\":{"}, "perm":6}'
    )
    topics = b",".join(b'"%s": %s' % (name, of_5_x % name) for name in (b"T", b"U\\u0041", b"V"))
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%s}}}' % topics
    assert list(at_once(read(body).topics())) == ["T", "UA", "V"]


def test_a_long_body_that_is_wrong_at_its_end_is_not_read_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration_body, "decode_request_body", None)
    table = TopicConfigTable(
        topic_config_table={f"T{n}": TopicConfig(topic_name=f"T{n}") for n in range(500)}
    )
    whole = encode_body(RegisterBrokerBody(topic_config_table=table))
    with pytest.raises(
        BodyError,
        match=r"a registration of .* bytes must be standard JSON .*: Input data was truncated",
    ):
        read(whole[:-1])
    with pytest.raises(BodyError, match=r"the right fields: Expected `object`, got `int`"):
        at_once(read(whole[:-3] + b',"x":0}}}').topics())


def test_a_registration_without_a_list_of_filter_servers_is_read_in_pieces_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration_body, "_long_way", None)
    text = encode_body(BODY).replace(b'"filterServerList":["f"],', b"")
    assert all_of(read(text)) == (DataVersion(counter=7, timestamp=8), [], TOPICS)
