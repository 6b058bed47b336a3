"""Handlers, called directly: codes, remarks, headers and bodies of ``headers.md`` part D."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from aiorocketmq.namesrv import route_table
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from aiorocketmq.namesrv.processors import (
    BrokerProcessor,
    ConfigProcessor,
    KvConfigProcessor,
    RouteProcessor,
)
from aiorocketmq.namesrv.route_table import BROKER_EXPIRED_MS, RouteTable
from aiorocketmq.namesrv.saved_file import SavedFile
from aiorocketmq.remoting.clock import steady_ms
from aiorocketmq.remoting.dispatch import Context, Dispatcher, Reply
from aiorocketmq.remoting.errors import AddressInUseError, RequestError
from aiorocketmq.remoting.protocol.bodies.codec import BodyError, encode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.codes import VERSION, RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.kv import (
    GetKVConfigResponse,
    GetKVListByNamespaceRequest,
    KVConfigRequest,
    PutKVConfigRequest,
)
from aiorocketmq.remoting.protocol.commands.route import (
    AddWritePermResponse,
    BrokerNameRequest,
    BrokerRequest,
    GetRouteInfoRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    WipeWritePermResponse,
)
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.remoting.protocol.java_properties import parse_properties
from aiorocketmq.remoting.protocol.wire import NoFields
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.remoting.transport.accepting import check_bindable
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.flow import Limits

from ..sim import ManualClock, SimOwner, connect

NOTHING = memoryview(b"")
A = "10.0.0.1:10911"


def context(*, version: int = VERSION, connection: object = None) -> Context:
    connection = connection or SimpleNamespace(peer="10.0.0.9:4711", closed=False)
    return Context(NoFields(), 0, 0, 0, version, 0, cast(Connection, connection), 0, b"")


def registration(broker_id: int = 0, addr: str = A) -> RegisterBrokerRequest:
    return RegisterBrokerRequest(
        broker_name="a",
        broker_addr=addr,
        cluster_name="C",
        ha_server_addr=f"ha-{addr}",
        broker_id=broker_id,
    )


def body_of(*topics: str, counter: int = 1) -> memoryview:
    table = {
        name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in topics
    }
    version = DataVersion(counter=counter)
    return memoryview(
        encode_body(
            RegisterBrokerBody(
                topic_config_table=TopicConfigTable(topic_config_table=table, data_version=version)
            )
        )
    )


class World:
    """The processors of one name server."""

    def __init__(self, tmp_path: Path, **config: Any) -> None:
        self.routes = RouteTable()
        self.kv_path = tmp_path / "kv" / "kvConfig.json"
        self.config_path = tmp_path / "namesrv.properties"
        self.kv_config = KvConfig()
        self.config = NamesrvConfig(config_store_path=str(self.config_path), **config)
        self.clock = ManualClock()
        self.own_port = self.config.listen_port
        self.brokers = BrokerProcessor(self.routes, self.kv_config, Limits(), self.clock)
        self.route = RouteProcessor(self.routes, self.kv_config, self.config)
        self.kv = KvConfigProcessor(
            self.kv_config, SavedFile(str(self.kv_path), self.kv_config.to_json), self.routes.lost
        )
        self.settings = ConfigProcessor(
            self.config,
            {"tls.server.keyPassword": "secret", "mine": "1"},
            lambda: self.own_port,
        )

    def ask_route(
        self, topic: str, *, version: int = VERSION, standard_only: bool | None = None
    ) -> Reply:
        request = GetRouteInfoRequest(topic=topic, accept_standard_json_only=standard_only)
        return self.route.route(request, NOTHING, context(version=version))

    def topics(self, code: RequestCode) -> Any:
        reply = self.route.table[code](NoFields(), NOTHING, context())
        assert isinstance(reply, Reply)
        return json.loads(bytes(reply.body))["topicList"]

    def change(self, text: str) -> Reply:
        return asyncio.run(self.settings.update(NoFields(), memoryview(text.encode()), context()))

    def shown(self) -> dict[str, str]:
        reply = self.settings.show(NoFields(), NOTHING, context())
        return {found.name: found.value for found in parse_properties(bytes(reply.body).decode())}

    def put(self, namespace: str, key: str, value: str) -> Reply:
        return asyncio.run(
            self.kv.put(
                PutKVConfigRequest(namespace=namespace, key=key, value=value), NOTHING, context()
            )
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# --- brokers
# --------------------------------------------------------------------------------------------------


def test_a_master_registers_and_its_slave_learns_of_it(world: World) -> None:
    reply = at_once(world.brokers.register(registration(), body_of("T"), context()))
    assert reply == Reply(header=RegisterBrokerResponse())
    reply = at_once(
        world.brokers.register(registration(1, "10.0.0.2:10911"), body_of("T"), context())
    )
    assert reply.header == RegisterBrokerResponse(ha_server_addr=f"ha-{A}", master_addr=A)


def test_two_brokers_of_one_name_and_id_are_told_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients are sent to one, then to the other."""
    remarks = [
        at_once(world.brokers.register(registration(0, addr), body_of("T"), context())).remark
        for addr in (A, "10.0.0.2:10911", A, "10.0.0.2:10911")
    ]
    assert remarks[:3] == [None, None, None]
    assert remarks[3] is not None
    assert remarks[3].startswith(
        f"two brokers have the name a and the id 0, 10.0.0.2:10911 and {A}, and take turns"
    )
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == [
        remarks[3]
    ]


