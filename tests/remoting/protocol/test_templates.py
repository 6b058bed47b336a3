import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.serialization import RemotingCommand, decode_header, encode_header
from aiorocketmq.remoting.protocol.templates import NO_HEADER, encoder_for, fields_piece, remark_piece
from aiorocketmq.remoting.protocol.wire import NoFields, Record, to_fields

from ...strategies import records

HEADER_TYPES = sorted(
    {t for command in COMMANDS.values() for t in (command.request, command.response)}, key=lambda t: t.__name__
)
int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize("header_type", HEADER_TYPES, ids=lambda t: t.__name__)
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
    encoded = encoder_for(header_type).full(code, header, flag, opaque, remark_piece(remark), fields_piece(extra))
    command = RemotingCommand(code=code, flag=flag, opaque=opaque, remark=remark, ext_fields=fields | extra)
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
    assert b'"extFields":{}' in encoder_for(NoFields).full(int(RequestCode.HEART_BEAT), NoFields(), 0, 1, b"", b"")
