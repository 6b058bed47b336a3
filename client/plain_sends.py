"""The usual send, prepared as far as can be: a message as it is, for one of the queues of its topic, with nobody looking on.

What is known before the message is kept per queue, in lanes: the broker's address, the request's header with holes in it.
The general way (``delivery.py``) does everything else: it takes over where this one does not know how (``prepare`` returns
``None``), and goes on where an attempt has failed. Nothing here touches the event loop: the blocking client prepares its
sends in the threads of its callers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..remoting.connection import Connection
from ..remoting.errors import RocketMQError
from ..remoting.invocations import Response, next_opaque
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.commands.send import SendMessageRequestV2
from ..remoting.protocol.message import Message, MessageQueue
from ..remoting.protocol.templates import request_template
from .errors import Attempt
from .instance import ClientInstance
from .message_ids import next_message_id
from .queue_choice import RoundRobin, java_hash
from .sending import SendResult, check_topic, plain_properties, send_result

SEND: Final = RequestCode.SEND_MESSAGE_V2
MAX_BODY: Final = 8 << 20
"""Longer bodies, where they are allowed, are looked at more closely: whether a frame can carry them."""

_HOLES: Final = {"born_timestamp": b'"%d"', "flag": b'"%d"', "properties": b"%b"}
"""What differs from message to message of one queue."""
_MAX_TOPICS: Final = 10_000
_json: Final = msgspec.json.Encoder().encode


class Lane:
    """One queue, with everything that is known before the message is. ``connection`` is that of the event loop."""

    __slots__ = ("address", "connection", "queue", "template")

    def __init__(self, queue: MessageQueue, address: str, template: bytes) -> None:
        self.queue: MessageQueue = queue
        self.address: str = address
        self.template: bytes = template
        self.connection: Connection | None = None

    def result(self, answer: Response, msg_id: str) -> SendResult:
        """Raises ``BrokerError``, ``ProtocolError``."""
        return send_result(answer, msg_id, self.queue, self.address)

    def failed(self, error: RocketMQError, seconds: float) -> Attempt:
        return Attempt(self.queue.broker_name, self.address, error, seconds)


class PlainSends:
    """The lanes of one producer.

    ``header`` is that of all its messages, but for topic, queue and what stands in a message; bodies of ``too_long`` bytes
    and more are not for here. May be used from several threads.
    """

    def __init__(self, instance: ClientInstance, header: SendMessageRequestV2, turns: RoundRobin, too_long: int) -> None:
        self._routes = instance.routes
        self._time_ms = instance.clock.time_ms
        self._header = header
        self._turn = turns.next
        self._too_long = min(too_long, MAX_BODY)
        self._lanes: dict[str, list[Lane | None]] = {}
        self._made_at = -1

    def prepare(self, message: Message, sharding_key: str | int | None = None) -> tuple[Lane, int, bytes, str] | None:
        """The lane, and the request but for its body: opaque, header, message id. ``None``: the general way has to do it.

        Raises ``MessageError``, and ``ConfigError`` for a key that is none.
        """
        body = message.body
        if type(body) is not bytes or not 0 < len(body) < self._too_long:
            return None
        if self._made_at != self._routes.changes:
            self._forget_lanes()
        lanes = self._lanes.get(message.topic)
        if lanes is None and (lanes := self._make_lanes(message.topic)) is None:
            return None
        index = (self._turn() if sharding_key is None else abs(java_hash(sharding_key))) % len(lanes)
        lane = lanes[index]
        if lane is None and (lane := self._make_lane(message.topic, lanes, index)) is None:
            return None
        now_ms, opaque = self._time_ms(), next_opaque()
        msg_id = next_message_id(now_ms)
        return lane, opaque, lane.template % (now_ms, message.flag, _json(plain_properties(message, msg_id)), opaque), msg_id

    def _forget_lanes(self) -> None:
        """Some route or address is another one now. (A thread that makes a lane from old ones puts it into old lists.)"""
        changes = self._routes.changes
        self._lanes = {}
        self._made_at = changes

    def _make_lanes(self, topic: str) -> list[Lane | None] | None:
        """None while it is not known where its messages go: the general way finds out, and tells what is wrong."""
        by_topic, route = self._lanes, self._routes.cached(topic)
        if route is None or not route.publish_queues:
            return None
        check_topic(topic)
        if len(by_topic) >= _MAX_TOPICS:
            by_topic.clear()
        lanes = by_topic[topic] = [None] * len(route.publish_queues)
        return lanes

    def _make_lane(self, topic: str, lanes: list[Lane | None], index: int) -> Lane | None:
        route = self._routes.cached(topic)
        if route is None or len(route.publish_queues) != len(lanes):
            return None
        queue = route.publish_queues[index]
        address = self._routes.master(queue.broker_name)
        if address is None:
            return None
        header = msgspec.structs.replace(self._header, topic=topic, queue_id=queue.queue_id, bname=queue.broker_name)
        lane = lanes[index] = Lane(queue, address, request_template(SEND, header, _HOLES))
        return lane
