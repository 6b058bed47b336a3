"""The typed header of a request: compiled, in Python, and the general way."""

from __future__ import annotations

import json
from collections.abc import Callable
from struct import pack
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.dispatch import Context
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.frames.frame import LONG_HEADER
from aiorocketmq.remoting.protocol.frames.serialization import (
    HeaderError,
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.leaves import pure_headers as pure
from aiorocketmq.remoting.protocol.signed import signed_of
from aiorocketmq.remoting.protocol.wire import FieldError, from_texts, to_fields

from ....strategies import records
from .both import compiled_leaves

compiled = compiled_leaves()
TYPES = {int(code): command.request for code, command in COMMANDS.items() if code < 1024}
"""Members of a group have higher ones among themselves, which are left to the general way."""
JSON, ROCKETMQ = SerializeType.JSON, SerializeType.ROCKETMQ
SEND = {
    "a": "group", "b": "Topic", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000",
    "h": "0",
    "i": "KEYS\1k 1\2TAGS\1T\2", "j": "0", "k": "false", "m": "true",
}  # fmt: skip
ODD = [
    "", "1", "-1", "+1", "007", "-0", " 1", "1 ", "2.0", "1e3", "0x1", "12a", "true", "TRUE",
    "false", "no", "null", "NULL",
    "é", "😀", "\0", "\x7f", '"\\/\b\f\n\r\t', "x" * 40, "2147483647", "2147483648", "-2147483648",
    "-2147483649",
    "999999999999999999", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "1" * 30,
]  # fmt: skip
int32 = st.integers(-(2**31), 2**31 - 1)


def by_the_general_rule(form: int, header: bytes) -> Any:
    """``None`` for what is refused there, and for answers."""
    try:
        command = decode_header(form, header)
        if command.is_response or command.code not in TYPES:
            return None
        fields = from_texts(TYPES[command.code], command.ext_fields or {})
    except (HeaderError, FieldError):
        return None
    return command.code, command.opaque, command.flag, command.version, fields


def found_of(request: Any, code: int, opaque: int, flag: int, version: int, *_given: Any) -> Any:
    """As the general rule has it."""
    return code, opaque, flag, version, request


def reader(headers: Any, types: Any = TYPES) -> Callable[[int, bytes], Any]:
    read = headers(types, found_of).read
    return lambda form, header: read(form, header, 5, None)


def readers() -> list[Callable[[int, bytes], Any]]:
    return [reader(compiled.Headers), reader(pure.Headers)]


READERS = readers()


SIGNED = [compiled.Headers(TYPES, found_of).signed, pure.Headers(TYPES, found_of).signed]


def check(form: int, header: bytes, *, usual: bool = False) -> None:
    """Both leave it to the general rule or say the same, the types of numbers included; what is
    usual is not left alone."""
    expected = by_the_general_rule(form, header)
    for read in READERS:
        found = read(form, header)
        assert found is None or (found == expected and repr(found) == repr(expected)), (
            found,
            expected,
        )
    assert not usual or READERS[0](form, header) is not None


def binary(
    code: int,
    pairs: list[tuple[bytes, bytes]],
    *,
    opaque: int = 7,
    flag: int = 0,
    remark: bytes = b"",
) -> bytes:
    ext = b"".join(
        pack(">h", len(key)) + key + pack(">i", len(value)) + value for key, value in pairs
    )
    return (
        pack(">hbhiii", code, 0, 409, opaque, flag, len(remark))
        + remark
        + pack(">i", len(ext))
        + ext
    )


def send(form: int, **changes: Any) -> bytes:
    return encode_header(RemotingCommand(code=310, opaque=7, ext_fields={**SEND, **changes}), form)


@pytest.mark.parametrize("code", TYPES, ids=lambda code: RequestCode(code).name)
@settings(max_examples=20)
@given(
    data=st.data(),
    opaque=int32,
    flag=st.sampled_from([0, 2]),
    form=st.sampled_from([JSON, ROCKETMQ]),
)
def test_every_command(code: int, data: st.DataObject, opaque: int, flag: int, form: int) -> None:
    fields = to_fields(data.draw(records(TYPES[code])))
    header = encode_header(
        RemotingCommand(code=code, opaque=opaque, flag=flag, ext_fields=fields), form
    )
    plain = all(
        (value.isdecimal() and len(value) < 19) or value in ("true", "false")
        for value in fields.values()
    )
    check(form, header, usual=plain)


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, bool]:
    """A JSON header of a send, its keys in any order, blanks between them, anything in it; and
    whether all is usual."""
    blank = draw(st.sampled_from(["", " ", "\n\t", "\r "]))
    escapes = draw(st.booleans())

    def written(members: dict[str, str]) -> str:
        keys = draw(st.permutations(list(members)))
        return (
            "{"
            + ",".join(
                f"{blank}{json.dumps(key)}{blank}:{blank}{members[key]}{blank}" for key in keys
            )
            + "}"
        )

    odd = draw(
        st.dictionaries(
            st.sampled_from([*SEND, "n", "x", "", "é"]), st.sampled_from(ODD), max_size=3
        )
    )
    fields = {key: json.dumps(value, ensure_ascii=escapes) for key, value in (SEND | odd).items()}
    if draw(st.integers(0, 9)) == 0:
        fields[draw(st.sampled_from([*SEND, "x"]))] = draw(
            st.sampled_from(["null", "1", "-0", "true", "[]", "{}", "1.5"])
        )
        odd["bare"] = ""
    envelope = {
        "code": "310",
        "extFields": written(fields),
        "flag": "0",
        "opaque": str(draw(int32)),
        "version": "409",
    }
    envelope |= {"language": '"JAVA"', "serializeTypeCurrentRPC": '"JSON"'}
    strange = st.sampled_from(
        ["null", "1", "-0", "01", '"1"', "2147483648", "1.0", "{}", '"é"', '"\\u0041"', "true", ""]
    )
    changes = draw(
        st.dictionaries(st.sampled_from([*envelope, "remark", "x"]), strange, max_size=1)
    )
    return blank + written(envelope | changes) + blank, not odd and not changes


