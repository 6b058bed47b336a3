"""Messages, names and errors of OpenMessaging 0.1.0-alpha (client.md §8.1; class OMSUtil). Pure."""

from __future__ import annotations

from typing import Final, Self

from ...remoting.errors import RocketMQError
from ...remoting.protocol.message.message import Message as RocketMQMessage
from ...remoting.protocol.message.properties import RESERVED_PROPERTIES
from ...remoting.protocol.message.topic_names import is_retry_topic
from ...remoting.protocol.record.decode import MessageExt

_DESTINATION: Final = "rmq.message.destination"


class OMSError(RocketMQError):
    """Any failure (OMSRuntimeException); the cause is chained. ``code`` as in the original: text,
    mostly ``"-1"``."""

    def __init__(self, text: str, code: str = "-1") -> None:
        super().__init__(text)
        self.code = code


class OMSTimeout(OMSError, TimeoutError):
    """It took too long (OMSTimeOutException)."""


class MessageFormatError(OMSError, ValueError):
    """A message cannot be sent as it is (OMSMessageFormatException)."""


class NotSupportedError(OMSError):
    """This driver cannot do it (OMSNotSupportedException)."""


class Headers:
    """Names of headers (MessageHeader)."""

    MESSAGE_ID: Final = "MessageId"
    TOPIC: Final = "Topic"
    QUEUE: Final = "Queue"
    BORN_TIMESTAMP: Final = "BornTimestamp"
    BORN_HOST: Final = "BornHost"
    STORE_TIMESTAMP: Final = "StoreTimestamp"
    STORE_HOST: Final = "StoreHost"
    START_TIME: Final = "StartTime"
    STOP_TIME: Final = "StopTime"
    TIMEOUT: Final = "Timeout"
    PRIORITY: Final = "Priority"
    RELIABILITY: Final = "Reliability"
    SEARCH_KEY: Final = "SearchKey"
    SCHEDULE_EXPRESSION: Final = "ScheduleExpression"
    SHARDING_KEY: Final = "ShardingKey"
    TRACE_ID: Final = "TraceId"


_HEADERS: Final[frozenset[str]] = frozenset(
    value for name, value in vars(Headers).items() if name.isupper()
)


class PropertyKeys:
    """Keys of properties that clients take."""

    NAMESPACE: Final = "oms.namespace"
    ACCESS_POINTS: Final = "oms.access.points"
    DRIVER_IMPL: Final = "oms.driver.impl"
    OPERATION_TIMEOUT: Final = "oms.operation.timeout"
    """Milliseconds, 5000."""
    PRODUCER_ID: Final = "oms.producer.id"
    CONSUMER_ID: Final = "oms.consumer.id"
    CONSUMER_GROUP: Final = "rmq.consumer.group"
    """Consumers need it."""
    PRODUCER_GROUP: Final = "rmq.producer.group"
    MAX_REDELIVERY_TIMES: Final = "rmq.max.redelivery.times"
    CONSUME_TIMEOUT: Final = "rmq.message.consume.timeout"
    """Minutes, 15."""
    MIN_CONSUME_THREADS: Final = "rmq.min.consume.thread.nums"
    CONSUME_STATUS: Final = "rmq.message.consume.status"
    PULL_BATCH: Final = "rmq.pull.message.batch.nums"
    PULL_CACHE: Final = "rmq.pull.message.cache.capacity"


class KeyValue(dict[str, str]):
    """Text by name."""

    def put(self, key: str, value: str | int | float) -> Self:
        """Numbers become text."""
        self[key] = str(value)
        return self

    def get_int(self, key: str, default: int = 0) -> int:
        return int(self[key]) if key in self else default

    def get_float(self, key: str, default: float = 0.0) -> float:
        return float(self[key]) if key in self else default


class BytesMessage:
    """A message with headers (the system's) and properties (the user's)."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.headers: KeyValue = KeyValue()
        self.properties: KeyValue = KeyValue()

    def put_header(self, key: str, value: str | int | float) -> Self:
        self.headers.put(key, value)
        return self

    def put_property(self, key: str, value: str | int | float) -> Self:
        self.properties.put(key, value)
        return self

    def __repr__(self) -> str:
        return f"BytesMessage({len(self.body)} bytes, headers={dict(self.headers)})"


def to_rocketmq(message: BytesMessage) -> RocketMQMessage:
    """Headers win over properties of the same name. Raises ``MessageFormatError`` without Topic and
    Queue."""
    kind = "TOPIC" if Headers.TOPIC in message.headers else "QUEUE"
    topic = message.headers.get(Headers.TOPIC) or message.headers.get(Headers.QUEUE)
    if not topic:
        raise MessageFormatError("the message has neither the header Topic nor the header Queue")
    together = {**message.properties, **message.headers, _DESTINATION: kind}
    properties = {
        name: value for name, value in together.items() if value and name not in RESERVED_PROPERTIES
    }
    delay = message.properties.get("DELAY", "0")
    return RocketMQMessage(
        topic,
        message.body,
        tags=message.properties.get("TAGS"),
        keys=message.properties.get("KEYS", message.headers.get(Headers.SEARCH_KEY, "")).split(),
        delay_level=int(delay) if delay.isdecimal() and len(delay) < 10 else 0,
        properties=properties,
    )


def from_rocketmq(message: MessageExt) -> BytesMessage:
    """As its receiver sees it."""
    result = BytesMessage(message.body)
    for name, value in message.properties.items():
        (result.headers if name in _HEADERS else result.properties)[name] = value
    topic = message.topic
    if is_retry_topic(topic):
        topic = message.properties.get("RETRY_TOPIC", topic)
    is_queue = message.properties.get(_DESTINATION) == "QUEUE"
    result.put_header(Headers.QUEUE if is_queue else Headers.TOPIC, topic)
    result.put_header(Headers.MESSAGE_ID, message.msg_id)
    if message.keys:
        result.put_header(Headers.SEARCH_KEY, " ".join(message.keys))
    result.put_header(Headers.BORN_HOST, message.born_host).put_header(
        Headers.BORN_TIMESTAMP, message.born_timestamp
    )
    return result.put_header(Headers.STORE_HOST, message.store_host).put_header(
        Headers.STORE_TIMESTAMP, message.store_timestamp
    )
