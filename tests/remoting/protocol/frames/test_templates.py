import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2, SendMessageResponse
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.frames.templates import (
    NO_HEADER,
    encoder_for,
    fields_piece,
    remark_piece,
    reply_template,
    request_template,
)
from aiorocketmq.remoting.protocol.wire import NoFields, Record, to_fields

from ....strategies import records

HEADER_TYPES = sorted(
    {t for command in COMMANDS.values() for t in (command.request, command.response)},
    key=lambda t: t.__name__,
)
int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize("header_type", HEADER_TYPES, ids=lambda t: t.__name__)
@settings(
    max_examples=settings().max_examples // 4
)  # for each of sixty types, which share one encoder
@given(
    data=st.data(),
    code=int32,
    flag=int32,
    opaque=int32,
    remark=st.none() | text,
    extra=st.dictionaries(text, text, max_size=3),
)
def test_templates_write_what_the_general_encoder_writes(
    header_type: type[Record],
    data: st.DataObject,
    code: int,
    flag: int,
    opaque: int,
    remark: str | None,
    extra: dict[str, str],
) -> None:
    header = data.draw(records(header_type))
    fields = to_fields(header)
    extra = {f"x{name}": value for name, value in extra.items() if f"x{name}" not in fields}
    encoded = encoder_for(header_type).full(
        code, header, flag, opaque, remark_piece(remark), fields_piece(extra)
    )
    command = RemotingCommand(
        code=code, flag=flag, opaque=opaque, remark=remark, ext_fields=fields | extra
    )
    assert decode_header(0, encoded) == command
    assert len(encoded) == len(encode_header(command))
    plain = RemotingCommand(code=0, flag=1, opaque=opaque, ext_fields=fields)
    assert decode_header(0, encoder_for(header_type).plain(header, opaque)) == plain


def test_without_header_object_there_is_no_ext_fields_key() -> None:
    encoded = NO_HEADER.full(0, None, 1, 7, b"", b"")
    assert encoded == encode_header(RemotingCommand(code=0, flag=1, opaque=7))
    assert NO_HEADER.plain(None, 7) == encoded
    assert b"extFields" not in encoded


def test_an_empty_header_object_is_written() -> None:
    assert b'"extFields":{}' in encoder_for(NoFields).full(
        int(RequestCode.HEART_BEAT), NoFields(), 0, 1, b"", b""
    )


@given(text, st.booleans(), st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1), int32)
def test_a_reply_template_writes_what_the_general_encoder_writes(
    region: str, trace_on: bool, offset: int, queue_id: int, opaque: int
) -> None:
    holes = {"msg_id": b"7F00000100002A9F%016X", "queue_id": b"%d", "queue_offset": b"%d"}
    fixed = SendMessageResponse(
        msg_id="", queue_id=0, queue_offset=0, trace_on=trace_on, msg_region=region
    )
    header = reply_template(fixed, holes) % (offset, queue_id, offset, opaque)
    filled = SendMessageResponse(
        msg_id=f"7F00000100002A9F{offset:016X}",
        queue_id=queue_id,
        queue_offset=offset,
        trace_on=trace_on,
        msg_region=region,
    )
    assert decode_header(0, header) == RemotingCommand(
        code=0, flag=1, opaque=opaque, ext_fields=to_fields(filled)
    )


@given(text, st.integers(0, 2**31 - 1), int32)
@example("100 %d", 1, 2)
def test_a_reply_template_with_a_remark(remark: str, queue_id: int, opaque: int) -> None:
    header = SendMessageResponse(msg_id="m", queue_id=queue_id, queue_offset=1)
    template = reply_template(header, {"queue_id": b"%d"}, remark)
    full = encoder_for(SendMessageResponse).full(0, header, 1, opaque, remark_piece(remark), b"")
    assert template % (queue_id, opaque) == full


@given(text, st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1), int32)
def test_a_request_template_writes_what_the_general_encoder_writes(
    properties: str, born: int, sys_flag: int, opaque: int
) -> None:
    holes = {"sys_flag": b'"%d"', "born_timestamp": b'"%d"', "properties": b"%b"}
    fixed = SendMessageRequestV2(
        producer_group="100%", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=3,
        sys_flag=0, born_timestamp=0, flag=0, properties="", bname="b",
    )  # fmt: skip
    template = request_template(int(RequestCode.SEND_MESSAGE_V2), fixed, holes)
    header = template % (sys_flag, born, msgspec.json.encode(properties), opaque)
    filled = msgspec.structs.replace(
        fixed, sys_flag=sys_flag, born_timestamp=born, properties=properties
    )
    expected = RemotingCommand(
        code=int(RequestCode.SEND_MESSAGE_V2), opaque=opaque, ext_fields=to_fields(filled)
    )
    assert decode_header(0, header) == expected