@settings(max_examples=settings().max_examples * 5)
@given(objects())
def test_json_in_any_order(written: tuple[str, bool]) -> None:
    text, usual = written
    check(JSON, text.encode(), usual=usual)


@settings(max_examples=settings().max_examples * 5)
@given(
    st.sampled_from([JSON, ROCKETMQ]),
    st.dictionaries(st.sampled_from([*SEND, "n", "x"]), st.sampled_from(ODD), max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(["change", "insert", "delete", "repeat", "cut"]),
            st.integers(0, 999),
            st.integers(0, 255),
        )
    ),
)
@example(JSON, {"m": "1"}, [])
@example(ROCKETMQ, {"m": "1"}, [])
def test_what_was_changed_is_read_as_the_general_rule_reads_it(
    form: int, fields: dict[str, str], changes: list[tuple[str, int, int]]
) -> None:
    header = bytearray(send(form, **fields))
    for change, place, byte in changes:
        at = place % (len(header) + 1)
        if change == "change" and at < len(header):
            header[at] = byte
        elif change == "insert":
            header[at:at] = b'"\\{}:, nu0\x80'[byte % 11 : byte % 11 + 1]
        elif change == "repeat":
            header[at:at] = header[byte : byte + 12]
        else:
            del header[at : at + 1 if change == "delete" else len(header) - 1]
    check(form, bytes(header))


@given(st.sampled_from([JSON, ROCKETMQ]), st.binary(max_size=80))
def test_garbage(form: int, garbage: bytes) -> None:
    check(form, garbage)
    check(form, b'{"code":310,' + garbage)


@pytest.mark.parametrize("form", [JSON, ROCKETMQ])
def test_every_end(form: int) -> None:
    """Copied, so that a sanitizer sees whoever reads on."""
    for header in (send(form), send(form, i="é" * 50 + "\1" * 50), send(form, x="y" * 33)):
        for end in range(len(header) + 1):
            check(form, bytes(bytearray(header[:end])), usual=end == len(header))


