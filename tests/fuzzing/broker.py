"""What brokers and name servers read besides: expressions, accounts, tables, registrations."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from aiorocketmq.broker.acl.addresses import AddressPatternError, address_parts, address_pattern
from aiorocketmq.broker.acl.files import read_acl_file
from aiorocketmq.broker.acl.permissions import (
    AccessTable,
    AclError,
    AclFile,
    check_resource,
    parse_permission,
    parse_resource,
)
from aiorocketmq.broker.acl.yaml import YamlError, format_yaml, parse_yaml
from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.filter.bloom import BloomFilter
from aiorocketmq.broker.filter.sql92 import SqlFilter
from aiorocketmq.broker.replication.accepted_offsets import AcceptedOffsets, AcceptedOffsetTable
from aiorocketmq.broker.schedule.schedule_offsets import DelayOffsets
from aiorocketmq.broker.sends.sequences import Key, Sequences, SnapshotError
from aiorocketmq.broker.state.config_files import ConfigFiles
from aiorocketmq.broker.state.consumer_filters import ConsumerFilters, compile_expression
from aiorocketmq.broker.state.consumer_offsets import ConsumerOffsets, _split
from aiorocketmq.broker.state.lmq import LightConsumerOffsets
from aiorocketmq.broker.state.subscription_groups import SubscriptionGroups
from aiorocketmq.broker.state.topics import Topics
from aiorocketmq.daemon.launch import LaunchError
from aiorocketmq.namesrv.daemon import load_kv_config
from aiorocketmq.namesrv.kv_config import KvConfig, KvConfigError
from aiorocketmq.namesrv.registration_body import CrcError, read_registration
from aiorocketmq.remoting.protocol.bodies.codec import BodyError, decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.consumer_filter import (
    ConsumerFilterTable,
    TopicFilterData,
)
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    LmqConsumerOffsetTable,
)
from aiorocketmq.remoting.protocol.bodies.registration import (
    RegisterBrokerBody,
    pack_registration,
    unpack_registration,
)
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfigTable
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerRequest
from aiorocketmq.remoting.protocol.message.send_sequence import SendSequence
from aiorocketmq.remoting.protocol.sql92.evaluation import EvaluationError, Long, parse_like
from aiorocketmq.remoting.protocol.sql92.lexer import FilterError, tokenize
from aiorocketmq.remoting.protocol.sql92.parser import parse
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.errors import StoreFileError

from ..sim import ManualClock, told_of
from .parsers import Parser, all_of, same, text_of
from .samples import sample_of

_CLOCK: Final = ManualClock()
_CONFIG: Final = BrokerConfig()
_BLOOM: Final = BloomFilter.for_groups(32, 20)
_VALUES: Final = b"a\x01b\x02TAGS\x01TagA\x02n\x0117\x02d\x01-2.5e3\x02t\x01true"


# --- expressions


def _sql(data: bytes) -> object:
    """Compiled, and asked about messages with and without the properties that it names."""
    text = text_of(data)
    tokenize(text)
    found = SqlFilter(text)
    named = "\x02".join(f"{name}\x01{value}" for name in parse(text).names for value in ("7", "x"))
    return [found.matches(each) for each in (_VALUES, b"", named.encode())]


def _expressions() -> Iterator[bytes]:
    yield b"a BETWEEN 0 AND 3 AND region IN ('north', 'it''s') OR NOT (n >= -1.5e3 OR t IS NULL)"
    yield b"n = 17L AND d <> 0.5 -- comment\n AND /* x */ t = TRUE AND TAGS IS NOT NULL"


def _value(data: bytes) -> object:
    """What a property is compared with, for each type of value."""
    found: list[Any] = []
    for pattern in (1, Long(1), 1.0, True):
        try:
            found.append(parse_like(text_of(data), pattern))
        except EvaluationError:
            found.append(None)
    return found


# --- accounts


def _yaml(data: bytes) -> object:
    found = parse_yaml(data)
    if isinstance(found, dict):
        AccessTable([AclFile("plain_acl.yml", found)]).is_white("10.0.0.1")
    return None


def _accounts() -> Iterator[bytes]:
    account = {
        "accessKey": "rocketmq2", "secretKey": "12345678", "whiteRemoteAddress": "10.0.{1,2}.*",
        "admin": "false", "defaultTopicPerm": "DENY", "defaultGroupPerm": "SUB",
        "topicPerms": ["topicA=DENY", "topicB=PUB|SUB"], "groupPerms": ["groupA=SUB"],
    }  # fmt: skip
    content = {
        "globalWhiteRemoteAddresses": ["10.10.103.*", "192.168.0-5.1"],
        "dataVersion": [{"counter": "1", "timestamp": "2"}],
        "accounts": [account, {**account, "accessKey": "RocketMQ", "admin": "true"}],
    }
    yield format_yaml(content).encode()


def _acl_file(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plain_acl.yml"
        path.write_bytes(data)
        file = read_acl_file(path)
        AccessTable([file]).is_white("::1")
        return file.version


def _address(data: bytes) -> object:
    """Pattern and address, with a line end between them."""
    pattern, _, address = text_of(data).partition("\n")
    matches = address_pattern(pattern)
    address_parts(address)
    return matches(address), matches("10.0.0.1"), matches("fe80::1")


def _resource(data: bytes) -> object:
    text = text_of(data)
    parse_permission(text)
    check_resource(text)
    return parse_resource(text)


# --- tables in files, and as a slave gets them


def _table(data: bytes) -> object:
    """The first byte chooses the table; what was loaded is written and read again."""
    which = data[0] % len(_TABLES) if data else 0
    kind, load = _TABLES[which]
    found = decode_body(kind, data[1:])
    load(found)
    same(decode_body(kind, encode_body(found)), found, "written and read again")
    return None


def _load_topics(table: Any) -> None:
    Topics(_CONFIG, _CLOCK).load(table)
    Topics(_CONFIG, _CLOCK).replace(table)


def _load_groups(table: Any) -> None:
    SubscriptionGroups(_CONFIG, _CLOCK).load(table)
    SubscriptionGroups(_CONFIG, _CLOCK).replace(table)


def _load_offsets(table: Any) -> None:
    ConsumerOffsets().load(table)
    offsets = LightConsumerOffsets()
    offsets.load(table)
    for key in table.offset_table:
        _split(key)
    offsets.record()


def _load_filters(table: Any) -> None:
    filters = ConsumerFilters(_BLOOM, told_of())
    filters.load(table, 1000)
    filters.record()


def _load_accepted(table: Any) -> None:
    AcceptedOffsets().load(table)


def _load_delays(table: Any) -> None:
    offsets = DelayOffsets()
    offsets.load(table)
    offsets.correct(lambda level: level)


_TABLES: Final[list[tuple[Any, Any]]] = [
    (TopicConfigTable, _load_topics),
    (SubscriptionGroupTable, _load_groups),
    (ConsumerOffsetTable, _load_offsets),
    (LmqConsumerOffsetTable, _load_offsets),
    (ConsumerFilterTable, _load_filters),
    (AcceptedOffsetTable, _load_accepted),
    (DelayOffsetTable, _load_delays),
]


def _sequences() -> Sequences:
    return Sequences(lambda: 1000, lambda: 1000)


def _snapshot(data: bytes) -> object:
    sequences = _sequences()
    position = all_of(sequences.load(data))
    all_of(sequences.snapshot(position))
    return position, len(sequences)


def _snapshots() -> Iterator[bytes]:
    sequences = _sequences()
    yield at_once(sequences.snapshot(0))
    sequences.stored(Key("#ab", "T", 1), SendSequence("#ab", 0, 0, 5), 0, 2, 3, 400, 6)
    yield at_once(sequences.snapshot(77))


def _tables() -> Iterator[bytes]:
    for number, (kind, _) in enumerate(_TABLES):
        yield bytes([number]) + encode_body(sample_of(kind))
    filters = ConsumerFilters(_BLOOM, told_of())
    compiled = compile_expression("a > 3", "SQL92")
    new = filters._make("group", "Topic", compiled, 1, 5)
    table = ConsumerFilterTable(
        filter_data_by_topic={
            "Topic": TopicFilterData(topic="Topic", group_filter_data={"group": new.record()})
        }
    )
    yield bytes([4]) + encode_body(table)


def _table_file(data: bytes) -> object:
    """File and backup, divided by a line with a zero byte, as a start finds them."""
    text, _, backup = data.partition(b"\0\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "topics.json"
        path.write_bytes(text)
        if backup:
            path.with_name("topics.json.bak").write_bytes(backup)
        files = ConfigFiles(Path(folder), _CLOCK)
        return files.load("topics.json", TopicConfigTable)


def _table_files() -> Iterator[bytes]:
    table = encode_body(sample_of(TopicConfigTable))
    yield table
    yield table[:20] + b"\0\n" + table


# --- name servers


def _registration(data: bytes) -> object:
    """The first byte: whether it is packed, and how old its sender is."""
    chosen = data[0] if data else 0
    request = RegisterBrokerRequest(
        broker_name="b", broker_addr="10.0.0.1:10911", cluster_name="c", ha_server_addr="",
        broker_id=0, compressed=bool(chosen & 1),
    )  # fmt: skip
    version = 0 if chosen & 2 else 400
    body = all_of(read_registration(request, version, data[1:], max_bytes=1 << 20, max_topics=1000))
    return body.data_version, body.filter_servers, dict(all_of(body.topics()))


def _inflated(data: bytes) -> object:
    """What is inside of the packed form."""
    packed = zlib.compress(data, 0)
    return all_of(unpack_registration(packed, max_bytes=1 << 20, max_topics=1000))


def _registrations() -> Iterator[bytes]:
    body = sample_of(RegisterBrokerBody)
    yield b"\0" + encode_body(body)
    yield b"\1" + pack_registration(body)
    yield b"\2" + encode_body(body.topic_config_table)


def _inflated_registrations() -> Iterator[bytes]:
    yield zlib.decompress(pack_registration(sample_of(RegisterBrokerBody)))


def _kv(data: bytes) -> object:
    found = KvConfig.from_json(text_of(data))
    same(KvConfig.from_json(found.to_json())._table, found._table, "written and read again")
    return None


def _kv_seeds() -> Iterator[bytes]:
    yield KvConfig({"ORDER_TOPIC_CONFIG": {"T": "broker-a:4;broker-b:4"}}).to_json().encode()


def _kv_file(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kvConfig.json"
        path.write_bytes(data)
        return load_kv_config(str(path)).namespaces()


_ACL: Final = "broker/acl/"
_FILTER: Final = "remoting/protocol/sql92/"
_STATE: Final = "broker/state/"
_JSON: Final = (
    "remoting/protocol/fastjson/reader.py: MAX_JSON_BYTES",
    "remoting/protocol/bodies/codec.py: MAX_SHARED_NODES",
)
_REGISTRATION: Final = "remoting/protocol/bodies/registration.py: "

PARSERS: Final = (
    Parser(
        "sql92",
        (_FILTER + "parser.py: parse", _FILTER + "lexer.py: tokenize"),
        (
            _FILTER + "lexer.py: MAX_EXPRESSION_LENGTH",
            _FILTER + "parser.py: MAX_OPERANDS",
            _FILTER + "expression.py: MAX_DEPTH",
        ),
        _sql,
        (FilterError,),
        bytes_per_byte=1200,
        seeds=_expressions,
    ),
    Parser(
        "values-of-sql92",
        (
            _FILTER + "evaluation.py: parse_int",
            _FILTER + "evaluation.py: parse_double",
            _FILTER + "evaluation.py: parse_like",
        ),
        ("remoting/protocol/message/properties.py: MAX_PROPERTIES_BYTES",),
        _value,
        seeds=lambda: [b"17", b"-2.5e3", b"true", b"9223372036854775807", b"NaN"],
    ),
    Parser(
        "accounts",
        (
            _ACL + "yaml.py: parse_yaml",
            _ACL + "permissions.py: read_account",
        ),
        (_ACL + "files.py: MAX_FILE_BYTES",),
        _yaml,
        (YamlError, AclError, AddressPatternError),
        bytes_per_byte=4000,
        most_ms=1000,
        seeds=_accounts,
    ),
    Parser(
        "account-files",
        (_ACL + "files.py: read_acl_file",),
        (_ACL + "files.py: MAX_FILE_BYTES",),
        _acl_file,
        (AclError, AddressPatternError),
        bytes_per_byte=4000,
        most_ms=1000,
        opens_files=True,
        seeds=_accounts,
    ),
    Parser(
        "address-patterns",
        (_ACL + "addresses.py: address_pattern", _ACL + "addresses.py: address_parts"),
        (_ACL + "addresses.py: MAX_LENGTH",),
        _address,
        (AddressPatternError,),
        bytes_per_byte=1000,
        seeds=lambda: [b"10.0.{1,2}.*,192.168.0-5.1\n10.0.2.7", b"fe80::{1-ff}:*\nfe80::20:1"],
    ),
    Parser(
        "permissions",
        (
            _ACL + "permissions.py: parse_permission",
            _ACL + "permissions.py: parse_resource",
        ),
        (_ACL + "files.py: MAX_FILE_BYTES",),
        _resource,
        (AclError,),
        seeds=lambda: [b"topicA = PUB|SUB"],
    ),
    Parser(
        "tables",
        (
            _STATE + "topics.py: Topics.load",
            _STATE + "subscription_groups.py: SubscriptionGroups.load",
            _STATE + "consumer_offsets.py: ConsumerOffsets.load",
            _STATE + "consumer_offsets.py: _split",
            _STATE + "lmq.py: LightConsumerOffsets.load",
            _STATE + "consumer_filters.py: ConsumerFilters.load",
            "broker/replication/accepted_offsets.py: AcceptedOffsets.load",
            "broker/schedule/schedule_offsets.py: DelayOffsets.load",
        ),
        _JSON,
        _table,
        (BodyError,),
        bytes_per_byte=1200,
        seeds=_tables,
    ),
    Parser(
        "sequence-snapshots",
        ("broker/sends/sequences.py: Sequences.load",),
        (),
        _snapshot,
        (SnapshotError,),
        bytes_per_byte=300,
        bounded_by="a record of our own, whose checksum is right; maxSendSequences",
        seeds=_snapshots,
    ),
    Parser(
        "table-files",
        (
            _STATE + "config_files.py: ConfigFiles.load",
            _STATE + "json_file.py: JsonFile.load",
            "daemon/backed_file.py: BackedFile.load",
            "daemon/backed_file.py: _decoded",
            "daemon/persist.py: read_file",
        ),
        _JSON,
        _table_file,
        (StoreFileError,),
        bytes_per_byte=300,
        opens_files=True,
        seeds=_table_files,
    ),
    Parser(
        "registrations",
        ("namesrv/registration_body.py: read_registration", _REGISTRATION + "unpack_registration"),
        (
            _REGISTRATION + "MAX_UNPACKED_BYTES",
            _REGISTRATION + "MAX_TOPICS",
            "namesrv/registration_body.py: PIECE_BYTES",
            "namesrv/registration_body.py: MOST_BYTES_OF_A_TOPIC",
            "remoting/protocol/commands/route.py: MAX_NAME",
        ),
        _registration,
        (BodyError, CrcError),
        bytes_per_byte=1200,
        base_bytes=2 << 20,
        seeds=_registrations,
    ),
    Parser(
        "unpacked-registrations",
        (_REGISTRATION + "unpack_registration",),
        (_REGISTRATION + "MAX_UNPACKED_BYTES", _REGISTRATION + "MAX_TOPICS"),
        _inflated,
        (BodyError,),
        bytes_per_byte=300,
        base_bytes=2 << 20,
        seeds=_inflated_registrations,
    ),
    Parser(
        "kv-config",
        ("namesrv/kv_config.py: KvConfig.from_json",),
        _JSON[:1],
        _kv,
        (KvConfigError,),
        bytes_per_byte=300,
        seeds=_kv_seeds,
    ),
    Parser(
        "kv-config-files",
        ("namesrv/daemon.py: load_kv_config",),
        _JSON[:1],
        _kv_file,
        (LaunchError,),
        bytes_per_byte=300,
        opens_files=True,
        seeds=_kv_seeds,
    ),
)
