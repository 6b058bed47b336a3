"""What people write, and what other servers tell in words: properties, addresses, options."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.daemon import BROKER, RECORDS
from aiorocketmq.client.admin.raft import _from_figures
from aiorocketmq.client.cluster.address_server import first_line
from aiorocketmq.client.cluster.replies import pushed_message
from aiorocketmq.client.cluster.route_cache import template_route, topic_route
from aiorocketmq.client.cluster.server_addresses import parse_addresses, split_addresses
from aiorocketmq.client.consumer.pulling import read_pulled
from aiorocketmq.client.consumer.subscription import tag_subscription
from aiorocketmq.client.credentials import read_key_file
from aiorocketmq.client.errors import ConfigError, DeserializationError
from aiorocketmq.client.namespaces import _split, namespace_of_address
from aiorocketmq.client.offsets.local_offsets import OffsetFile
from aiorocketmq.client.producer.trace_records import decode_trace
from aiorocketmq.client.serialization import (
    JsonSerializer,
    MsgpackSerializer,
    Serializer,
)
from aiorocketmq.daemon.launch import LaunchError, read_properties_file
from aiorocketmq.daemon.pid_files import _read as read_pid
from aiorocketmq.remoting.errors import ConnectError, RocketMQError
from aiorocketmq.remoting.protocol.bodies.codec import BodyError, decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.bodies.route import TopicRouteData
from aiorocketmq.remoting.protocol.commands.pull import PullMessageResponse
from aiorocketmq.remoting.protocol.commands.send import ReplyMessageRequest
from aiorocketmq.remoting.protocol.fastjson.writer import dumps_pretty
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.java_properties import (
    PropertyError,
    format_properties,
    parse_properties,
    record_from_properties,
    update_record,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.address import split_address
from aiorocketmq.remoting.transport.tls import TlsConfig, TlsError, client_context, server_tls
from aiorocketmq.tools.mqadmin.java_text import parse_time
from aiorocketmq.tools.mqhealth import UnhealthyError, read_answer

from ..client.messages import stored
from .parsers import Parser, same, text_of
from .records import records
from .samples import sample_of

# --- properties


def _properties(data: bytes) -> object:
    found = parse_properties(text_of(data), "a.conf")
    named = {each.name: each.value for each in found}
    again = parse_properties(format_properties(named), "")
    same({each.name: each.value for each in again}, named, "written and read again")
    return named


def _configuration(data: bytes) -> object:
    """As the first start and a change at run time read them."""
    found = parse_properties(text_of(data), "a.conf")
    for record in RECORDS:
        record_from_properties(record, found, aliases=BROKER.aliases)
    return update_record(BrokerConfig(), found)


def _property_seeds() -> Iterator[bytes]:
    yield format_properties(
        {"brokerName": "a b", "listenPort": "10911", "own": "\\\\ü\t="}
    ).encode()
    yield b"# comment\nbrokerName : b\\\n  c\nflushDiskType=SYNC_FLUSH\naclEnable true\nx=\\u00e9\n"


def _properties_file(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "broker.conf"
        path.write_bytes(data)
        try:
            return len(read_properties_file(str(path)))
        except UnicodeDecodeError:
            raise LaunchError("no UTF-8") from None


def _key_file(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys"
        path.write_bytes(data)
        return read_key_file(path)


def _pid_file(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "broker-10911.pid"
        path.write_bytes(data)
        return read_pid(path)


def _certificates(data: bytes) -> object:
    """The same bytes as certificate, key and trusted certificates."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.pem"
        path.write_bytes(data)
        here = str(path)
        tls = TlsConfig(
            server_cert_path=here, server_trust_cert_path=here, server_auth_client=True,
            client_trust_cert_path=here, client_auth_server=True, client_cert_path=here,
        )  # fmt: skip
        client_context(tls)
        server_tls(tls)
        return None


# --- addresses


def _addresses(data: bytes) -> object:
    text = first_line(text_of(data))
    namespace_of_address(text)
    split_addresses(text)
    return parse_addresses(text)


def _address(data: bytes) -> object:
    return split_address(text_of(data))


def _names(data: bytes) -> object:
    text = text_of(data)
    prefix, rest = _split(text)
    same(prefix + rest, text, "both parts")
    return None


def _tags(data: bytes) -> object:
    return tag_subscription("Topic", text_of(data), 1).tags_set


def _time(data: bytes) -> object:
    return parse_time(text_of(data))


# --- what servers tell clients


def _route(data: bytes) -> object:
    """Few bytes may name many queues."""
    route = decode_body(TopicRouteData, data)
    same(decode_body(TopicRouteData, encode_body(route)), route, "written and read again")
    template_route("Topic", route, 4)
    return len(topic_route("Topic", route).publish_queues)


