"""Plain sends of the blocking producer, in the threads of its callers, over connections of their own.

``client/plain_sends.py`` prepares them. The event loop looks after everything else: routes, heartbeats, what is not plain,
and what is left to do after an attempt has failed. It is also the one that finds brokers: a direct connection is only made
to one that it is connected to.
"""

from __future__ import annotations

import threading
from typing import Final

from .client.errors import Attempt
from .client.instance import ClientInstance
from .client.plain_sends import PlainSends
from .client.sending import SendResult
from .remoting.blocking_connection import BlockingConnection
from .remoting.errors import BrokerError, RemotingError
from .remoting.protocol.message import Message

LOOK_AFTER_S: Final = 1.0
"""A connection that was idle for longer may have been closed meanwhile: it is looked at before it is used."""
IDLE_S: Final = 60.0
"""One that was idle for longer is closed; brokers do so after 120 s."""
KEEP_AWAY_S: Final = 30.0
"""After an attempt has failed the event loop sends to that broker for a while: it can tell what is the matter."""


class DirectSends:
    """The connections of one producer: each is used by one thread at a time."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._monotonic = instance.clock.monotonic
        self._idle: dict[str, list[tuple[BlockingConnection, float]]] = {}
        self._not_before: dict[str, float] = {}
        self._lock = threading.Lock()
        self._closed = False

    def send(
        self, plain: PlainSends, message: Message, sharding_key: str | int | None, timeout: float
    ) -> SendResult | tuple[str, Attempt] | None:
        """The result; or, after a failure, the message's id and what happened. ``None``: it has to go another way.

        Raises ``MessageError``, ``ConfigError``, and whatever interrupts the thread.
        """
        prepared = plain.prepare(message, sharding_key) if timeout > 0 else None
        if prepared is None:
            return None
        lane, opaque, header, msg_id = prepared
        address, began = lane.address, self._monotonic()
        if self._not_before and self._not_before.get(address, 0.0) > began:
            return None
        connection = self._take(address, began)
        try:
            if connection is None:
                if self._instance.remoting.connected_to(address) is None:
                    return None
                connection = self._instance.remoting.connect_blocking(address, timeout)
                timeout = max(0.001, began + timeout - self._monotonic())
            answer = connection.invoke(opaque, header, message.body, timeout)
            self._give_back(address, connection)
            return lane.result(answer, msg_id)
        except (RemotingError, BrokerError) as error:
            now = self._monotonic()
            if isinstance(error, RemotingError):
                self._not_before[address] = now + KEEP_AWAY_S
            return msg_id, lane.failed(error, now - began)

    def _take(self, address: str, now: float) -> BlockingConnection | None:
        """The connection that was used last."""
        with self._lock:
            idle = self._idle.get(address)
            while idle:
                connection, since = idle.pop()
                if now - since < LOOK_AFTER_S or (now - since < IDLE_S and connection.is_open()):
                    return connection
                connection.close()
        return None

    def _give_back(self, address: str, connection: BlockingConnection) -> None:
        now = self._monotonic()
        with self._lock:
            idle = self._idle.setdefault(address, [])
            idle.append((connection, now))
            if self._closed or now - idle[0][1] > IDLE_S:
                idle.pop(0)[0].close()

    def close(self) -> None:
        """Close what is idle; what is in use is closed after its answer."""
        with self._lock:
            self._closed = True
            for idle in self._idle.values():
                while idle:
                    idle.pop()[0].close()