@pytest.mark.parametrize("form", [JSON, ROCKETMQ])
@pytest.mark.parametrize("size", [15, 16, 17, 4000, 5000, 40_000])
@pytest.mark.parametrize("character", ["x", "\2", "é", "\\"])
def test_long_texts(form: int, size: int, character: str) -> None:
    check(form, send(form, i=character * size), usual=True)
    check(form, send(form, x=character * size))


ESCAPES = [
    '\\"',
    "\\\\",
    "\\/",
    "\\b",
    "\\f",
    "\\n",
    "\\r",
    "\\t",
    "\\u0000",
    "\\u007f",
    "\\u0080",
    "\\u07ff",
    "\\u0800",
]
ESCAPES += ["\\uFfFf", "\\ud7ff", "\\ue000", "\\u20AC", "a\\u0001b\\u0002c"]
WRONG = [
    "\\",
    "\\x",
    "\\u",
    "\\u1",
    "\\u12",
    "\\u123",
    "\\u123g",
    "\\u-001",
    "\\uD83D\\uDE00",
    "\\ud83d",
    "\\ude00",
    "\\U0041",
    "\\'",
]
WRONG += ["\n", "\x1f", "\x00"]


@pytest.mark.parametrize("text", ESCAPES + WRONG)
@pytest.mark.parametrize("key", ["b", "x", "i"])
def test_escapes(text: str, key: str) -> None:
    fields = ",".join(f'"{k}":{json.dumps(v)}' for k, v in SEND.items() if k != key)
    for behind in ("", "z", "0123456789abcdef"):
        header = (
            f'{{"code":310,"extFields":{{"{key}":"{text}{behind}",{fields}}},"opaque":7}}'.encode()
        )
        assert text in ESCAPES or behind[:1].isdigit() or READERS[0](JSON, header) is None
        check(
            JSON,
            header,
            usual=text in ESCAPES and text.isascii() and (key != "x" or text[2:] < "u0080"),
        )


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":310,"code":310,"extFields":%b}',
        b'{"code":310,"extFields":{},"extFields":%b}',
        b'{"code":310,"extFields":%b,"extFields":{}}',
        b'{"code":310,"extFields":%b,"code":17}',
        b'{"code":310,"extFields":%b,"x":"\xff"}',
        b'{"code":310,"extFields":%b,"x":"\\ud800"}',
        b'{"code":310,"extFields":%b,"x":"\\x"}',
        b'{"extFields":%b,"extFields":{},"code":310}',
        b'{"code":310,"extFields":%b,"opaque":1,"opaque":2}',
        b'{"code":310,"extFields":%b,}',
        b'{"code":310,"extFields":%b} x',
        b'{"code":310 "extFields":%b}',
        b'\xef\xbb\xbf{"code":310,"extFields":%b}',
        b'{"code":310,"extFields":%b,"":"""}',
        b'{"code":310,"extFields":%b,"flag":1}',
        b'{"code":999,"extFields":%b}',
        b'{"code":99999,"extFields":%b}',
        b'{"code":-1,"extFields":%b}',
        b"[%b]",
    ],
)
def test_odd_envelopes(header: bytes) -> None:
    check(JSON, header % json.dumps(SEND).encode())
    assert READERS[0](JSON, header % json.dumps(SEND).encode()) is None


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"a\xff", b"n" * 20 + b"\xff"]
)
def test_what_is_no_utf_8_where_nobody_reads(bad: bytes) -> None:
    """What becomes of such a key or value is for the general rule to say."""
    fields = json.dumps(SEND).encode()
    pairs = [(name.encode(), text.encode()) for name, text in SEND.items()]
    for key, value in ((bad, b"x"), (b"x", bad), (bad, b""), (bad, bad)):
        pair = b'"%b":"%b"' % (key, value)
        for ext, more in (
            (b"{%b,%b" % (pair, fields[1:]), b""),
            (b"%b,%b}" % (fields[:-1], pair), b""),
            (fields, b"," + pair),
        ):
            header = b'{"code":310,"extFields":%b%b,"opaque":7}' % (ext, more)
            check(JSON, header)
            assert READERS[0](JSON, header) is None
        for ordered in ([(key, value), *pairs], [*pairs, (key, value)]):
            check(ROCKETMQ, binary(310, ordered))
            assert not value or READERS[0](ROCKETMQ, binary(310, ordered)) is None


