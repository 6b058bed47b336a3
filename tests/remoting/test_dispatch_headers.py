"""The two ways by which the dispatcher reads a header, the short one and the general one, are
one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.frames.serialization import HeaderError, decode_header
from aiorocketmq.remoting.protocol.wire import FieldError, fields_of, from_fields, from_texts

from .dispatch_world import OFFSET_FIELDS, request


def read_the_short_way(code: RequestCode, header: bytes) -> Any | None:
    """The typed header as the fast route reads it, ``None`` when it leaves that to the general
    one."""
    read: list[Any] = []

    class Short(Dispatcher):
        def _general(self, *_: object) -> None:
            """Not here."""

    connection: Any = SimpleNamespace(in_flight=0, max_in_flight=1)
    table = {code: lambda req, body, ctx: read.append(req)}
    Short(table).handle(connection, 0, header, memoryview(b""), 0, [])
    return read[0] if read else None


scalars = st.one_of(
    st.integers(-(2**33), 2**33),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6),
    st.integers(-(2**33), 2**33).map(str),
    st.sampled_from(
        [
            "true",
            "TRUE",
            "tRue",
            "false",
            "1",
            "0",
            "null",
            "NULL",
            "+7",
            "007",
            "7.0",
            "1e3",
            "-0",
            "1.5",
            "",
            " 7",
        ]
    ),
)


@given(
    data=st.data(),
    code=st.sampled_from(sorted(COMMANDS)),
    other=st.dictionaries(st.text("abc", max_size=3), scalars, max_size=2),
)
@example(data=None, code=RequestCode.SEND_MESSAGE_V2, other={}).via(
    "a batch flag that is only nearly true"
)
def test_both_ways_of_decoding_give_the_same(
    data: Any, code: RequestCode, other: dict[str, Any]
) -> None:
    request_type = COMMANDS[code].request
    if data is None:
        ext = {f.wire_name: "1" for f in fields_of(request_type)}
    else:
        names = [f.wire_name for f in fields_of(request_type)]
        likely = {f.wire_name: st.just("7") | scalars for f in fields_of(request_type)}
        ext = {name: data.draw(likely[name]) for name in names if data.draw(st.integers(0, 9)) > 0}
    header = msgspec.json.encode(
        {"code": int(code), "extFields": {**ext, **other}, "flag": 0, "opaque": 1, "version": 409}
    )
    short = read_the_short_way(code, header)
    if short is None:
        return  # left to the general way
    try:
        general = from_fields(request_type, decode_header(0, header).ext_fields or {})
    except (FieldError, HeaderError) as error:
        raise AssertionError(f"only the general way refuses: {error}") from error
    assert short == general


@given(data=st.data(), code=st.sampled_from(sorted(COMMANDS)))
@example(data=None, code=RequestCode.SEND_MESSAGE_V2).via("a batch flag that is only nearly true")
def test_texts_are_read_at_once_as_they_are_one_by_one(data: Any, code: RequestCode) -> None:
    """The headers that are not JSON."""
    request_type = COMMANDS[code].request
    texts = scalars.map(str) | st.sampled_from(["7", "true"])
    names = [f.wire_name for f in fields_of(request_type)]
    ext = (
        dict.fromkeys(names, "1")
        if data is None
        else {name: data.draw(texts) for name in names if data.draw(st.integers(0, 9))}
    )
    assert outcome(from_texts, request_type, ext) == outcome(from_fields, request_type, ext)


def outcome(read: Callable[..., Any], request_type: Any, ext: dict[str, str]) -> Any:
    try:
        return read(request_type, ext)
    except FieldError as error:
        return str(error)


def test_what_real_clients_send_takes_the_short_way() -> None:
    header = request(14, OFFSET_FIELDS)[8:]
    assert read_the_short_way(RequestCode.QUERY_CONSUMER_OFFSET, header) is not None
    batch = {
        "a": "g",
        "b": "T",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "k": "false",
        "m": "true",
    }
    short = read_the_short_way(RequestCode.SEND_BATCH_MESSAGE, request(320, batch)[8:])
    assert short is not None
    assert short.batch is True
    assert short.unit_mode is False
