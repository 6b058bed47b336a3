"""The table of commands: every code has a row, and every header survives the wire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS, merge
from aiorocketmq.remoting.protocol.commands.base import Command
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, QueryMessageRequest
from aiorocketmq.remoting.protocol.commands.route import (
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from aiorocketmq.remoting.protocol.commands.send import (
    SendErrorFields,
    SendMessageRequest,
    SendMessageRequestV2,
    SendMessageResponse,
)
from aiorocketmq.remoting.protocol.wire import (
    FieldError,
    NoFields,
    Record,
    fields_of,
    from_fields,
    to_fields,
)

from ...strategies import records

HEADERS = sorted(
    {header for command in COMMANDS.values() for header in (command.request, command.response)},
    key=lambda header: header.__name__,
)


def test_every_request_code_has_a_row() -> None:
    assert list(COMMANDS) == sorted(RequestCode)


@pytest.mark.parametrize("code", COMMANDS, ids=lambda code: code.name)
@settings(max_examples=30)
@given(data=st.data())
def test_headers_survive_the_wire(code: RequestCode, data: st.DataObject) -> None:
    for header_type in (COMMANDS[code].request, COMMANDS[code].response):
        header = data.draw(records(header_type))
        fields = to_fields(header)
        assert from_fields(header_type, fields) == header
        assert all(type(text) is str for text in fields.values())


@pytest.mark.parametrize("header_type", HEADERS, ids=lambda header: header.__name__)
def test_a_header_has_only_what_text_can_carry(header_type: type[Record]) -> None:
    fields = fields_of(header_type)
    assert [field.name for field in fields if field.kind is object] == []
    assert len({field.wire_name for field in fields}) == len(fields)


@pytest.mark.parametrize("header_type", HEADERS, ids=lambda header: header.__name__)
@settings(max_examples=5)
@given(data=st.data())
def test_a_missing_required_field_is_named(header_type: type[Record], data: st.DataObject) -> None:
    fields = to_fields(data.draw(records(header_type)))
    for field in fields_of(header_type):
        rest = {name: text for name, text in fields.items() if name != field.wire_name}
        if field.required:
            with pytest.raises(FieldError, match=f"'{field.wire_name}' is missing"):
                from_fields(header_type, rest)
        else:
            assert getattr(from_fields(header_type, rest), field.name) == field.default


@pytest.mark.parametrize("code", COMMANDS, ids=lambda code: code.name)
def test_bodies_are_bytes_or_a_type(code: RequestCode) -> None:
    for body in (COMMANDS[code].request_body, COMMANDS[code].response_body):
        assert body is None or body is bytes or issubclass(body, Record)


def test_a_code_is_declared_once() -> None:
    row = Command(NoFields, NoFields)
    with pytest.raises(ValueError, match=r"HEART_BEAT \(34\) is declared twice"):
        merge(
            [
                {RequestCode.HEART_BEAT: row},
                {RequestCode.PULL_MESSAGE: row},
                {RequestCode.HEART_BEAT: row},
            ]
        )


# --- what the table says about the headers that everybody uses
# ----------------------------------------------------------


def wire_names(header_type: type[Record]) -> list[str]:
    return [field.wire_name for field in fields_of(header_type)]


def test_both_send_headers_are_one_to_handlers() -> None:
    assert wire_names(SendMessageRequestV2) == list("abcdefghijklmn")
    assert wire_names(SendMessageRequest) == [
        "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
        "bornTimestamp", "flag",
        "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch", "bname",
    ]  # fmt: skip
    assert [f.name for f in fields_of(SendMessageRequest)] == [
        f.name for f in fields_of(SendMessageRequestV2)
    ]
    assert issubclass(SendMessageRequestV2, SendMessageRequest)


def test_java_primitives_are_always_written() -> None:
    request: dict[str, Any] = dict.fromkeys("abcdefgh", "1")
    assert to_fields(from_fields(SendMessageRequestV2, request)) == {
        **request,
        "k": "false",
        "m": "false",
    }


@pytest.mark.parametrize(
    ("code", "always"),
    [
        (RequestCode.SEND_MESSAGE, {"unitMode", "batch"}),
        (RequestCode.CONSUMER_SEND_MSG_BACK, {"unitMode"}),
        (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, {"unitMode"}),
        (RequestCode.END_TRANSACTION, {"fromTransactionCheck"}),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, {"order"}),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"removeOffset"}),
        (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {"isForce"}),
        (RequestCode.GET_CONSUMER_RUNNING_INFO, {"jstackEnable"}),
        (RequestCode.CLONE_GROUP_OFFSET, {"offline"}),
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder"}),
        (RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, {"admin"}),
        (RequestCode.REGISTER_BROKER, {"compressed", "bodyCrc32"}),
        (RequestCode.QUERY_CONSUME_QUEUE, {"queueId", "index", "count"}),
    ],
    ids=lambda value: value.name if isinstance(value, RequestCode) else "",
)
def test_primitives_of_each_request(code: RequestCode, always: set[str]) -> None:
    """What is written although nobody set it, besides the required fields."""
    fields = fields_of(COMMANDS[code].request)
    required = {field.wire_name: "1" for field in fields if field.required}
    assert set(to_fields(from_fields(COMMANDS[code].request, required))) - set(required) == always


def test_fields_of_every_send_reply() -> None:
    assert to_fields(SendErrorFields()) == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    stored = SendMessageResponse(msg_id="7F", queue_id=3, queue_offset=7, trace_on=False)
    assert to_fields(stored) == {
        "msgId": "7F", "queueId": "3", "queueOffset": "7", "TRACE_ON": "false",
        "MSG_REGION": "DefaultRegion",
    }  # fmt: skip


def test_a_master_gets_empty_fields() -> None:
    assert to_fields(RegisterBrokerResponse()) == {}


def test_registration_without_checksum() -> None:
    fields = {
        "brokerName": "b",
        "brokerAddr": "1.1.1.1:1",
        "clusterName": "C",
        "haServerAddr": "1.1.1.1:2",
        "brokerId": "0",
    }
    request = from_fields(RegisterBrokerRequest, fields)
    assert (request.compressed, request.body_crc32) == (False, 0)


def test_lite_pull_is_pull() -> None:
    assert COMMANDS[RequestCode.LITE_PULL_MESSAGE] == COMMANDS[RequestCode.PULL_MESSAGE]
    assert COMMANDS[RequestCode.PULL_MESSAGE].request is PullMessageRequest


def test_query_by_unique_key_is_a_field() -> None:
    request = QueryMessageRequest(
        topic="T", key="k", max_num=1, begin_timestamp=0, end_timestamp=1, unique_key_query=True
    )
    assert to_fields(request)["_UNIQUE_KEY_QUERY"] == "true"
