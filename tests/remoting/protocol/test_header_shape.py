"""What is read of headers that are alike is what decoding each of them gives; a header that is not alike never fits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.dispatch import Entry, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageRequestV2
from aiorocketmq.remoting.protocol.header_shape import HeaderShape, Varying, join_columns, learn, rows_of_bytes
from aiorocketmq.remoting.protocol.serialization import ONEWAY_FLAG, RemotingCommand, encode_header
from aiorocketmq.remoting.protocol.wire import to_fields

numpy = pytest.importorskip("numpy")

VARYING = Varying(("queue_id", "born_timestamp"), "properties")
TYPES = {RequestCode.SEND_MESSAGE: SendMessageRequest, RequestCode.SEND_MESSAGE_V2: SendMessageRequestV2}
ENTRIES = {code: Entry(code, lambda _request, _body, _ctx: Reply()) for code in TYPES}


def header_of(
    opaque: int = 4711,
    *,
    code: RequestCode = RequestCode.SEND_MESSAGE_V2,
    flag: int = 0,
    key: str = "7F0000010000AB",
    rest: str = "TAGS\x01TagA",
    **fields: Any,
) -> bytes:
    values: dict[str, Any] = {
        "producer_group": "P", "topic": "T", "default_topic": "TBW102", "default_topic_queue_nums": 4, "queue_id": 3,
        "sys_flag": 0, "born_timestamp": 1_700_000_000_000, "flag": 0, "properties": f"UNIQ_KEY\x01{key}\x02{rest}",
        "reconsume_times": 0, "unit_mode": False, "batch": False,
    }  # fmt: skip
    request = TYPES[code](**{**values, **fields})
    command = RemotingCommand(code=code, opaque=opaque, flag=flag, ext_fields=dict(sorted(to_fields(request).items())))
    return encode_header(command, 0)


def shape_of(header: bytes, code: RequestCode = RequestCode.SEND_MESSAGE_V2) -> HeaderShape | None:
    return learn(header, ENTRIES[code].decode, ENTRIES[code].request_type, VARYING)


numbers = st.integers(0, 2**31 - 1)
wide = st.integers(0, 10**15 - 1)
keys = st.text("0123456789abcdefABCDEFxyzXYZ", min_size=1, max_size=40)


@settings(deadline=None)
@given(
    st.sampled_from(list(TYPES)),
    st.tuples(numbers, numbers, wide, keys),
    st.lists(st.tuples(numbers, numbers, wide, keys), min_size=1, max_size=5),
)
def test_columns_are_what_decoding_gives(
    code: RequestCode, first: tuple[int, int, int, str], others: list[tuple[int, int, int, str]]
) -> None:
    def made(values: tuple[int, int, int, str]) -> bytes:
        return header_of(values[0], code=code, queue_id=values[1], born_timestamp=values[2], key=values[3])

    shape = shape_of(made(first), code)
    assert shape is not None
    widths = [len(str(value)) for value in first]
    alike = [made(first), *(made(each) for each in others if [len(str(value)) for value in each] == widths)]
    columns = shape.read(alike)
    assert columns is not None
    for number, header in enumerate(alike):
        envelope = ENTRIES[code].decode(header)
        read = {name: int(column[number]) for name, column in columns.numbers.items()}
        assert read.pop("opaque") == envelope.opaque
        assert {name: column[number].tobytes() for name, column in columns.digits.items()} == {
            "opaque": b"%d" % envelope.opaque, **{name: b"%d" % value for name, value in read.items()}
        }  # fmt: skip
        text = f"UNIQ_KEY\x01{columns.keys[number].tobytes().decode()}\x02TAGS\x01TagA"
        assert msgspec.structs.replace(shape.request, **read, properties=text) == envelope.extFields


@settings(deadline=None, max_examples=400)
@given(st.data())
def test_a_changed_byte_never_goes_unseen(data: st.DataObject) -> None:
    header = header_of()
    shape = shape_of(header)
    assert shape is not None
    at = data.draw(st.integers(0, len(header) - 1))
    changed = bytearray(header)
    changed[at] = data.draw(st.integers(0, 255))
    columns = shape.read([header, bytes(changed)])
    if columns is None:
        return
    envelope = ENTRIES[RequestCode.SEND_MESSAGE_V2].decode(bytes(changed))
    read = {name: int(column[1]) for name, column in columns.numbers.items()}
    assert read.pop("opaque") == envelope.opaque
    text = f"UNIQ_KEY\x01{columns.keys[1].tobytes().decode()}\x02TAGS\x01TagA"
    assert msgspec.structs.replace(shape.request, **read, properties=text) == envelope.extFields


@pytest.mark.parametrize(
    "header",
    [
        header_of(flag=ONEWAY_FLAG),
        header_of(-5),
        header_of(queue_id=-1),
        header_of(born_timestamp=-1),
        header_of(born_timestamp=10**16),
        header_of(key="not-a-plain-key"),
        header_of(key=""),
        header_of(properties=None),
        header_of(properties="TAGS\x01TagA"),
        header_of(properties="UNIQ_KEY\x017F00"),
        header_of().replace(b'"e":"3"', b'"e":"3","e":"3"'),
        header_of().replace(b'"e":"3"', b'"e" :"3"'),
        header_of().replace(b'"e":"3"', b'"e":3'),
        header_of().replace(b'"opaque":4711', b'"opaque": 4711'),
        header_of().replace(b'"opaque":4711', b'"opaque":4711,"opaque" :4711'),
        header_of().replace(b"\\u0001", b"\\u0001", 1).replace(b"UNIQ_KEY", b"UNIQ\\u005fKEY"),
        header_of().replace(b'"i":', b'"i":"UNIQ_KEY\\u00017F0000010000AB\\u0002TAGS\\u0001TagA","\\u0069":'),
    ],
)
def test_headers_that_have_no_shape(header: bytes) -> None:
    assert shape_of(header) is None


@pytest.mark.parametrize(
    "other",
    [
        header_of(queue_id=4, topic="U"),
        header_of(4711, rest="TAGS\x01TagB"),
        header_of(key="7F0000010000A-"),
        header_of().replace(b'"opaque":4711', b'"opaque":0711'),
        header_of().replace(b'"opaque":4711', b'"opaque":-711'),
        header_of().replace(b'"e":"3"', b'"e":"x"'),
    ],
)
def test_headers_of_the_same_length_that_do_not_fit(other: bytes) -> None:
    shape = shape_of(header_of())
    assert shape is not None
    assert len(other) == shape.length
    assert shape.read([header_of()]) is not None
    assert shape.read([header_of(), other]) is None


def test_numbers_that_are_too_great_for_their_field_do_not_fit() -> None:
    shape = shape_of(header_of(2**31 - 1))
    assert shape is not None
    assert shape.read([header_of(2**31 - 1)]) is not None
    assert shape.read([header_of(2**31 - 1).replace(b"2147483647", b"2147483648")]) is None


def test_whole_frames_have_the_text_or_not() -> None:
    shape = shape_of(header_of())
    assert shape is not None
    good, other = (0, header_of(4712), b"body"), (0, header_of(rest="TAGS\x01TagB"), b"body")
    assert shape.fits([good, good])
    assert not shape.fits([good, other])
    assert not shape.fits([good, (1, header_of(), b"")])
    assert not shape.fits([good, (0, b"short", b"")])


@given(st.lists(st.tuples(st.binary(min_size=3, max_size=3), st.binary(min_size=1, max_size=1)), min_size=1))
def test_columns_between_parts(rows: list[tuple[bytes, bytes]]) -> None:
    columns = [rows_of_bytes(b"".join(row[number] for row in rows), len(rows)) for number in (0, 1)]
    assert join_columns([b"<", b"", b"\x00>"], columns) == [b"<" + first + second + b"\x00>" for first, second in rows]


def test_a_request_without_a_property_string() -> None:
    entry = Entry(RequestCode.PULL_MESSAGE, lambda _request, _body, _ctx: Reply())
    varying = Varying(("queue_id", "queue_offset"))

    def pull(opaque: int, queue_id: int, offset: int, **other: Any) -> bytes:
        values: dict[str, Any] = {"consumer_group": "G", "topic": "T", "max_msg_nums": 32, "sys_flag": 4, **other}
        request = PullMessageRequest(
            queue_id=queue_id, queue_offset=offset, commit_offset=0, suspend_timeout_millis=0, sub_version=0, **values
        )
        fields = dict(sorted(to_fields(request).items()))
        return encode_header(RemotingCommand(code=RequestCode.PULL_MESSAGE, opaque=opaque, ext_fields=fields), 0)

    shape = learn(pull(100, 1, 2000), entry.decode, entry.request_type, varying)
    assert shape is not None
    columns = shape.read([pull(500, 3, 4000), pull(501, 4, 4032)])
    assert columns is not None
    assert columns.keys is None
    assert {name: column.tolist() for name, column in columns.numbers.items()} == {
        "opaque": [500, 501], "queue_id": [3, 4], "queue_offset": [4000, 4032]
    }  # fmt: skip
    assert shape.read([pull(500, 3, 4000, max_msg_nums=31)]) is None
    assert shape.read([pull(500, 3, 4000, topic="U")]) is None
