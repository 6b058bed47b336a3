"""The ``.properties`` format and Records read from it."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.java_properties import (
    MAX_TEXT_CHARACTERS,
    Property,
    PropertyError,
    expected,
    format_properties,
    parse_properties,
    record_from_properties,
    record_to_properties,
    update_record,
)
from aiorocketmq.remoting.protocol.wire import Record, fields_of, i32, i64


class Role(Enum):
    ASYNC_MASTER = 0
    SYNC_MASTER = 1
    SLAVE = 2


class Settings(Record, kw_only=True):
    broker_name: str = "broker-a"
    listen_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 10911
    file_size_bytes: i32 = 1024
    threshold: i64 = 17179869184
    slave_read_enable: bool = False
    ratio: float = 0.5
    broker_role: Role = Role.ASYNC_MASTER
    ha_master_address: str | None = None
    broker_ip1: Annotated[str, msgspec.Meta(description="the address that clients use")] = (
        msgspec.field(default="127.0.0.1", name="brokerIP1")
    )


def pairs(text: str) -> dict[str, str]:
    return {found.name: found.value for found in parse_properties(text)}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a:1\nb 2\nc\t3\nd\f4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("  a  =  1", {"a": "1"}),
        ("a = = 1", {"a": "= 1"}),
        ("a : = 1", {"a": "= 1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("a=1 ", {"a": "1 "}),
        ("a=1\na=2", {"a": "2"}),
        ("# a=1\n ! b=2\n\n \t\nc=3", {"c": "3"}),
        ("# comments do not go on \\\na=1", {"a": "1"}),
        ("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("\\\n# c\n\\\n\nb=2", {"b": "2"}),
        (r"a\=b\:c\ d=1", {"a=b:c d": "1"}),
        (r"a=\t\n\r\f\q\"\\", {"a": '\t\n\r\fq"\\'}),
        (r"a=C:\\rocketmq\\store", {"a": "C:\\rocketmq\\store"}),
        (r"a=\u00e4\u4E2D\uD83D\uDE00", {"a": "ä中😀"}),
        ("a=ä中😀", {"a": "ä中😀"}),
        ("orderConf=broker-a:4;broker-b:4", {"orderConf": "broker-a:4;broker-b:4"}),
        ("", {}),
    ],
)
def test_the_format(text: str, wanted: dict[str, str]) -> None:
    assert pairs(text) == wanted


def test_line_numbers_are_those_of_the_first_line() -> None:
    found = parse_properties("# head\na=1\\\n  2\n\nb=3\n", "my.conf")
    assert [(p.name, p.line) for p in found] == [("a", 2), ("b", 5)]
    assert found[1].place == "my.conf:5"


def test_a_broken_unicode_escape_is_refused_with_its_place() -> None:
    with pytest.raises(PropertyError, match=r"my.conf:2: the property b has a \\u"):
        parse_properties("a=1\nb=\\u12g4", "my.conf")


def test_what_is_too_long_to_be_a_configuration_is_refused() -> None:
    text = "a=1\n" * (MAX_TEXT_CHARACTERS // 4)
    assert len(parse_properties(text)) == MAX_TEXT_CHARACTERS // 4
    with pytest.raises(PropertyError, match="are no configuration"):
        parse_properties(text + "#")


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.dictionaries(names, st.text(st.characters(codec="utf-8"), max_size=20), max_size=6))
def test_what_is_written_can_be_read(properties: dict[str, str]) -> None:
    text = format_properties(properties)
    assert text.isascii()
    assert pairs(text) == properties


@settings(deadline=None)
@given(st.text(alphabet="ab=: \t\\\n\r#!u0", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    broken = re.search(r"\\u(?![0-9A-Fa-f]{4})", text.replace("\\\\", "")) is not None
    try:
        found = parse_properties(text)
    except PropertyError:
        assert broken
    else:
        assert all(0 < p.line <= len(text) + 1 for p in found)


def test_plain_values_are_written_as_they_are() -> None:
    assert format_properties({"messageDelayLevel": "1s 5s", "configBlackList": "a;b", "x": ""}) == (
        "messageDelayLevel=1s 5s\nconfigBlackList=a;b\nx=\n"
    )


def test_a_record_from_properties() -> None:
    text = (
        "brokerName=b\nlistenPort= 27811 "
        "\nslaveReadEnable=TRUE\nbrokerRole=SLAVE\nratio=0.25\nbrokerIP1=::1\nwho=me"
    )
    record, unknown, renamed = record_from_properties(Settings, parse_properties(text, "f"))
    assert record == Settings(
        broker_name="b",
        listen_port=27811,
        slave_read_enable=True,
        broker_role=Role.SLAVE,
        ratio=0.25,
        broker_ip1="::1",
    )
    assert unknown == (Property("who", "me", "f", 7),)
    assert renamed == ()


def test_another_spelling_is_taken_and_told() -> None:
    found = parse_properties("fileSizeBytes=1\nfileSizeByte=2")
    record, unknown, renamed = record_from_properties(
        Settings, found, aliases={"fileSizeByte": "fileSizeBytes"}
    )
    assert record.file_size_bytes == 2
    assert [p.name for p in renamed] == ["fileSizeByte"]
    assert not unknown


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("slaveReadEnable", "yes", "slaveReadEnable must be true or false, not 'yes'"),
        ("slaveReadEnable", "", "slaveReadEnable must be true or false, not ''"),
        ("listenPort", "70000", "listenPort must be a whole number from 0 to 65535, not '70000'"),
        ("listenPort", "-1", "listenPort must be a whole number from 0 to 65535, not '-1'"),
        ("listenPort", "1e3", "listenPort must be a whole number from 0 to 65535, not '1e3'"),
        ("fileSizeBytes", "1G", "a whole number from -2147483648 to 2147483647, not '1G'"),
        ("fileSizeBytes", "9" * 5000, "9999...'"),
        ("ratio", "half", "ratio must be a number, not 'half'"),
        ("ratio", "nan", "ratio must be a number, not 'nan'"),
        (
            "brokerRole",
            "MASTER",
            "brokerRole must be ASYNC_MASTER, SYNC_MASTER or SLAVE, not 'MASTER'",
        ),
    ],
)
def test_a_bad_value_is_refused_with_place_name_and_what_was_expected(
    name: str, value: str, wanted: str
) -> None:
    with pytest.raises(PropertyError) as caught:
        record_from_properties(Settings, parse_properties(f"\n{name}={value}", "broker.conf"))
    assert str(caught.value).startswith(f"broker.conf:2: {name} must be ")
    assert wanted in str(caught.value)


def test_a_required_property_that_is_absent_is_named() -> None:
    class Needs(Record):
        broker_name: str

    with pytest.raises(PropertyError, match="the property brokerName must be given"):
        record_from_properties(Needs, [])


def test_updates_are_all_or_nothing() -> None:
    record = Settings()
    changes = [
        Property("brokerName", "x"),
        Property("nobodyKnows", "1"),
        Property("listenPort", "1"),
    ]
    with pytest.raises(PropertyError):
        update_record(record, [*changes, Property("ratio", "?")])
    assert record == Settings()
    assert update_record(record, changes) == ["broker_name", "listen_port"]
    assert record == Settings(broker_name="x", listen_port=1)
    assert update_record(record, changes) == []


def test_a_record_as_properties() -> None:
    assert record_to_properties(Settings(slave_read_enable=True, broker_role=Role.SLAVE)) == {
        "brokerName": "broker-a",
        "listenPort": "10911",
        "fileSizeBytes": "1024",
        "threshold": "17179869184",
        "slaveReadEnable": "true",
        "ratio": "0.5",
        "brokerRole": "SLAVE",
        "brokerIP1": "127.0.0.1",
    }


records = st.builds(
    Settings,
    broker_name=st.text(st.characters(codec="utf-8")),
    listen_port=st.integers(0, 65535),
    threshold=st.integers(-(2**63), 2**63 - 1),
    slave_read_enable=st.booleans(),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    broker_role=st.sampled_from(Role),
    ha_master_address=st.none() | st.text(st.characters(codec="utf-8")),
)


@settings(deadline=None)
@given(records)
def test_records_round_trip_through_text(record: Settings) -> None:
    text = format_properties(record_to_properties(record))
    assert record_from_properties(Settings, parse_properties(text)).record == record


def test_what_is_expected_is_told_for_every_kind() -> None:
    told = {field.wire_name: expected(field) for field in fields_of(Settings)}
    assert told["brokerName"] == "text"
    assert told["listenPort"] == "a whole number from 0 to 65535"
