import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.codes import LanguageCode
from aiorocketmq.remoting.protocol.frames.serialization import (
    MAX_TOLERANT_BYTES,
    HeaderError,
    RemotingCommand,
    SerializeType,
    decode_head,
    decode_header,
    encode_header,
)

text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
some_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
commands = st.builds(
    RemotingCommand,
    code=st.integers(-(2**15), 2**15 - 1),
    language=st.sampled_from(LanguageCode),
    version=st.integers(0, 2**15 - 1),
    opaque=int32,
    flag=int32,
    remark=st.none() | some_text,
    ext_fields=st.none() | st.dictionaries(some_text, some_text, min_size=1, max_size=6),
)


@pytest.mark.parametrize("form", list(SerializeType))
def test_a_head_takes_little_memory(form: SerializeType) -> None:
    header = encode_header(RemotingCommand(code=7, opaque=-3, flag=2), form)
    decode_head(form, header)
    tracemalloc.start()
    try:
        head = decode_head(form, header)
        assert tracemalloc.get_traced_memory()[1] < 64 << 10
    finally:
        tracemalloc.stop()
    assert (head.code, head.opaque, head.flag) == (7, -3, 2)


@pytest.mark.parametrize("form", list(SerializeType))
@given(command=commands)
def test_round_trip_in_every_form(form: SerializeType, command: RemotingCommand) -> None:
    assert decode_header(form, encode_header(command, form)) == command


def test_json_is_what_the_original_writes() -> None:
    header = (
        b'{"code":17,"flag":1,"language":"JAVA","opaque":7,"remark":"No topic \\"x\\" '
        b'/\xc3\xa9\\n",'
    )
    header += b'"serializeTypeCurrentRPC":"JSON","version":409}'
    assert encode_header(decode_header(0, header)) == header


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b'{"code":105}', RemotingCommand(code=105, language=LanguageCode.JAVA, version=0)),
        (
            b' { "opaque" : "7", "code" : 105 } ',
            RemotingCommand(code=105, language=LanguageCode.JAVA, version=0, opaque=7),
        ),
        (b'{"code":1,"language":"KLINGON"}', RemotingCommand(code=1, language=None, version=0)),
        (
            b'{"code":1,"language":3}',
            RemotingCommand(code=1, language=LanguageCode.PYTHON, version=0),
        ),
        (
            b'{"code":1,"extFields":{"a":1,"b":true,"c":null,"d":1.5},"x":[1]}',
            RemotingCommand(
                code=1,
                language=LanguageCode.JAVA,
                version=0,
                ext_fields={"a": "1", "b": "true", "d": "1.5"},
            ),
        ),
        (
            b"{'code':1,extFields:{'a':'b',},}",
            RemotingCommand(code=1, language=LanguageCode.JAVA, version=0, ext_fields={"a": "b"}),
        ),
    ],
)
def test_json_input_is_tolerated_as_the_original_does(
    header: bytes, expected: RemotingCommand
) -> None:
    assert decode_header(0, header) == expected


@pytest.mark.parametrize("form", [*SerializeType, 2, 255])
@given(header=st.binary(max_size=80))
def test_garbage_is_refused_or_read_but_never_crashes(form: int, header: bytes) -> None:
    try:
        decode_header(form, header)
    except HeaderError:
        pass


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"{}", b'{"code":"x"}', b'{"code":1,"extFields":[]}', b'{"code":99999999999}'],
)
def test_json_without_a_usable_code_is_refused(header: bytes) -> None:
    with pytest.raises(HeaderError):
        decode_header(0, header)


def test_binary_lengths_are_checked() -> None:
    good = encode_header(
        RemotingCommand(code=105, opaque=7, ext_fields={"topic": "TopicTest"}),
        SerializeType.ROCKETMQ,
    )
    for end in range(len(good)):
        with pytest.raises(HeaderError):
            decode_header(SerializeType.ROCKETMQ, good[:end])


def test_binary_cannot_carry_the_long_codes_of_5x() -> None:
    with pytest.raises(ValueError, match="use JSON"):
        encode_header(RemotingCommand(code=200050), SerializeType.ROCKETMQ)


def test_only_short_headers_may_take_liberties() -> None:
    """Reading those is slow, and a server that reads one serves nobody else."""
    padding = b" " * MAX_TOLERANT_BYTES
    assert decode_header(0, b"{code:7}").code == 7
    assert decode_header(0, b'{"code":7}' + padding).code == 7
    with pytest.raises(HeaderError, match="no standard JSON"):
        decode_header(0, b"{code:7}" + padding)
