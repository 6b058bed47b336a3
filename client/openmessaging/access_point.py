"""OpenMessaging 0.1.0-alpha, the driver ``rocketmq`` (client.md §8.1; class
MessagingAccessPointImpl), in asyncio.

::

    url = "openmessaging:rocketmq://ns1:9876,ns2:9876/namespace"
    async with MessagingAccessPoint(url) as point:
        producer = await point.started(point.create_producer())
        await producer.send(producer.create_bytes_message_to_topic("Order", b"..."))

A thin layer over ``Producer``, ``PullConsumer`` and ``PushConsumer``: headers and properties of a
message travel as its properties. The namespace of the URL is kept and, as in the original's driver,
not used. A promise is an ``asyncio.Task``.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import Final, NoReturn, Self, TypeVar

from ..lifecycle import Startable
from .consumers import PullConsumer, PushConsumer
from .driver import Properties
from .messages import KeyValue, NotSupportedError, OMSError, PropertyKeys
from .producers import Producer, SequenceProducer

_URL: Final = re.compile(r"openmessaging:(?P<driver>[^:/]+)://(?P<hosts>[^/]+)/(?P<namespace>.*)")

C = TypeVar("C", bound=Startable)


class MessagingAccessPoint:
    """Makes clients of one cluster; ``openmessaging:<driver>://<host:port>[,...]/<namespace>``.

    Use as ``async with``: at the end the clients that it ``started`` are stopped. Raises
    ``OMSError`` for a URL that is none, and for another driver's.
    """

    def __init__(self, url: str, properties: Properties = None) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise OMSError(
                f"{url!r} is no access point; write "
                "openmessaging:rocketmq://host:port[,host:port]/namespace"
            )
        if found["driver"] != "rocketmq":
            raise NotSupportedError(
                f"the driver {found['driver']!r} of {url!r} is not here; this is 'rocketmq'"
            )
        self.properties: KeyValue = KeyValue(properties or {})
        self.properties.put(PropertyKeys.NAMESPACE, found["namespace"])
        self.properties.put(PropertyKeys.ACCESS_POINTS, found["hosts"])
        self.properties.put(PropertyKeys.DRIVER_IMPL, "rocketmq")
        self._clients: list[Startable] = []

    async def startup(self) -> None:
        """Nothing is connected before a client starts."""

    async def shutdown(self) -> None:
        """Stop what ``started`` has started, the last first."""
        while self._clients:
            await self._clients.pop().stop()

    async def __aenter__(self) -> Self:
        await self.startup()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        await self.shutdown()

    async def started(self, client: C) -> C:
        """Start a client; it is stopped together with this access point."""
        await client.start()
        self._clients.append(client)
        return client

    def create_producer(self, properties: Properties = None) -> Producer:
        return Producer(self._merged(properties))

    def create_sequence_producer(self, properties: Properties = None) -> SequenceProducer:
        return SequenceProducer(self._merged(properties))

    def create_pull_consumer(self, queue: str, properties: Properties = None) -> PullConsumer:
        """Raises ``OMSError`` without ``rmq.consumer.group``."""
        return PullConsumer(queue, self._merged(properties))

    def create_push_consumer(self, properties: Properties = None) -> PushConsumer:
        """Raises ``OMSError`` without ``rmq.consumer.group``."""
        return PushConsumer(self._merged(properties))

    def create_iterable_consumer(self, *_: object) -> NoReturn:
        """Raises ``NotSupportedError``, as in the original's driver."""
        raise NotSupportedError("IterableConsumer is not supported by this driver")

    def resource_manager(self) -> NoReturn:
        """Raises ``NotSupportedError``; ``aiorocketmq.Admin`` makes topics."""
        raise NotSupportedError(
            "ResourceManager is not supported by this driver; aiorocketmq.Admin makes topics"
        )

    def create_service_end_point(self, *_: object) -> NoReturn:
        """Raises ``NotSupportedError``, as in the original's driver."""
        raise NotSupportedError("ServiceEndPoint is not supported by this driver")

    def _merged(self, properties: Properties) -> KeyValue:
        return KeyValue({**self.properties, **(properties or {})})
