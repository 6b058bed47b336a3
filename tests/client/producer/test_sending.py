"""What can be sent, what an answer means, when to try again (client.md §3.2 to §3.8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.errors import MessageError
from aiorocketmq.client.producer.sending import (
    SendAnswer,
    SendStatus,
    batch,
    may_retry,
    read_send_answer,
    send_result,
    single,
)
from aiorocketmq.remoting.errors import (
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RequestTimeout,
    RocketMQError,
    SystemBusy,
    TooManyRequestsError,
    broker_error,
)
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.protocol.leaves import Replies
from aiorocketmq.remoting.protocol.message.message import Message
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.remoting.protocol.record.batch import decode_batch
from aiorocketmq.remoting.responses import Response, read_answer

LIMIT = 1000
QUEUE = MessageQueue("T", "b", 3)


def test_a_message_carries_its_properties() -> None:
    message = Message(
        "T", b"body", tags="a", keys=["k1", "k2"], delay_level=3, flag=7, properties={"own": "1"}
    )
    outgoing = single(message, "ID", LIMIT)
    assert outgoing.code is RequestCode.SEND_MESSAGE_V2
    assert (outgoing.body, outgoing.flag, outgoing.msg_id) == (b"body", 7, "ID")
    assert decode_properties(outgoing.properties) == {
        "own": "1",
        "TAGS": "a",
        "KEYS": "k1 k2",
        "DELAY": "3",
        "WAIT": "true",
        "UNIQ_KEY": "ID",
    }


@given(
    st.none() | st.text(max_size=30) | st.just("t" * 2000),
    st.lists(st.sampled_from(["k1", "k2", "Ä"]), max_size=2),
    st.integers(0, 2),
    st.booleans(),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"])),
)
def test_all_ways_to_write_properties_say_the_same(
    tags: str | None, keys: list[str], delay: int, wait: bool, own: dict[str, str]
) -> None:
    message = Message("T", b"x", tags, keys, delay, wait_store_ok=wait, properties=own)
    try:
        general = single(message, "ID", LIMIT, {"OWN": "1"}).properties
    except MessageError:
        with pytest.raises(MessageError):
            single(message, "ID", LIMIT)
        return
    expected = {name: value for name, value in decode_properties(general).items() if name != "OWN"}
    assert decode_properties(single(message, "ID", LIMIT).properties) == expected


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("", b"x"), "blank"),
        (Message("no spaces", b"x"), "characters"),
        (Message("T" * 128, b"x"), "limit is 127"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "belongs to the broker"),
        (Message("T", b""), "empty"),
        (Message("T", "text"), "must be bytes"),  # type: ignore[arg-type]
        (Message("T", b"x" * 1001), "1001 bytes"),
        (Message("T", b"x", properties={"TAGS": "a"}), "reserved"),
        (Message("T", b"x", properties={"a": ""}), "property"),
        (Message("T", b"x", keys=["two words"]), "space"),
    ],
)
def test_what_no_broker_would_take_is_refused(message: Message, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        single(message, "ID", LIMIT)


def test_a_batch_is_one_body() -> None:
    messages = [Message("T", b"one", tags="a", flag=1), Message("T", b"two", keys=["k"])]
    outgoing = batch(messages, ["A", "B"], LIMIT)
    assert outgoing.code is RequestCode.SEND_BATCH_MESSAGE
    assert outgoing.msg_id == "A,B"
    assert outgoing.properties == "WAIT\x01true"
    items = decode_batch(outgoing.body)
    assert [(item.flag, bytes(item.body)) for item in items] == [(1, b"one"), (0, b"two")]
    assert [decode_properties(item.properties)["UNIQ_KEY"] for item in items] == ["A", "B"]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "empty"),
        ([Message("T", b"x"), Message("S", b"x")], "one topic"),
        ([Message("T", b"x"), Message("T", b"x", wait_store_ok=False)], "wait_store_ok"),
        ([Message("T", b"x", delay_level=1)], "delay level"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
        ([Message("T", b"x" * 400)] * 3, "send smaller lists"),
    ],
)
def test_messages_that_do_not_go_together(messages: list[Message], reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        batch(messages, [str(number) for number in range(len(messages))], LIMIT)


def answer(code: int, **fields: str) -> Response:
    command = RemotingCommand(code=code, opaque=1, flag=1, remark="why", ext_fields=fields)
    return Response.of(command, b"", RequestCode.SEND_MESSAGE_V2)


@pytest.mark.parametrize("status", SendStatus)
def test_stored_but_not_as_safely_as_asked_is_a_result(status: SendStatus) -> None:
    stored = answer(
        status.value,
        msgId="OFFSET",
        queueId="2",
        queueOffset="17",
        MSG_REGION="r",
        TRACE_ON="false",
    )
    result = send_result(stored, "ID", QUEUE, "h:1")
    assert result.status is status
    assert (result.msg_id, result.offset_msg_id, result.queue_offset) == ("ID", "OFFSET", 17)
    assert result.queue == MessageQueue("T", "b", 2)  # the broker's word counts
    assert (result.region_id, result.trace_on) == ("r", False)


def test_any_other_code_is_an_error() -> None:
    with pytest.raises(SystemBusy, match="why"):
        send_result(answer(ResponseCode.SYSTEM_BUSY), "ID", QUEUE, "h:1")


@pytest.mark.parametrize("fields", [{}, {"msgId": "M", "queueId": "x", "queueOffset": "1"}])
def test_an_answer_without_its_fields_is_the_brokers_fault(fields: dict[str, str]) -> None:
    with pytest.raises(ProtocolError, match="h:1"):
        send_result(answer(0, **fields), "ID", QUEUE, "h:1")


STORED = {
    "msgId": "OFFSET",
    "queueId": "2",
    "queueOffset": "17",
    "MSG_REGION": "r",
    "TRACE_ON": "false",
}


@pytest.mark.parametrize(
    ("command", "in_one_step"),
    [
        (RemotingCommand(code=0, flag=1, opaque=9, ext_fields=STORED), True),
        (
            RemotingCommand(
                code=0, flag=1, opaque=9, ext_fields={**STORED, "transactionId": "TX", "more": "x"}
            ),
            True,
        ),
        (
            RemotingCommand(
                code=ResponseCode.FLUSH_DISK_TIMEOUT, flag=1, opaque=9, ext_fields=STORED
            ),
            False,
        ),
        (RemotingCommand(code=ResponseCode.SYSTEM_BUSY, flag=1, opaque=9, remark="why"), False),
        (RemotingCommand(code=0, flag=1, opaque=9), False),
        (RemotingCommand(code=0, flag=0, opaque=9, ext_fields=STORED), None),  # a request of theirs
    ],
)
@pytest.mark.parametrize("form", [SerializeType.JSON, SerializeType.ROCKETMQ])
def test_the_quick_way_to_read_an_answer_says_the_same(
    command: RemotingCommand, in_one_step: bool | None, form: SerializeType
) -> None:
    header = encode_header(command, form)
    quick, general = read_send_answer(form, header), read_answer(form, header)
    if quick is None or general is None:
        assert quick is None
        assert general is None
        assert in_one_step is None
        return
    assert quick.opaque == general.opaque == 9
    assert (type(quick) is SendAnswer) is (in_one_step and form is SerializeType.JSON)

    def outcome(answer: Response | SendAnswer | SendMessageResponse) -> object:
        try:
            return send_result(answer, "ID", QUEUE, "h:1")
        except RocketMQError as error:
            return repr(error)

    assert outcome(quick) == outcome(general)
    typed = Replies(SendMessageResponse).read(form, header)
    assert typed is None or outcome(typed[1]) == outcome(general)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectError("x"), True),
        (ConnectionLostError("x"), True),
        (RequestTimeout("x"), True),
        (TooManyRequestsError("x"), True),
        (broker_error(ResponseCode.SYSTEM_ERROR, ""), True),
        (broker_error(ResponseCode.SERVICE_NOT_AVAILABLE, ""), True),
        (broker_error(ResponseCode.NO_PERMISSION, ""), True),
        (broker_error(ResponseCode.TOPIC_NOT_EXIST, ""), True),
        (broker_error(ResponseCode.NO_BUYER_ID, ""), True),
        (broker_error(ResponseCode.NOT_IN_CURRENT_UNIT, ""), True),
        (broker_error(ResponseCode.SYSTEM_BUSY, ""), False),
        (broker_error(ResponseCode.MESSAGE_ILLEGAL, ""), False),
        (RocketMQError("x"), False),
    ],
)
def test_which_failures_are_tried_again_elsewhere(error: RocketMQError, again: bool) -> None:
    assert may_retry(error) is again