def test_the_reply_to_a_registration_carries_the_order_configuration(world: World) -> None:
    world.kv_config.put(ORDER_TOPIC_CONFIG, "T", "a:4")
    assert (
        at_once(world.brokers.register(registration(), body_of(), context())).body
        == b'{"table":{"T":"a:4"}}'
    )
    world.kv_config.delete(ORDER_TOPIC_CONFIG, "T")
    assert (
        at_once(world.brokers.register(registration(), body_of(), context())).body
        == b'{"table":{}}'
    )


def test_a_body_with_another_crc_is_refused(world: World) -> None:
    request = RegisterBrokerRequest(
        broker_name="a",
        broker_addr=A,
        cluster_name="C",
        ha_server_addr="",
        broker_id=0,
        body_crc32=1,
    )
    reply = at_once(world.brokers.register(request, body_of("T"), context()))
    assert reply == Reply(1, header=RegisterBrokerResponse(), remark="crc32 not match")
    assert at_once(world.routes.topics()) == []


def test_data_version_is_told_when_the_address_is_known(world: World) -> None:
    request = BrokerRequest(broker_name="a", broker_addr=A, cluster_name="C", broker_id=0)
    body = memoryview(b'{"counter":1,"stateVersion":5,"timestamp":2}')
    assert world.brokers.query_data_version(request, body, context()) == Reply(
        header=QueryDataVersionResponse(changed=True)
    )
    table = (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":%b,"topicConfigTable":{}}}'
        % bytes(body)
    )
    at_once(world.brokers.register(registration(), memoryview(table), context()))
    world.clock.advance(0.009)
    assert world.brokers.query_data_version(request, body, context()) == Reply(
        header=QueryDataVersionResponse(changed=False), body=bytes(body)
    )
    assert world.routes.expire(steady_ms(world.clock) + BROKER_EXPIRED_MS) == []
    other = memoryview(b'{"counter":1,"timestamp":2}')
    assert world.brokers.query_data_version(
        request, other, context()
    ).header == QueryDataVersionResponse(changed=True)
    with pytest.raises(BodyError):
        world.brokers.query_data_version(request, NOTHING, context())


def test_a_broker_goes_by_unregistering_or_with_its_connection(world: World) -> None:
    request = BrokerRequest(broker_name="a", broker_addr=A, cluster_name="C", broker_id=0)
    at_once(world.brokers.register(registration(), body_of("T"), context()))
    assert at_once(world.brokers.unregister(request, NOTHING, context())) == Reply()
    assert at_once(world.routes.topics()) == []
    connection = SimpleNamespace(peer="10.0.0.1:4000", closed=False)
    at_once(world.brokers.register(registration(), body_of("T"), context(connection=connection)))
    world.brokers.connection_closed(cast(Connection, SimpleNamespace(peer="10.0.0.1:4000")))
    assert at_once(world.routes.topics()) == ["T"]
    world.brokers.connection_closed(cast(Connection, connection))
    assert at_once(world.routes.topics()) == []


