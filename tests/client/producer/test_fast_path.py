"""The fast path of a send: it says what the general path says, and leaves to it what it does
not know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.errors import ClientStateError, ConfigError, MessageError, SendFailed
from aiorocketmq.client.producer.fast_path import FastPath
from aiorocketmq.client.producer.producer import Producer
from aiorocketmq.client.producer.queue_choice import RoundRobin, choose_by_key
from aiorocketmq.client.producer.sending import SendStatus, single
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.errors import SystemBusy
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2, SendMessageResponse
from aiorocketmq.remoting.protocol.message.message import Message
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.remoting.protocol.wire import from_fields, to_fields
from aiorocketmq.remoting.signature import Credentials, signed

from ...sim import ManualClock
from ..scripted_broker import ScriptedBroker

HEADER = SendMessageRequestV2(
    producer_group="g%s",
    topic="",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
    properties="",
    reconsume_times=0,
    bname="",
)
SEND = RequestCode.SEND_MESSAGE_V2
STORED = Reply(header=SendMessageResponse(msg_id="OFFSET", queue_id=0, queue_offset=17))


def know(
    instance: ClientInstance, *brokers: str, port: int = 10911, queues: int = 2
) -> list[MessageQueue]:
    """The topic T lies on these brokers."""
    data = TopicRouteData(
        queue_datas=[
            QueueData(broker_name=b, read_queue_nums=queues, write_queue_nums=queues, perm=6)
            for b in brokers
        ],
        broker_datas=[
            BrokerData(cluster="C", broker_name=b, broker_addrs={0: f"10.0.0.{number}:{port}"})
            for number, b in enumerate(brokers)
        ],
    )
    instance.routes._store(topic_route("T", data))
    return [MessageQueue("T", broker, number) for broker in brokers for number in range(queues)]


def make_fast_path(
    *brokers: str, too_long: int = 4096, start: int = 0
) -> tuple[FastPath, ClientInstance, list[MessageQueue]]:
    instance = ClientInstance(namesrv="ns:1", clock=ManualClock())
    queues = know(instance, *brokers) if brokers else []
    return FastPath(instance, HEADER, RoundRobin(start), 4096), instance, queues


@given(
    st.none() | st.text(st.characters(blacklist_categories=["Cs"]), max_size=20),
    st.lists(st.sampled_from(["k1", "k2", "Ä"]), max_size=2),
    st.integers(0, 2),
    st.integers(-5, 5),
    st.booleans(),
    st.dictionaries(st.sampled_from(["a", "b%d"]), st.sampled_from(['"', "\\", "%b"])),
)
def test_it_says_what_the_general_path_says(
    tags: str | None, keys: list[str], delay: int, flag: int, wait: bool, own: dict[str, str]
) -> None:
    fast_path, instance, queues = make_fast_path("a", "b", start=3)
    message = Message("T", b"x", tags, keys, delay, flag, wait, own)
    try:
        general = single(message, "ID", 4096)
    except MessageError:
        with pytest.raises(MessageError):
            fast_path.prepare(message)
        return
    prepared = fast_path.prepare(message)
    assert prepared is not None
    target, opaque, header, msg_id = prepared
    command = msgspec.json.decode(header)
    fields = from_fields(SendMessageRequestV2, command["extFields"])
    assert (command["code"], command["flag"], command["opaque"], command["language"]) == (
        SEND,
        0,
        opaque,
        "PYTHON",
    )
    assert decode_properties(fields.properties or "") == {
        **decode_properties(general.properties),
        "UNIQ_KEY": msg_id,
    }
    assert target.queue == queues[3]
    assert msgspec.structs.replace(fields, properties="") == msgspec.structs.replace(
        HEADER,
        topic="T",
        queue_id=target.queue.queue_id,
        bname=target.queue.broker_name,
        born_timestamp=instance.clock.time_ms(),
        flag=flag,
    )


def test_queues_take_turns_and_keys_have_theirs() -> None:
    fast_path, _, queues = make_fast_path("a", "b")
    taken = [
        prepared[0].queue for _ in range(8) if (prepared := fast_path.prepare(Message("T", b"x")))
    ]
    assert taken == queues * 2
    for key in ("order-1", 42, -7):
        prepared = fast_path.prepare(Message("T", b"x"), key)
        assert prepared is not None
        assert prepared[0].queue == choose_by_key(queues, key)
    with pytest.raises(ConfigError):
        fast_path.prepare(Message("T", b"x"), 1 << 64)


def _is_tag(text: str) -> bool:
    return "||" not in text and " | " not in text


@given(
    st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=9),
    st.none() | st.sampled_from(["token", 'a"%b', "Ä"]),
    st.none()
    | st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=20).filter(_is_tag),
    st.binary(min_size=1, max_size=9),
)
def test_the_signature_is_that_of_the_general_path(
    key: str, token: str | None, tags: str | None, body: bytes
) -> None:
    credentials = Credentials(key, "a secret", token)
    _, instance, queues = make_fast_path("a")
    fast_path = FastPath(instance, HEADER, RoundRobin(), 4096, credentials)
    prepared = fast_path.prepare(Message("T", body, tags, flag=-3))
    assert prepared is not None
    fields = msgspec.json.decode(prepared[2])["extFields"]
    unsigned = to_fields(from_fields(SendMessageRequestV2, fields))
    assert fields == signed(credentials, unsigned, body)
    assert prepared[0].queue == queues[0]


def test_a_queue_that_was_named() -> None:
    fast_path, instance, _ = make_fast_path("a", "b")
    for queue in (
        MessageQueue("T", "b", 1),
        MessageQueue("T", "a", 99),
    ):  # the second is none that would have its turn
        for _ in range(2):
            prepared = fast_path.prepare(Message("T", b"x"), None, queue)
            assert prepared is not None
            assert prepared[0].queue == queue
            fields = from_fields(
                SendMessageRequestV2, msgspec.json.decode(prepared[2])["extFields"]
            )
            assert (fields.queue_id, fields.bname) == (queue.queue_id, queue.broker_name)
    know(instance, "a", "b", port=20911)
    prepared = fast_path.prepare(Message("T", b"x"), None, MessageQueue("T", "b", 1))
    assert prepared is not None
    assert prepared[0].address == "10.0.0.1:20911"  # the master is another machine
    assert fast_path.prepare(Message("T", b"x"), None, MessageQueue("T", "unknown", 1)) is None
    assert fast_path.prepare(Message("T", b"x"), None, MessageQueue("Other", "a", 1)) is None
    assert fast_path.prepare(Message("T", b"x"), "key", MessageQueue("T", "a", 1)) is None
    assert fast_path.queues("T") == tuple(
        MessageQueue("T", broker, number) for broker in "ab" for number in (0, 1)
    )
    assert fast_path.queues("Other") is None


@pytest.mark.parametrize(
    "message",
    [
        Message("Other", b"x"),
        Message("T", b""),
        Message("T", b"x" * 4096),
        Message("T", bytearray(b"x")),  # type: ignore[arg-type]
        Message("T", "text"),  # type: ignore[arg-type]
    ],
)
def test_the_rest_is_left_to_the_general_path(message: Message) -> None:
    assert make_fast_path("a")[0].prepare(message) is None
    assert make_fast_path()[0].prepare(Message("T", b"x")) is None


def test_lanes_follow_routes_and_addresses() -> None:
    fast_path, instance, _ = make_fast_path("a")
    addresses = []
    for change in (
        lambda: None,
        lambda: know(instance, "a", port=20911),  # the master is another machine
        lambda: know(instance, "a", port=20911),  # nothing new
        lambda: know(instance, "b"),
    ):
        change()
        prepared = fast_path.prepare(Message("T", b"x"))
        assert prepared is not None
        addresses.append((prepared[0].queue.broker_name, prepared[0].address))
    assert addresses == [
        ("a", "10.0.0.0:10911"),
        *[("a", "10.0.0.0:20911")] * 2,
        ("b", "10.0.0.0:10911"),
    ]


# --- through a producer
# ---------------------------------------------------------------------------------------------


class Scene:
    """A producer, two brokers, and what they answer to sends, one after the other."""

    def __init__(self, *answers: Reply) -> None:
        self.broker = ScriptedBroker()
        self.left = list(answers)
        self.broker.answers[SEND] = lambda _: self.left.pop(0)
        self.instance = self.broker.instance()
        self.producer = Producer("g", instance=self.instance)
        self.producer._delivery._turns = RoundRobin()
        know(self.instance, "a", "b")

    def sent(self) -> list[SendMessageRequestV2]:
        return self.broker.requests(SEND)


def ids(requests: list[SendMessageRequestV2]) -> set[str]:
    return {decode_properties(request.properties or "")["UNIQ_KEY"] for request in requests}


def in_scene(*answers: Reply) -> Callable[[Callable[[Scene], Awaitable[None]]], Callable[[], None]]:
    """Runs a test in a scene of its own loop."""

    def decorate(test: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
        def call() -> None:
            async def main() -> None:
                scene = Scene(*answers)
                async with asyncio.timeout(30), scene.instance, scene.producer:
                    for number in range(2):
                        await scene.instance.remoting.connection(f"10.0.0.{number}:10911")
                    await test(scene)

            asyncio.run(main())

        call.__name__ = test.__name__
        return call

    return decorate


@in_scene(STORED, STORED)
async def test_a_plain_message_goes_the_short_way(scene: Scene) -> None:
    calls: list[object] = []
    scene.producer._delivery.deliver = calls.append  # type: ignore[assignment,method-assign]
    result = await scene.producer.send(Message("T", b"x"))
    assert (result.status, result.offset_msg_id, result.queue_offset) == (
        SendStatus.SEND_OK,
        "OFFSET",
        17,
    )
    assert (await scene.producer.send_soon(Message("T", b"x"))).msg_id != result.msg_id
    assert calls == []
    assert [(request.bname, request.queue_id) for request in scene.sent()] == [("a", 0), ("a", 1)]


@in_scene(Reply(ResponseCode.SYSTEM_ERROR, remark="no"), STORED)
async def test_after_a_failure_another_broker_gets_the_same_message(scene: Scene) -> None:
    result = await scene.producer.send(Message("T", b"x", tags="a"))
    assert [request.bname for request in scene.sent()] == ["a", "b"]
    assert ids(scene.sent()) == {result.msg_id}


@in_scene(Reply(ResponseCode.SYSTEM_BUSY, remark="no"))
async def test_a_refusal_for_good_is_raised_at_once(scene: Scene) -> None:
    with pytest.raises(SystemBusy, match="no"):
        await scene.producer.send(Message("T", b"x"))
    assert len(scene.sent()) == 1


@in_scene(Reply(ResponseCode.SYSTEM_ERROR, remark="no"))
async def test_a_message_with_a_key_has_one_attempt(scene: Scene) -> None:
    with pytest.raises(SendFailed) as failure:
        await scene.producer.send(Message("T", b"x"), sharding_key="k")
    assert len(scene.sent()) == len(failure.value.attempts) == 1
    assert failure.value.attempts[0].address.endswith(":10911")


@in_scene(STORED, Reply(ResponseCode.SYSTEM_ERROR, remark="no"))
async def test_a_message_for_a_queue_has_one_attempt(scene: Scene) -> None:
    queue = MessageQueue("T", "b", 1)
    assert (await scene.producer.send(Message("T", b"x"), queue=queue)).queue_offset == 17
    with pytest.raises(SendFailed):
        await scene.producer.send(Message("T", b"x"), queue=queue)
    assert [(request.bname, request.queue_id) for request in scene.sent()] == [("b", 1)] * 2


@in_scene(STORED, STORED)
async def test_a_connection_that_is_lost_is_an_attempt_that_failed(scene: Scene) -> None:
    sending = scene.producer.send_soon(Message("T", b"x"))
    scene.broker.restart()
    assert (await sending).status is SendStatus.SEND_OK
    assert len(ids(scene.sent())) == 1


@in_scene()
async def test_a_producer_that_has_ended_sends_nothing(scene: Scene) -> None:
    await scene.producer.stop()
    with pytest.raises(ClientStateError):
        await scene.producer.send(Message("T", b"x"))


@in_scene()
async def test_no_time_no_send(scene: Scene) -> None:
    with pytest.raises(SendFailed):
        await scene.producer.send(Message("T", b"x"), timeout=0)
    assert scene.sent() == []