def test_keys_that_stand_twice() -> None:
    """The last one counts. Java clients with an access key write all fields twice in binary
    headers."""
    pairs = [(key.encode(), text.encode()) for key, text in SEND.items()]
    check(ROCKETMQ, binary(310, pairs + pairs), usual=True)
    check(ROCKETMQ, binary(310, [*pairs, (b"b", b"Other")]), usual=True)
    for more in (
        [(b"b", b"")],
        [(b"", b"x")],
        [(b"b", b"\xff"), (b"b", b"T")],
        [(b"x", b"\xff")],
        [(b"\xff", b"x")],
    ):
        check(ROCKETMQ, binary(310, pairs + more))
    twice = json.dumps(SEND)[:-1] + ', "b": %s, "e": "7"}'
    for text in ('"Other"', "null", '"\\n"', "1"):
        check(JSON, f'{{"code":310,"extFields":{twice % text}}}'.encode(), usual=text[0] == '"')


def test_binary_heads() -> None:
    pairs = [(key.encode(), text.encode()) for key, text in SEND.items()]
    for opaque in (-(2**31), 2**31 - 1):
        check(ROCKETMQ, binary(310, pairs, opaque=opaque, flag=2), usual=True)
    for header in (
        binary(310, pairs, flag=1), binary(310, pairs, remark=b"why"), binary(999, pairs),
        binary(-310, pairs),
        binary(310, pairs) + b"\0", binary(310, pairs)[:20],
    ):  # fmt: skip
        check(ROCKETMQ, header)
        assert all(read(ROCKETMQ, header) is None for read in READERS)
    good = binary(310, pairs)
    for at in range(13, len(good)):
        for byte in (0, 1, 0x7F, 0x80, 0xFF):
            check(ROCKETMQ, good[:at] + bytes([byte]) + good[at + 1 :])


@pytest.mark.parametrize(
    "form", [SerializeType.MSGPACK, 9, -1, JSON | LONG_HEADER, ROCKETMQ | LONG_HEADER]
)
def test_other_forms_are_left_to_the_general_rule(form: int) -> None:
    assert [read(form, send(form & 1)) for read in readers()] == [None, None]


def test_what_is_no_field_of_a_header_is_no_leaf_either() -> None:
    class Nested(SendMessageRequestV2, frozen=True, kw_only=True):
        more: list[int] = []  # noqa: RUF012 - msgspec copies it

    read = reader(compiled.Headers, {310: Nested, 5: SendMessageRequestV2})
    assert read(JSON, send(JSON)) is None
    assert read(JSON, send(JSON).replace(b"310", b"5"))[4].topic == "Topic"


def test_errors_of_the_caller() -> None:
    for headers in (compiled.Headers, pure.Headers):
        with pytest.raises(TypeError):
            headers()  # type: ignore[call-arg]
        assert reader(headers, {})(JSON, send(JSON)) is None
    with pytest.raises(TypeError):
        compiled.Headers(TYPES, found_of).read(JSON, "text", 5, None)


# -- what is signed


def test_what_is_signed_is_the_same_by_the_leaf_and_by_the_general_rule() -> None:
    fields = {**SEND, "AccessKey": "me", "Signature": "c2ln", "zz": 'é\n"', "A": "", "aa": "1"}
    content = "".join(
        value for name, value in sorted(fields.items()) if name != "Signature"
    ).encode()
    for form in (JSON, ROCKETMQ):
        header = encode_header(RemotingCommand(code=310, opaque=7, ext_fields=fields), form)
        found = [signed(form, header) for signed in SIGNED]
        assert found[0] in (None, ("me", b"c2ln", content))
        assert found[1] in (None, ("me", b"c2ln", content))
    plain = {**fields, "zz": "plain"}
    for form in (JSON, ROCKETMQ):
        header = encode_header(RemotingCommand(code=310, opaque=7, ext_fields=plain), form)
        found = SIGNED[0](form, header)
        assert found == signed_of(decode_header(form, header).ext_fields or {})
        assert found is not None