# --- routes
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "standard_only", "key"),
    [
        (400, None, b"{0:"),
        (400, False, b"{0:"),
        (400, True, b'{"0":'),
        (401, None, b'{"0":'),
        (479, False, b'{"0":'),
    ],
)
def test_the_dialect_of_a_route_follows_version_and_wish(
    world: World, version: int, standard_only: bool | None, key: bytes
) -> None:
    at_once(world.brokers.register(registration(), body_of("T"), context()))
    reply = world.ask_route("T", version=version, standard_only=standard_only)
    assert (reply.code, reply.header, reply.remark) == (0, None, None)
    assert b'"brokerAddrs":' + key in bytes(reply.body)


def test_an_unknown_topic(world: World) -> None:
    assert world.ask_route("T") == Reply(
        17,
        remark="No topic route info in name server for the topic: T\n"
        "See http://rocketmq.apache.org/docs/faq/ for further details.",
    )


def test_order_configuration_in_the_route_is_switched_while_running(world: World) -> None:
    at_once(world.brokers.register(registration(), body_of("T"), context()))
    world.kv_config.put(ORDER_TOPIC_CONFIG, "T", "a:4")
    assert "orderTopicConf" not in json.loads(bytes(world.ask_route("T").body))
    assert world.change("orderMessageEnable=true").code == 0
    assert json.loads(bytes(world.ask_route("T").body))["orderTopicConf"] == "a:4"
    world.kv_config.put(ORDER_TOPIC_CONFIG, "T", "a:8")
    assert json.loads(bytes(world.ask_route("T").body))["orderTopicConf"] == "a:8"


def test_permissions_and_lists(world: World) -> None:
    at_once(world.brokers.register(registration(), body_of("T", "U"), context()))
    ask = BrokerNameRequest(broker_name="a")
    assert asyncio.run(
        world.route.wipe_write_perm(ask, NOTHING, context())
    ).header == WipeWritePermResponse(wipe_topic_count=2)
    assert json.loads(bytes(world.ask_route("T").body))["queueDatas"][0]["perm"] == 4
    reply = asyncio.run(world.route.add_write_perm(ask, NOTHING, context()))
    assert reply.header == AddWritePermResponse(add_topic_count=2)
    assert world.topics(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["T", "U"]
    assert world.topics(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == ["C", "a"]
    assert world.topics(RequestCode.GET_UNIT_TOPIC_LIST) == []
    reply = world.route.cluster_info(NoFields(), NOTHING, context())
    assert bytes(reply.body) == (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"a","cluster":"C"}},'
        b'"clusterAddrTable":{"C":["a"]}}'
    )


def test_many_changes_of_permissions_at_once_do_not_make_a_turn_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_table, "TOPICS_AT_ONCE", 1)
    at_once(world.brokers.register(registration(), body_of("T", "U"), context()))
    touched = 0
    set_queue = world.routes._set_queue

    def count(*args: Any) -> None:
        nonlocal touched
        touched += 1
        set_queue(*args)

    monkeypatch.setattr(world.routes, "_set_queue", count)

    async def most_in_a_turn() -> int:
        ask = BrokerNameRequest(broker_name="a")
        peers = [connect(SimOwner(Dispatcher({})))[0] for _ in range(10)]
        asking = asyncio.gather(
            *(world.route.wipe_write_perm(ask, NOTHING, context(connection=each)) for each in peers)
        )
        before, most = touched, 0
        while not asking.done():
            await asyncio.sleep(0)
            most, before = max(most, touched - before), touched
        return most

    assert asyncio.run(most_in_a_turn()) == 1
    assert touched == 20


@pytest.mark.parametrize(
    ("code", "more"),
    [
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None),
        (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "C"}),
    ],
)
def test_others_have_their_turn_while_long_lists_of_topics_are_written(
    world: World, code: RequestCode, more: dict[str, str] | None
) -> None:
    at_once(
        world.brokers.register(
            registration(), body_of(*(f"T{number}" for number in range(20_000))), context()
        )
    )

    async def main() -> None:
        owner = SimOwner(Dispatcher(world.route.table))
        connection, transport = connect(owner)
        header = encode_header(RemotingCommand(code=code, ext_fields=more))
        connection.data_received(encode_frame(0, header) * 3)
        assert not transport.written
        await asyncio.gather(*owner.tasks)
        await asyncio.sleep(0)
        bodies = [
            json.loads(bytes(body)) for _, _, body in FrameDecoder().feed(bytes(transport.written))
        ]
        assert [len(body["topicList"]) for body in bodies] == [20_000] * 3

    asyncio.run(main())


