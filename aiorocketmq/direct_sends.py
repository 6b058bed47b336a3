"""Plain sends of the blocking producer, in the threads of its callers, over connections of their
own.

``client/producer/fast_path.py`` prepares them. The event loop looks after everything else:
routes, heartbeats, what is not plain, and what is left to do after an attempt has failed. It is
also the one that finds brokers: a direct connection is only made to one that it is connected to.
"""

from __future__ import annotations

from typing import Final

from .client.cluster.instance import ClientInstance
from .client.errors import Attempt
from .client.producer.fast_path import FastPath
from .client.producer.sending import SendAnswer, SendResult, read_send_answer, send_result
from .remoting.errors import BrokerError, RemotingError
from .remoting.protocol.message.message import Message
from .remoting.protocol.message.message_queue import MessageQueue
from .remoting.responses import Response
from .remoting.transport.blocking_connection import BlockingCalls

LOOK_AFTER_S: Final = 1.0
"""A connection that was idle for longer may have been closed meanwhile: it is looked at before it
is used."""
IDLE_S: Final = 60.0
"""One that was idle for longer is closed; brokers do so after 120 s."""
KEEP_AWAY_S: Final = 30.0
"""After an attempt has failed the event loop sends to that broker for a while: it can tell what is
the matter."""


class DirectSends:
    """The connections of one producer: each is used by one thread at a time."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._monotonic = instance.clock.monotonic
        self._idle: dict[str, list[BlockingCalls]] = {}
        """By address. No lock: taking from a list and adding to it are one step each."""
        self._not_before: dict[str, float] = {}
        self._closed = False

    def send(
        self,
        fast_path: FastPath,
        message: Message,
        sharding_key: str | int | None,
        queue: MessageQueue | None,
        timeout: float,
    ) -> SendResult | tuple[str, MessageQueue, Attempt] | None:
        """The result; or, after a failure, the message's id, where it was to go, and what happened.
        ``None``: it has to go another way.

        Raises ``MessageError``, ``ConfigError``, and whatever interrupts the thread.
        """
        prepared = fast_path.prepare(message, sharding_key, queue) if timeout > 0 else None
        if prepared is None:
            return None
        target, opaque, header, msg_id = prepared
        address, began = target.address, self._monotonic()
        if self._not_before and self._not_before.get(address, 0.0) > began:
            return None
        idle = self._idle.get(address)
        if idle is None:
            idle = self._idle.setdefault(address, [])
        connection = self._take(idle, began)
        try:
            if connection is None:
                if self._instance.remoting.connected_to(address) is None:
                    return None
                connection = self._instance.remoting.connect_blocking(address, timeout)
                timeout = max(0.001, began + timeout - self._monotonic())
            answer: SendAnswer | Response = connection.invoke(  # type: ignore[assignment]  # mypy joins the two
                opaque, header, message.body, timeout, read_send_answer
            )
            connection.used_at = began
            idle.append(connection)
            if len(idle) > 1 or self._closed:
                self._close_oldest(idle, began)
            return send_result(answer, msg_id, target.queue, address)
        except (RemotingError, BrokerError) as error:
            now = self._monotonic()
            if isinstance(error, RemotingError):
                self._not_before[address] = now + KEEP_AWAY_S
            return msg_id, target.queue, target.failed(error, now - began)

    def _take(self, idle: list[BlockingCalls], now: float) -> BlockingCalls | None:
        """The one that was used last."""
        try:
            while True:
                connection = idle.pop()
                since = now - connection.used_at
                if since < LOOK_AFTER_S or (since < IDLE_S and connection.is_open()):
                    return connection
                connection.close()
        except IndexError:
            return None

    def _close_oldest(self, idle: list[BlockingCalls], now: float) -> None:
        """What nobody needs: those that were idle for long, after the end all."""
        try:
            while self._closed or now - idle[0].used_at > IDLE_S:
                idle.pop(0).close()
        except IndexError:
            pass  # none is left

    def close(self) -> None:
        """Close what is idle; what is in use is closed after its answer."""
        self._closed = True
        for idle in list(self._idle.values()):
            self._close_oldest(idle, 0)