def _routes() -> Iterator[bytes]:
    yield encode_body(sample_of(TopicRouteData))
    yield (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"a",'
        b'"cluster":"c"}],"filterServerTable":{},"orderTopicConf":"a:4;b:2","queueDatas":'
        b'[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def _figures(data: bytes) -> object:
    return _from_figures("10.0.0.1:10911", decode_body(KVTable, data).table)


def _trace(data: bytes) -> object:
    return len(decode_trace(text_of(data)))


class _Order(msgspec.Struct):
    number: int
    notes: list[str] = []


_SERIALIZERS: Final[tuple[Serializer[Any], ...]] = (
    JsonSerializer(),
    JsonSerializer(_Order),
    MsgpackSerializer(),
    MsgpackSerializer(_Order),
)


def _values(data: bytes) -> object:
    """What each makes of it; that it cannot be read is an answer."""
    message, found = stored(1, data), []
    for serializer in _SERIALIZERS:
        try:
            found.append(repr(serializer.value(message)))
        except DeserializationError as error:
            found.append(str(error))
    return len(found)


def _traces() -> Iterator[bytes]:
    yield (
        b"Pub\x011700000000000\x01DefaultRegion\x01g\x01Topic\x01ID\x01tag\x01key\x0110.0.0.1:1\x01"
        b"4\x013\x010\x01OFFSETID\x01true\x01host\x02"
    )
    yield (
        b"SubBefore\x011700000000000\x01r\x01g\x01R\x01ID\x010\x01key\x02"
        b"SubAfter\x01R\x01ID\x013\x01true\x01key\x010\x011700000000001\x01g\x02"
        b"EndTransaction\x011\x01r\x01g\x01T\x01ID\x01t\x01k\x01h\x012\x01TX\x01COMMIT\x01false\x02"
    )


def _pulled(data: bytes) -> object:
    header = PullMessageResponse(
        suggest_which_broker_id=0, next_begin_offset=1, min_offset=0, max_offset=9
    )
    command = RemotingCommand(code=0, flag=1, ext_fields=to_fields(header))
    pulled = read_pulled(
        Response.of(command, data, 11), "10.0.0.1:10911", MessageQueue("T", "b", 0)
    )
    return len(pulled.messages), len(pulled.damaged)


def _pushed(data: bytes) -> object:
    """Host, properties and body, each in a line."""
    host, properties, body = [*data.split(b"\n", 2), b"", b""][:3]
    usual: Any = sample_of(ReplyMessageRequest)
    fields = {name: getattr(usual, name) for name in usual.__struct_fields__}
    hosts = {"born_host": text_of(host), "store_host": text_of(host)}
    request = ReplyMessageRequest(**{**fields, **hosts, "properties": text_of(properties)})
    return pushed_message(request, body, 1).properties


def _broadcast_offsets(data: bytes) -> object:
    found = decode_body(OffsetFile, data)
    same(decode_body(OffsetFile, dumps_pretty(found).encode()), found, "written and read again")
    return found


_PROPERTIES: Final = "remoting/protocol/java_properties.py: "
_FRAME: Final = "remoting/protocol/leaves/pure_frames.py: MAX_FRAME_BYTES"
_CLUSTER: Final = "client/cluster/"

PARSERS: Final = (
    Parser(
        "configuration-text",
        (_PROPERTIES + "parse_properties",),
        (_PROPERTIES + "MAX_TEXT_CHARACTERS",),
        _properties,
        (PropertyError,),
        bytes_per_byte=600,
        seeds=_property_seeds,
    ),
    Parser(
        "configuration",
        (_PROPERTIES + "read_value", _PROPERTIES + "record_from_properties"),
        (_PROPERTIES + "MAX_TEXT_CHARACTERS",),
        _configuration,
        (PropertyError,),
        bytes_per_byte=600,
        seeds=_property_seeds,
    ),
    Parser(
        "configuration-files",
        ("daemon/launch.py: read_properties_file",),
        (_PROPERTIES + "MAX_TEXT_CHARACTERS",),
        _properties_file,
        (PropertyError, LaunchError),
        bytes_per_byte=600,
        opens_files=True,
        seeds=_property_seeds,
    ),
    Parser(
        "key-files",
        ("client/credentials.py: read_key_file",),
        ("client/credentials.py: _MAX_FILE_BYTES",),
        _key_file,
        (ConfigError,),
        opens_files=True,
        seeds=lambda: [b"AccessKey=rocketmq2\nSecretKey: '12345678'\n# x\nSecurityToken=t\n"],
    ),
    Parser(
        "pid-files",
        ("daemon/pid_files.py: _read",),
        (),
        _pid_file,
        bounded_by="the run folder of the user, which nobody else writes",
        opens_files=True,
        seeds=lambda: [b"4711\npython -m aiorocketmq.broker\n"],
    ),
    Parser(
        "certificates",
        (
            "remoting/transport/tls.py: client_context",
            "remoting/transport/tls.py: server_tls",
            "remoting/transport/tls.py: _load_chain",
            "remoting/transport/tls.py: _load_trust",
            "remoting/transport/tls.py: _Reader.load",
        ),
        ("remoting/transport/tls.py: PATIENCE_S",),
        _certificates,
        (TlsError,),
        bounded_by="files that the operator names",
        opens_files=True,
        seeds=lambda: [
            b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
        ],
    ),
    Parser(
        "addresses-of-name-servers",
        (
            _CLUSTER + "server_addresses.py: parse_addresses",
            _CLUSTER + "server_addresses.py: split_addresses",
            _CLUSTER + "address_server.py: first_line",
        ),
        (_CLUSTER + "address_server.py: MAX_ADDRESS_BYTES",),
        _addresses,
        (ConfigError,),
        bytes_per_byte=300,
        seeds=lambda: [b"10.0.0.1:9876;http://MQ_INST_1_2.host:80; [::1]:9876\n"],
    ),
    Parser(
        "addresses",
        ("remoting/transport/address.py: split_address",),
        (_FRAME,),
        _address,
        (ConnectError,),
        seeds=lambda: [b"10.0.0.1:10911", b"[fe80::1]:10911"],
    ),
    Parser(
        "namespaces",
        ("client/namespaces.py: _split",),
        ("remoting/protocol/message/topic_names.py: MAX_TOPIC_LENGTH",),
        _names,
        seeds=lambda: [b"%RETRY%shop%group", b"shop%Order"],
    ),
    Parser(
        "tag-expressions",
        ("client/consumer/subscription.py: tag_subscription",),
        (_FRAME,),
        _tags,
        (ConfigError,),
        bytes_per_byte=600,
        seeds=lambda: [b"TagA || TagB||c", b"*"],
    ),
    Parser(
        "times-of-options",
        ("tools/mqadmin/java_text.py: parse_time",),
        (),
        _time,
        (ValueError,),
        bounded_by="a command line",
        seeds=lambda: [b"2024-05-06#07:08:09:010", b"1700000000000"],
    ),
    Parser(
        "answers-about-health",
        ("tools/mqhealth.py: read_answer",),
        ("tools/mqhealth.py: MAX_ANSWER",),
        read_answer,
        (UnhealthyError,),
        seeds=lambda: [
            b'{"code":0,"flag":1,"opaque":7}',
            b'{"code":14,"opaque":7,"remark":"full"}',
        ],
    ),
    Parser(
        "routes",
        (
            _CLUSTER + "route_cache.py: topic_route",
            _CLUSTER + "route_cache.py: template_route",
            _CLUSTER + "route_cache.py: _order_entries",
        ),
        (
            _CLUSTER + "route_cache.py: MAX_QUEUES",
            _CLUSTER + "route_cache.py: MAX_QUEUES_IN_ALL",
            _FRAME,
        ),
        _route,
        (BodyError,),
        bytes_per_byte=1200,
        base_bytes=64 << 20,
        most_ms=400,
        seeds=_routes,
    ),
    Parser(
        "figures-of-members",
        ("client/admin/raft.py: _from_figures",),
        (_FRAME,),
        _figures,
        (BodyError, RocketMQError),
        bytes_per_byte=300,
        seeds=lambda: [
            encode_body(KVTable(table={"raftGroup": "G", "raftTerm": "3", "raftLag_n1": "7"}))
        ],
    ),
    Parser(
        "traces",
        (
            "client/producer/trace_records.py: decode_trace",
            "client/producer/trace_records.py: _read",
        ),
        (_FRAME,),
        _trace,
        bytes_per_byte=300,
        seeds=_traces,
    ),
    Parser(
        "pulls",
        ("client/consumer/pulling.py: read_pulled",),
        (_FRAME,),
        _pulled,
        bytes_per_byte=300,
        seeds=records,
    ),
    Parser(
        "pushed-replies",
        (_CLUSTER + "replies.py: pushed_message",),
        (_FRAME,),
        _pushed,
        (ValueError,),
        seeds=lambda: [b"/10.0.0.1:4711\nCORRELATION_ID\x01c\x02a\x01b\nbody"],
    ),
    Parser(
        "values",
        tuple(
            f"client/serialization.py: {kind}.loads"
            for kind in ("Serializer", "JsonSerializer", "MsgpackSerializer")
        ),
        (_FRAME,),
        _values,
        bytes_per_byte=300,
        seeds=lambda: [
            serializer.dumps(value)
            for serializer in (JsonSerializer(), MsgpackSerializer())
            for value in (["a", 1.5, {"b": None}], {"number": 7, "notes": ["x"]})
        ],
    ),
    Parser(
        "broadcast-offsets",
        ("client/offsets/local_offsets.py: OffsetFile",),
        ("remoting/protocol/fastjson/reader.py: MAX_JSON_BYTES",),
        _broadcast_offsets,
        (BodyError,),
        bytes_per_byte=600,
        seeds=lambda: [
            dumps_pretty(OffsetFile(offset_table={MessageQueue("T", "b", 1): 7})).encode()
        ],
    ),
)
