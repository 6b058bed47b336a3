"""The usual send, prepared as far as can be: a message as it is, for one of the queues of its
topic, with nobody looking on.

What is known before the message is kept per queue: the broker's address, the request's header with
holes in it. The general path (``delivery.py``) does everything else: it takes over where this one
does not know how (``prepare`` returns ``None``), and goes on where an attempt has failed.
Nothing here touches the event loop: the blocking client prepares its sends in the threads of its
callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from ...remoting.errors import RocketMQError
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.send import SendMessageRequestV2
from ...remoting.protocol.frames.reply_frames import template_pieces
from ...remoting.protocol.frames.serialization import SerializeType
from ...remoting.protocol.frames.templates import request_template
from ...remoting.protocol.leaves import FrameTemplate
from ...remoting.protocol.leaves.pure_answers import Value
from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.wire import fields_of, to_fields
from ...remoting.signature import Credentials, Signer
from ...remoting.transport.connection import Connection
from ...remoting.transport.invocations import Send, next_opaque
from ..cluster.instance import ClientInstance
from ..errors import Attempt
from .message_ids import next_message_id
from .queue_choice import RoundRobin, java_hash
from .sending import check_topic, plain_properties

SEND: Final = Send(RequestCode.SEND_MESSAGE_V2)
MAX_BODY: Final = 8 << 20
"""Longer bodies, where they are allowed, are looked at more closely: whether a frame can carry
them."""

_HOLES: Final = {"born_timestamp": b'"%d"', "flag": b'"%d"', "properties": b"%s"}
"""What differs from message to message of one queue."""
_MAX_TOPICS: Final = 10_000
_MAX_BOUND: Final = 100_000
_json: Final = msgspec.json.Encoder().encode


class SendTarget:
    """One queue, with everything that is known before the message is. ``connection`` is that of the
    event loop; ``signed`` says what is signed, and is None where nothing is."""

    __slots__ = ("address", "connection", "header", "queue", "signed")

    def __init__(
        self, queue: MessageQueue, address: str, template: bytes, signed: bytes | None
    ) -> None:
        self.queue: MessageQueue = queue
        self.address: str = address
        self.header: Callable[[tuple[Value, ...]], bytes] = FrameTemplate(
            SerializeType.JSON, template_pieces(template, 0)
        ).header
        self.signed: bytes | None = signed
        self.connection: Connection | None = None

    def failed(self, error: RocketMQError, seconds: float) -> Attempt:
        return Attempt(self.queue.broker_name, self.address, error, seconds)


class FastPath:
    """The targets of one producer.

    ``header`` is that of all its messages, but for topic, queue and what stands in a message;
    bodies of ``too_long`` bytes and more are not for here. May be used from several threads.
    """

    def __init__(
        self,
        instance: ClientInstance,
        header: SendMessageRequestV2,
        turns: RoundRobin,
        too_long: int,
        credentials: Credentials | None = None,
    ) -> None:
        self._routes = instance.routes
        self._time_ms = instance.clock.time_ms
        self._header = header
        self._turn = turns.next
        self._too_long = min(too_long, MAX_BODY)
        self._credentials = credentials
        self._signer = Signer(credentials.secret_key) if credentials is not None else None
        self._targets: dict[str, list[SendTarget | None]] = {}
        self._bound: dict[MessageQueue, SendTarget] = {}
        self._made_at = -1

    def prepare(
        self,
        message: Message,
        sharding_key: str | int | None = None,
        queue: MessageQueue | None = None,
    ) -> tuple[SendTarget, int, bytes, str] | None:
        """The target, and the request but for its body: opaque, header, message id. ``None``: the
        general path has to do it.

        Raises ``MessageError``, and ``ConfigError`` for a key that is none.
        """
        body = message.body
        if type(body) is not bytes or not 0 < len(body) < self._too_long:
            return None
        if self._made_at != self._routes.changes:
            self._forget_targets()
        targets = self._targets.get(message.topic)
        if targets is None and (targets := self._make_targets(message.topic)) is None:
            return None
        if queue is None:
            index = (self._turn() if sharding_key is None else abs(java_hash(sharding_key))) % len(
                targets
            )
            target = targets[index] or self._make_target_of(message.topic, targets, index)
        elif sharding_key is None and queue.topic == message.topic:
            target = self._bound.get(queue) or self._make_bound(queue)
        else:
            return None
        if target is None:
            return None
        now_ms, opaque = self._time_ms(), next_opaque()
        msg_id = next_message_id(now_ms)
        properties = plain_properties(message, msg_id)
        if target.signed is not None:
            return target, opaque, self._sign(target, now_ms, message, properties, opaque), msg_id
        return target, opaque, target.header((now_ms, message.flag, properties, opaque)), msg_id

    def _sign(
        self, target: SendTarget, now_ms: int, message: Message, properties: str, opaque: int
    ) -> bytes:
        """The header, with its signature."""
        assert target.signed is not None
        assert self._signer is not None
        signature = self._signer.sign(
            target.signed % (now_ms, message.flag, properties.encode()), message.body
        )
        return target.header((signature, now_ms, message.flag, properties, opaque))

    def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Where its messages can go, as far as known."""
        route = self._routes.cached(topic)
        return route.publish_queues or None if route is not None else None

    def _forget_targets(self) -> None:
        """Some route or address is another one now. (A thread that makes a target from old ones
        puts it into old lists.)"""
        changes = self._routes.changes
        self._targets = {}
        self._bound = {}
        self._made_at = changes

    def _make_targets(self, topic: str) -> list[SendTarget | None] | None:
        """None while it is not known where its messages go: the general path finds out, and tells
        what is wrong."""
        by_topic, route = self._targets, self._routes.cached(topic)
        if route is None or not route.publish_queues:
            return None
        check_topic(topic)
        if len(by_topic) >= _MAX_TOPICS:
            by_topic.clear()
        targets = by_topic[topic] = [None] * len(route.publish_queues)
        return targets

    def _make_target_of(
        self, topic: str, targets: list[SendTarget | None], index: int
    ) -> SendTarget | None:
        route = self._routes.cached(topic)
        if route is None or len(route.publish_queues) != len(targets):
            return None
        target = targets[index] = self._make_target(route.publish_queues[index])
        return target

    def _make_bound(self, queue: MessageQueue) -> SendTarget | None:
        """For a queue that somebody has named; it need not be one of the route."""
        by_queue = self._bound
        if (target := self._make_target(queue)) is not None:
            if len(by_queue) >= _MAX_BOUND:
                by_queue.clear()
            by_queue[queue] = target
        return target

    def _make_target(self, queue: MessageQueue) -> SendTarget | None:
        address = self._routes.master(queue.broker_name)
        if address is None:
            return None
        header = msgspec.structs.replace(
            self._header, topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        template = request_template(SEND, header, _HOLES)
        if self._credentials is None:
            return SendTarget(queue, address, template, None)
        return SendTarget(queue, address, *_with_signature(template, header, self._credentials))


def _with_signature(
    template: bytes, header: SendMessageRequestV2, credentials: Credentials
) -> tuple[bytes, bytes]:
    """The template with one more hole, the first, for the signature; and what is signed, with holes
    for the same values."""
    fields = {**to_fields(header), "AccessKey": credentials.access_key}
    more = b'"AccessKey":' + _json(credentials.access_key)
    if credentials.security_token is not None:
        fields["SecurityToken"] = credentials.security_token
        more += b',"SecurityToken":' + _json(credentials.security_token)
    start, fields_start, rest = template.partition(b'"extFields":{')
    template = start + fields_start + more.replace(b"%", b"%%") + b',"Signature":"%b",' + rest
    holes = {
        field.wire_name: _HOLES[field.name].strip(b'"')
        for field in fields_of(type(header))
        if field.name in _HOLES
    }
    return template, b"".join(
        holes.get(name) or fields[name].encode().replace(b"%", b"%%") for name in sorted(fields)
    )