# --- KV config
# --------------------------------------------------------------------------------------------------


def test_kv_changes_are_on_the_disk_when_they_are_answered(world: World) -> None:
    assert world.put("N", "k", "v") == Reply()
    assert world.kv_path.read_text() == '{"configTable":{"N":{"k":"v"}}}'
    asyncio.run(world.kv.delete(KVConfigRequest(namespace="N", key="k"), NOTHING, context()))
    assert world.kv_path.read_text() == '{"configTable":{"N":{}}}'
    assert (
        world.kv_path.with_name("kvConfig.json.bak").read_text()
        == '{"configTable":{"N":{"k":"v"}}}'
    )


def test_brokers_that_were_lost_are_read_as_kv_configuration(world: World) -> None:
    """Deleting forgets; nothing can be put there, and nothing of it gets to the disk."""

    def get(namespace: str, key: str) -> tuple[int, str | None]:
        request = KVConfigRequest(namespace=namespace, key=key)
        reply = world.kv.get(request, NOTHING, context())
        header = reply.header
        assert isinstance(header, GetKVConfigResponse)
        return reply.code, header.value

    world.routes.lost.remember("b", "c", ["t"], 77)
    assert get("LOST_BROKERS", "b") == (ResponseCode.SUCCESS, "77")
    assert get("LOST_BROKERS_OF_TOPIC", "t") == (ResponseCode.SUCCESS, "b=77")
    listed = world.kv.list_namespace(
        GetKVListByNamespaceRequest(namespace="LOST_BROKERS"), NOTHING, context()
    )
    assert json.loads(bytes(listed.body)) == {"table": {"b": "77"}}
    listed = world.kv.list_namespace(
        GetKVListByNamespaceRequest(namespace="LOST_BROKERS_OF_TOPIC"), NOTHING, context()
    )
    assert json.loads(bytes(listed.body)) == {"table": {"t": "b=77"}}
    with pytest.raises(RequestError, match="the name server's own"):
        world.put("LOST_BROKERS", "x", "1")
    request = KVConfigRequest(namespace="LOST_BROKERS", key="b")
    asyncio.run(world.kv.delete(request, NOTHING, context()))
    assert get("LOST_BROKERS", "b") == (ResponseCode.QUERY_NOT_FOUND, None)
    assert not world.kv_path.exists()


def test_kv_questions(world: World) -> None:
    world.put("N", "k", "v")
    get, listed = (
        KVConfigRequest(namespace="N", key="k"),
        GetKVListByNamespaceRequest(namespace="N"),
    )
    assert world.kv.get(get, NOTHING, context()) == Reply(header=GetKVConfigResponse(value="v"))
    reply = world.kv.get(KVConfigRequest(namespace="N", key="x"), NOTHING, context())
    assert (reply.code, reply.remark) == (22, "No config item, Namespace: N Key: x")
    assert world.kv.list_namespace(listed, NOTHING, context()).body == b'{"table":{"k":"v"}}'
    reply = world.kv.list_namespace(GetKVListByNamespaceRequest(namespace="M"), NOTHING, context())
    assert (reply.code, reply.remark) == (22, "No config item, Namespace: M")


