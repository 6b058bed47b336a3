"""fastjson's dialect: what it reads besides JSON, and what it writes to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import field

from aiorocketmq.remoting.protocol.bodies.reset import ResetOffsetBody
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import LanguageCode
from aiorocketmq.remoting.protocol.fastjson import writer as fastjson_writer
from aiorocketmq.remoting.protocol.fastjson.reader import JsonError, ObjectKey, loads
from aiorocketmq.remoting.protocol.fastjson.writer import java_double
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.wire import Record

from ....strategies import wire_text

LIBERAL = "/* not standard */"
"""In front of a text: msgspec refuses it, so that our own parser reads the rest."""

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | wire_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(wire_text, inner, max_size=4),
    max_leaves=20,
)

# --- reading
# --------------------------------------------------------------------------------------------------


@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_our_parser_reads_all_standard_json(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert loads(LIBERAL + text) == value
    assert loads(text) == value
    assert loads(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",-1:"b",12:"c"}', {0: "a", -1: "b", 12: "c"}),
        ('{"0":"a"}', {"0": "a"}),
        ("{a:1,$b_2:2,ключ:3}", {"a": 1, "$b_2": 2, "ключ": 3}),
        ("{'a':'it\\'s \"x\"'}", {"a": 'it\'s "x"'}),
        ("[1,2,]", [1, 2]),
        ('{,"a":1,,"b":2,}', {"a": 1, "b": 2}),
        ("[]", []),
        ("{}", {}),
        (" \n{ \t0 : 1 }\r\n", {0: 1}),
        ("// one\n[1 /* two */]", [1]),
        ("\ufeff[1]", [1]),
        ("[NaN,undefined,null]", [None, None, None]),
        ("[1L,2.5D,1e2,-0]", [1, 2.5, 100.0, 0]),
        ("{0:1,0:2}", {0: 2}),
        ('{{"brokerName":"b","queueId":3}:5}', {ObjectKey(brokerName="b", queueId=3): 5}),
        ("{{a:1}:{{b:2}:3}}", {ObjectKey(a=1): {ObjectKey(b=2): 3}}),
        ('["a\nb"]', ["a\nb"]),
        (r"['\x41\u0042\/\v\1']", ["AB/\v\1"]),
        (r'["\uD83D\uDE00\uD83D"]', ["\U0001f600?"]),
    ],
)
def test_what_fastjson_takes_besides(text: str, value: Any) -> None:
    assert loads(text) == value
    assert loads(text.encode()) == value


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert loads(b"['\xff']") == ["\ufffd"]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("{", 1),
        ("[1", 2),
        ("{0:}", 3),
        ("{0 1}", 3),
        ("[1 2]", 3),
        ("[tru]", 1),
        ("'abc", 0),
        (r"'\q'", 1),
        ("{1.5:1}", 4),
        ("{12ab:1}", 1),
        ("{{a:[1]}:1}", 1),
        ("[1]]", 3),
        ("[1.2.3]", 1),
        ("/* no end", 0),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, position: int) -> None:
    with pytest.raises(JsonError, match=f"at position {position}$") as refused:
        loads(text)
    assert refused.value.position == position


@example("{0:{'a':[")
@given(
    st.text(alphabet="{}[]:,'\"\\/*0123456789.-eLNau$ \n\t\ud800", max_size=40)
    | st.text(max_size=40)
)
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        loads(text)
    except JsonError:
        pass


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    try:
        loads(data)
    except JsonError:
        pass


@pytest.mark.parametrize("opening", ["[", "{0:", "{{a:0}:", "{'a':["])
def test_depth_is_limited(opening: str) -> None:
    with pytest.raises(JsonError, match="nested deeper than 64 levels"):
        loads(LIBERAL + opening * 100_000)


def test_size_is_limited() -> None:
    with pytest.raises(JsonError, match="11 bytes of JSON are over the limit of 10"):
        loads("[" + " " * 9 + "]", max_bytes=10)
    with pytest.raises(JsonError, match="more than 400 characters"):
        loads(LIBERAL + "1" * 5000)


# --- references
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{"x":1},"b":{"$ref":"$.a"}}', {"a": {"x": 1}, "b": {"x": 1}}),
        ('{"a":[1,{"x":2}],"b":{"$ref":"$.a[1]"}}', {"a": [1, {"x": 2}], "b": {"x": 2}}),
        ('{"b":{"$ref":"$.a.c"},"a":{"c":[3]}}', {"a": {"c": [3]}, "b": [3]}),
        ('{"a b":{"x":1},"b":{"$ref":"$.a\\\\ b"}}', {"a b": {"x": 1}, "b": {"x": 1}}),
        ('{"a.b":{"x":1},"b":{"$ref":"$[\'a.b\']"}}', {"a.b": {"x": 1}, "b": {"x": 1}}),
        ('{"m":{0:{"x":1}},"b":{"$ref":"$.m[0]"}}', {"m": {0: {"x": 1}}, "b": {"x": 1}}),
        ('{"m":{7:{"x":1}},"b":{"$ref":"$.m.7"}}', {"m": {7: {"x": 1}}, "b": {"x": 1}}),
        (
            '{"a":{"x":1},"b":{"$ref":"$.a"},"c":{"$ref":"$.b"}}',
            {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1}},
        ),
        (
            '{"c":{"$ref":"$.b"},"b":{"$ref":"$.a"},"a":{"x":1}}',
            {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1}},
        ),
        ('{"b":{"$ref":"$.nothing[3].here"}}', {"b": None}),
        ('{"b":{"$ref":"$.c"},"c":{"$ref":"$.b"}}', {"b": None, "c": None}),
        ('{"$ref":"$"}', None),
        ('{"$ref":1}', {"$ref": 1}),
    ],
)
def test_references_name_other_places(text: str, value: Any) -> None:
    assert loads(text) == value


def test_references_to_what_is_around_them() -> None:
    whole = loads('{"a":{"itself":{"$ref":"@"},"around":{"$ref":".."},"all":[{"$ref":"$"}]}}')
    assert whole["a"]["itself"] is whole["a"]
    assert whole["a"]["around"] is whole
    assert whole["a"]["all"][0] is whole


# --- writing
# --------------------------------------------------------------------------------------------------

QUEUE = MessageQueue("T", "b", 3)
ROUTE = TopicRouteData(
    broker_datas=[
        BrokerData(
            cluster="C1", broker_name="b1", broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
        )
    ],
    queue_datas=[QueueData(broker_name="b1", read_queue_nums=8, write_queue_nums=8, perm=6)],
)


@given(json_values)
def test_compact_text_is_json(value: Any) -> None:
    assert json.loads(fastjson_writer.dumps(value)) == _without_null_values(value)


@given(json_values)
def test_browser_text_is_ascii_json(value: Any) -> None:
    text = fastjson_writer.dumps_browser_compatible(value)
    assert text.isascii()
    assert json.loads(text) == _big_numbers_as_text(_without_null_values(value))


@given(json_values)
def test_pretty_text_says_the_same(value: Any) -> None:
    assert loads(fastjson_writer.dumps_pretty(value)) == _without_null_values(value)


def _without_null_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_null_values(inner) for key, inner in value.items() if inner is not None
        }
    return [_without_null_values(inner) for inner in value] if isinstance(value, list) else value


def _big_numbers_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _big_numbers_as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_big_numbers_as_text(inner) for inner in value]
    return str(value) if type(value) is int and abs(value) > 2**53 - 1 else value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            ROUTE.queue_datas[0],
            '{"brokerName":"b1","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}',
        ),
        ({"T@g": {0: 5, 1: 2**40}}, '{"T@g":{0:5,1:1099511627776}}'),
        ({QUEUE: 5}, '{{"brokerName":"b","queueId":3,"topic":"T"}:5}'),
        (ResetOffsetBody(), '{"offsetTable":{}}'),
        ({"b": None, "a": []}, '{"a":[]}'),
        ([None, True, False], "[null,true,false]"),
        ([0.0, 1.5, float("nan"), float("-inf")], "[0.0,1.5,null,null]"),
        (LanguageCode.PYTHON, '"PYTHON"'),
        ((1, 2), "[1,2]"),
        ('"\\/\x00\x01\x1f\b\f\n\r\t', r'"\"\\/\u0000\u0001\u001F\b\f\n\r\t"'),
        ("é\x7f\x9f\xa0\u2028\U0001f600", '"é\\u007F\\u009F\xa0\\u2028\U0001f600"'),
        ({"a\nb": {"c\x7f": "\x01 x"}}, r'{"a\nb":{"c\u007F":"\u0001 x"}}'),
        ("\ud800", '"?"'),
        (2**70, "1180591620717411303424"),
    ],
)
def test_compact_form(value: Any, text: str) -> None:
    assert fastjson_writer.dumps(value).decode() == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            ROUTE.broker_datas[0],
            '{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"b1","cluster":"C1"}',
        ),
        ({10: 1, 9: 2}, '{"9":2,"10":1}'),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ("a/\x01\x1fé\x7e\x7f\U0001f600\n", r'"a\/\u0001\u001F\u00E9~\u007F\uD83D\uDE00\n"'),
        ([2**53 - 1, 2**53, -(2**53)], '[9007199254740991,"9007199254740992","-9007199254740992"]'),
        ({QUEUE: 5}, r'{"{\"brokerName\":\"b\",\"queueId\":3,\"topic\":\"T\"}":5}'),
    ],
)
def test_browser_compatible_form(value: Any, text: str) -> None:
    assert fastjson_writer.dumps_browser_compatible(value).decode() == text


def test_pretty_form_of_a_route() -> None:
    """As mqadmin topicRoute prints it (admin-cli.md §3.4)."""
    expected = """{
	"brokerDatas":[
		{
			"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"
			},
			"brokerName":"b1",
			"cluster":"C1"
		}
	],
	"filterServerTable":{},
	"queueDatas":[
		{
			"brokerName":"b1",
			"perm":6,
			"readQueueNums":8,
			"topicSysFlag":0,
			"writeQueueNums":8
		}
	]
}"""
    assert fastjson_writer.dumps_pretty(ROUTE) == expected


def test_pretty_form_of_local_offsets() -> None:
    """The offsets.json of a broadcasting consumer (client.md §4.10)."""
    body = ResetOffsetBody(
        offset_table={MessageQueue("Orders", "b1", 2): 17, MessageQueue("Orders", "b1", 0): 9}
    )
    expected = """{
	"offsetTable":{{
			"brokerName":"b1",
			"queueId":2,
			"topic":"Orders"
		}:17,{
			"brokerName":"b1",
			"queueId":0,
			"topic":"Orders"
		}:9
	}
}"""
    assert fastjson_writer.dumps_pretty(body) == expected


def test_pretty_form_of_sequences() -> None:
    assert fastjson_writer.dumps_pretty({"list": [1, 2], "array": (1, 2), "none": []}) == (
        '{\n\t"list":[\n\t\t1,\n\t\t2\n\t],\n\t"array":[1,2],\n\t"none":[]\n}'
    )


def test_keys_are_sorted_by_wire_name() -> None:
    class Renamed(Record, frozen=True):
        first: int = field(name="z", default=1)
        second: int = field(name="a", default=2)

    for write in (fastjson_writer.dumps, fastjson_writer.dumps_browser_compatible):
        assert write(Renamed()) == b'{"a":2,"z":1}'


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="JSON has no form for a object"):
        fastjson_writer.dumps([object()])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0588235294117647, "1.0588235294117647"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.25e-5, "-1.25E-5"),
        (0.001, "0.001"),
        (123456789012.5, "1.234567890125E11"),
        (1e300, "1.0E300"),
    ],
)
def test_numbers_as_java_writes_them(number: float, text: str) -> None:
    assert java_double(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_java_numbers_keep_their_value(number: float) -> None:
    assert float(java_double(number)) == number
