"""What becomes of damage in the answer to a pull."""

from __future__ import annotations

import logging

import pytest

from aiorocketmq.client.consumer.pulling import Pulled, read_pulled, tell_damaged, together
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageResponse
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.remoting.responses import Response

from ..messages import record as stored_record

HOST = pack_host("127.0.0.1", 10911)


def record(number: int, body: bytes = b"the body") -> bytes:
    return encode_record(NewRecord(
        "T", 0, body, b"UNIQ_KEY\x01U%d" % number, queue_offset=number, phy_offset=number * 200,
        sys_flag=0,
        born_timestamp=1, born_host=HOST, store_timestamp=2, store_host=HOST,
    ))  # fmt: skip


WHOLE = [record(n) for n in range(5)]


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def pulled(body: bytes) -> Pulled:
    header = PullMessageResponse(
        suggest_which_broker_id=0, next_begin_offset=5, min_offset=0, max_offset=5
    )
    command = RemotingCommand(code=0, flag=1, ext_fields=to_fields(header))
    answer = Response.of(command, body, RequestCode.PULL_MESSAGE)
    return read_pulled(answer, "h:1", MessageQueue("T", "b", 0))


def offsets(found: Pulled) -> list[int]:
    return [message.commit_log_offset // 200 for message in found.messages]


def test_a_damaged_body_is_not_handed_out_and_its_message_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = pulled(b"".join((*WHOLE[:2], flipped(WHOLE[2], 90, 3), *WHOLE[3:])))
    assert (offsets(found), found.next_offset) == ([0, 1, 3, 4], 5)
    with caplog.at_level(logging.ERROR):
        tell_damaged(found.damaged, "g", MessageQueue("T", "b", 0), "h:1")
    [line] = caplog.records
    assert (
        "group=g queue=T/b/0 offset=2 msg_id=U2 bytes=111 broker=h:1 problem=the body has the CRC"
        in line.getMessage()
    )


def test_intact_messages_are_not_damaged() -> None:
    assert offsets(pulled(b"".join(WHOLE))) == [0, 1, 2, 3, 4]
    assert pulled(b"".join(WHOLE)).damaged == ()


@pytest.mark.parametrize("at", range(len(WHOLE[2])))
def test_a_flipped_bit_anywhere_costs_no_neighbour(at: int) -> None:
    for bit in range(8):
        found = pulled(b"".join((*WHOLE[:2], flipped(WHOLE[2], at, bit), *WHOLE[3:])))
        damaged = {0, 1, 2, 3, 4} - {message.queue_offset for message in found.messages}
        assert [message.stored_body for message in found.messages] == [b"the body"] * len(
            found.messages
        )
        assert (len(found.messages) == 5 and not found.damaged) or (
            damaged <= {2} and len(found.damaged) == 1
        )


def test_a_garbled_head_costs_no_neighbour() -> None:
    found = pulled(b"".join((*WHOLE[:2], bytes(88) + WHOLE[2][88:], *WHOLE[3:])))
    assert (offsets(found), [each.size for each in found.damaged]) == ([0, 1, 3, 4], [111])
    found = pulled(b"".join((*WHOLE[:2], b"\xff" * 111, *WHOLE[3:])))
    assert (offsets(found), [each.size for each in found.damaged]) == ([0, 1, 3, 4], [111])
    assert offsets(pulled(bytes(20) + WHOLE[0])) == [0]
    assert offsets(pulled(WHOLE[0] + b"\xda\xa3\x20\xa7" * 40)) == [0]


def test_a_record_in_a_damaged_body_is_no_message() -> None:
    carrier = record(2, WHOLE[0] + WHOLE[1])
    at = carrier.index(WHOLE[0])
    found = pulled(WHOLE[0] + bytes(at) + carrier[at:] + WHOLE[3])
    assert offsets(found) == [0, 3]


def test_two_replicas_with_other_damage_make_up_for_each_other() -> None:
    def damaged(*numbers: int, head: bool = False) -> Pulled:
        spoilt = [bytes(88) + r[88:] if head else flipped(r, 90) for r in WHOLE]
        return pulled(b"".join(spoilt[n] if n in numbers else WHOLE[n] for n in range(5)))

    for head in (False, True):
        found = together(damaged(1, 2, head=head), damaged(2, 4, head=head), 0)
        assert (offsets(found), len(found.damaged)) == ([0, 1, 3, 4], 1)
        assert offsets(together(damaged(1, head=head), damaged(3, head=head), 0)) == [0, 1, 2, 3, 4]
        assert together(damaged(1, head=head), damaged(3, head=head), 0).damaged == ()
    assert offsets(together(damaged(1), pulled(b"".join(WHOLE)), 0)) == [0, 1, 2, 3, 4]


def test_a_message_of_several_queues_has_the_number_of_the_one_that_was_pulled() -> None:
    """Or one that has it already there would hide it, and what is committed would be the place of
    another one."""
    named = {"INNER_MULTI_DISPATCH": "Other,T", "INNER_MULTI_QUEUE_OFFSET": "70,5"}
    found = pulled(
        b"".join(
            [
                stored_record(4),
                stored_record(4, topic="Mine", properties=named),
                stored_record(6, topic="Elsewhere"),  # of a broker that does not tell
            ]
        )
    )
    assert [message.queue_offset for message in found.messages] == [4, 5, 6]
    assert [message.topic for message in found.messages] == ["T", "Mine", "Elsewhere"]