def test_a_change_that_cannot_be_written_is_no_success(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.kv_path.parent.write_text("a file where the folder should be")
    with caplog.at_level(logging.ERROR):
        reply = world.put("N", "k", "v")
    assert reply.code == 1
    assert reply.remark is not None
    assert reply.remark.startswith(f"changed in memory, but {world.kv_path} cannot be written: ")
    assert world.kv_config.get("N", "k") == "v"


# --- configuration
# --------------------------------------------------------------------------------------------------


def test_a_configuration_that_the_next_start_could_not_read_is_refused(world: World) -> None:
    reply = world.change("productEnvName=" + "é" * 300_000)
    assert (reply.code, "characters are no configuration" in (reply.remark or "")) == (1, True)
    assert world.config.product_env_name == "center"
    assert not world.config_path.exists()


def test_the_configuration_is_shown_without_passwords(world: World) -> None:
    shown = world.shown()
    assert shown["listenPort"] == "9876"
    assert shown["serverWorkerThreads"] == "8"
    assert shown["configBlackList"] == "configBlackList;configStorePath;kvConfigPath"
    assert shown["mine"] == "1"
    assert "secret" not in shown.values()


def test_a_change_is_kept_in_the_file_with_everything_else(world: World) -> None:
    assert world.change("productEnvName=x\\ny\nunknownName=1\n") == Reply()
    assert world.config.product_env_name == "x\ny"
    written = {found.name: found.value for found in parse_properties(world.config_path.read_text())}
    assert (
        written.items()
        >= {"productEnvName": "x\ny", "mine": "1", "tls.server.keyPassword": "secret"}.items()
    )
    assert "unknownName" not in written
    assert "rocketmqHome" not in written  # nobody has set it: it is the environment's
    assert "rocketmqHome" in world.shown()
    assert world.change("") == Reply()


@pytest.mark.parametrize(
    "name", ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "productEnvName"]
)
def test_what_is_black_listed_stays_and_so_does_the_rest(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, config_black_list="kvConfigPath; productEnvName")
    reply = world.change(f"orderMessageEnable=true\n{name}=x")
    assert reply == Reply(16, remark="Can not update config in black list.")
    assert not world.config.order_message_enable
    assert not world.config_path.exists()


@pytest.mark.parametrize(
    "text", ["orderMessageEnable=yes", "listenPort=many", "productEnvName=\\u12"]
)
def test_a_bad_change_is_refused_as_a_whole(world: World, text: str) -> None:
    reply = world.change(f"productEnvName=other\n{text}")
    assert reply.code == 1
    assert reply.remark is not None
    assert text.partition("=")[0] in reply.remark
    assert world.config.product_env_name == "center"
    assert not world.config_path.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bindAddress=nonsense!", "bindAddress=nonsense! cannot be listened on"),
        ("bindAddress=a..b", "bindAddress=a..b cannot be listened on: no address and no name"),
        ("bindAddress=192.0.2.1", "bindAddress=192.0.2.1 cannot be listened on"),
        ("listenPort={taken}", "listenPort={taken} cannot be listened on: Address already in use"),
    ],
)
def test_what_the_next_start_could_not_listen_on_is_refused(
    world: World, text: str, reason: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        reply = world.change(f"orderMessageEnable=true\n{text.format(taken=taken)}")
    assert reply.code == 1
    assert reason.format(taken=taken) in (reply.remark or "")
    assert not world.config.order_message_enable
    assert not world.config_path.exists()


@pytest.mark.parametrize(
    ("before", "code"),
    [("127.0.0.1", 1), ("", 0), ("0.0.0.0", 0), ("127.0.0.2", 0), ("localhost", 0)],
)
def test_a_port_that_is_another_process_s_at_another_address_is_refused(
    tmp_path: Path, before: str, code: int
) -> None:
    """At an address that it may listen on already it is its own."""
    with socket.create_server(("127.0.0.2", 0)) as other:
        port = other.getsockname()[1]
        world = World(tmp_path, bind_address=before, listen_port=port)
        reply = world.change("bindAddress=127.0.0.2")
        assert reply.code == code, reply.remark
        if code:
            told = f"listenPort={port} cannot be listened on at 127.0.0.2: Address already in use"
            assert told in (reply.remark or "")


def test_an_address_that_waits_for_the_next_start_can_be_taken_back(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        world = World(tmp_path, bind_address="127.0.0.1", listen_port=own.getsockname()[1])
        assert world.change("bindAddress=127.0.0.2") == Reply()
        assert world.change("bindAddress=127.0.0.1") == Reply()


def test_a_system_without_ipv6_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ipv6(*_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", no_ipv6)
    with pytest.raises(AddressInUseError, match=r"=::1 cannot .* on: Address family not"):
        check_bindable("bindAddress", "::1", 0)


def test_its_own_port_is_no_obstacle(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        world.own_port = own.getsockname()[1]
        assert world.change(f"listenPort={world.own_port}\nbindAddress=127.0.0.1") == Reply()
    assert world.config.listen_port == world.own_port


def test_a_registration_that_is_refused_again_and_again_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    request = registration()
    request = msgspec.structs.replace(request, body_crc32=1)
    for _ in range(5):
        at_once(world.brokers.register(request, body_of("T"), context()))
    assert caplog.text.count("registration refused broker=a") == 1