@settings(max_examples=300)
@given(
    fields=st.dictionaries(
        st.one_of(
            st.sampled_from([*SEND, "AccessKey", "Signature", "_UNIQUE_KEY_QUERY"]),
            st.text(max_size=9),
        ),
        st.one_of(st.sampled_from(ODD), st.text(max_size=20)),
        max_size=80,
    ),
    usual=st.booleans(),
    form=st.sampled_from([JSON, ROCKETMQ]),
    ascii_only=st.booleans(),
    shuffled=st.randoms(use_true_random=False),
)
def test_whatever_is_signed(
    fields: dict[str, str], usual: bool, form: int, ascii_only: bool, shuffled: Any
) -> None:
    fields = {**fields, **(SEND if usual else {}), "AccessKey": "me", "Signature": "c2ln"}
    names = list(fields)
    shuffled.shuffle(names)
    fields = {name: fields[name] for name in names}
    try:
        header = encode_header(RemotingCommand(code=310, opaque=7, ext_fields=fields), form)
        if form == JSON and not ascii_only:
            header = json.dumps(
                {"extFields": fields, "code": 310, "opaque": 7}, ensure_ascii=False
            ).encode()
        expected = signed_of(decode_header(form, header).ext_fields or {})
    except (HeaderError, UnicodeEncodeError):
        return
    for signed in SIGNED:
        found = signed(form, header)
        assert found is None or found == expected


@pytest.mark.parametrize("take", [1, 2, 7])
@given(data=st.data())
def test_what_is_signed_of_a_garbled_header(take: int, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from([JSON, ROCKETMQ]))
    header = bytearray(send(form, AccessKey="me", Signature="c2ln", zz="more"))
    for _ in range(take):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = signed_of(decode_header(form, bytes(header)).ext_fields or {})
    except HeaderError:
        expected = None
    except RecursionError:
        return
    for signed in SIGNED[: 1 if expected is None else 2]:
        found = signed(form, bytes(header))
        assert found is None or found == expected


def test_more_fields_than_anybody_signs_are_left_to_the_general_rule() -> None:
    few, many = ({f"k{number:02d}": "v" for number in range(count)} for count in (40, 60))
    assert SIGNED[0](JSON, send(JSON, AccessKey="me", Signature="s", **few)) is not None
    assert SIGNED[0](JSON, send(JSON, AccessKey="me", Signature="s", **many)) is None


def test_short_texts_are_the_same_objects_again() -> None:
    """Names come in every request: theirs have their hash already. A long text, or another one,
    takes nothing away."""
    read = reader(compiled.Headers)
    for form in (JSON, ROCKETMQ):
        made = []
        for topic in (
            "Topic",
            "Topic",
            "t" * 65,
            "t" * 65,
            "Tüpic",
            "Tüpic",
            *(f"T{number}" for number in range(1000)),
        ):
            command = RemotingCommand(code=310, ext_fields={**SEND, "b": topic})
            _, _, _, _, request = read(form, encode_header(command, form))
            assert request.topic == topic
            made.append(request.topic)
        assert made[0] is made[1]
        assert made[2] is not made[3]


def test_a_struct_is_made_without_being_called() -> None:
    """The same as when it is."""
    header = encode_header(
        RemotingCommand(code=310, opaque=77777, version=433, ext_fields=SEND), JSON
    )
    connection: Any = object()
    contexts = [
        kind.Headers(TYPES, Context).read(JSON, header, 1 << 40, connection)
        for kind in (compiled, pure)
    ]
    assert contexts[0] == contexts[1]
    assert type(contexts[0]) is Context
    assert (contexts[0].opaque, contexts[0].connection, contexts[0].raw_header) == (
        77777,
        connection,
        header,
    )
    with pytest.raises(TypeError, match="9 fields"):
        compiled.Headers(TYPES, SendMessageRequestV2)
