"""What a trace message says, to the byte (client.md §7.2)."""

from __future__ import annotations

import pytest

from aiorocketmq.client.producer.hooks import MessageKind
from aiorocketmq.client.producer.trace_records import (
    Consumed,
    ConsumeOutcome,
    Consuming,
    Published,
    TraceRecord,
    TransactionEnded,
    decode_trace,
    encode_trace,
    text_for_cloud,
)

RECORDS: list[tuple[TraceRecord, str]] = [
    (
        Published(
            1700, "R", "g", "T", "ID", "tag", "k1 k2", "h:1", 128, 7, MessageKind.HALF, "OFF", True
        ),
        "Pub|1700|R|g|T|ID|tag|k1 k2|h:1|128|7|1|OFF|true;",
    ),
    (
        Published(1700, "R", "g", "T", "ID", None, None, "h:1", 1, 0, MessageKind.DELAY, "", False),
        "Pub|1700|R|g|T|ID|null|null|h:1|1|0|3||false;",
    ),
    (Consuming(1700, "R", "g", "REQ", "ID", 2, "k"), "SubBefore|1700|R|g|REQ|ID|2|k;"),
    (
        Consumed("REQ", "ID", 9, False, None, ConsumeOutcome.FAILED, 1800, "g"),
        "SubAfter|REQ|ID|9|false|null|4|1800|g;",
    ),
    (
        TransactionEnded(
            1, "R", "g", "T", "ID", None, "k", "h:1", MessageKind.COMMIT, "TID", "UNKNOW", True
        ),
        "EndTransaction|1|R|g|T|ID|null|k|h:1|2|TID|UNKNOW|true;",
    ),
]


def wire(text: str) -> str:
    return text.replace("|", "\x01").replace(";", "\x02")


@pytest.mark.parametrize(("record", "text"), RECORDS)
def test_a_record_there_and_back(record: TraceRecord, text: str) -> None:
    assert record.encode() == wire(text)
    assert decode_trace(wire(text)) == [record]


def test_a_cloud_wants_the_end_of_consumption_otherwise() -> None:
    texts = {type(record): text_for_cloud(record) for record, _ in RECORDS}
    assert texts.pop(Consumed) == wire("SubAfter|REQ|ID|9|false|null|4|")
    assert set(texts.values()) <= {wire(text) for _, text in RECORDS}


def test_records_follow_each_other() -> None:
    records = [record for record, _ in RECORDS]
    assert decode_trace(encode_trace(records)) == records


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Pub|1|R|g|T|ID|t|k|h|5|7|0|true;",
            Published(1, "R", "g", "T", "ID", "t", "k", "h", 5, 7, MessageKind.NORMAL, "", True),
        ),
        (
            "Pub|1|R|g|T|ID|t|k|h|5|7|0|O|true|10.0.0.1;",
            Published(
                1,
                "R",
                "g",
                "T",
                "ID",
                "t",
                "k",
                "h",
                5,
                7,
                MessageKind.NORMAL,
                "O",
                True,
                "10.0.0.1",
            ),
        ),
        ("SubAfter|REQ|ID|9|true|k;", Consumed("REQ", "ID", 9, True, "k", ConsumeOutcome.SUCCESS)),
        (
            "SubAfter|REQ|ID|9|true|k|1;",
            Consumed("REQ", "ID", 9, True, "k", ConsumeOutcome.TIME_OUT),
        ),
    ],
)
def test_what_older_and_newer_clients_write(text: str, expected: TraceRecord) -> None:
    assert decode_trace(wire(text)) == [expected]


@pytest.mark.parametrize(
    "text", ["", ";", "Pub|x;", "Pub|1|R;", "Unknown|1;", "SubAfter|a|b|c|true|k|9;", "garbage"]
)
def test_what_cannot_be_read_is_left_out(text: str) -> None:
    assert decode_trace(wire(text)) == []
