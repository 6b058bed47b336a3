"""Values as the original prints them, because scripts parse that (``admin-cli.md`` §1.3). Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal

from ...client.producer.sending import SendResult
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.bodies.topic_config import TopicConfig
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import java_string_hash
from ...remoting.protocol.message.sys_flag import perm_text
from ...remoting.protocol.record.decode import MessageExt


def topic_config_text(config: TopicConfig) -> str:
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type.name}, topicSysFlag={config.topic_sys_flag}, "
        f"order={boolean(config.order)}]"
    )


def subscription_group_text(config: SubscriptionGroupConfig) -> str:
    return (
        f"SubscriptionGroupConfig [groupName={config.group_name}, "
        f"consumeEnable={boolean(config.consume_enable)}, "
        f"consumeFromMinEnable={boolean(config.consume_from_min_enable)}, "
        f"consumeBroadcastEnable={boolean(config.consume_broadcast_enable)}, "
        f"retryQueueNums={config.retry_queue_nums}, "
        f"retryMaxTimes={config.retry_max_times}, brokerId={config.broker_id}, "
        f"whichBrokerWhenConsumeSlowly={config.which_broker_when_consume_slowly}, "
        f"notifyConsumerIdsChangedEnable={boolean(config.notify_consumer_ids_changed_enable)}]"
    )


def subscription_group_fields(config: SubscriptionGroupConfig) -> dict[str, str]:
    """In the order of the class; booleans as Java writes them."""
    text = subscription_group_text(config).partition("[")[2].removesuffix("]")
    return dict(field.split("=", 1) for field in text.split(", "))


def queue_text(queue: MessageQueue) -> str:
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def send_result_text(result: SendResult) -> str:
    return (
        f"SendResult [sendStatus={result.status.name}, msgId={result.msg_id}, "
        f"offsetMsgId={result.offset_msg_id}, "
        f"messageQueue={queue_text(result.queue)}, queueOffset={result.queue_offset}]"
    )


def message_text(message: MessageExt, properties: Mapping[str, str] | None = None) -> str:
    """Class MessageExt: ``msgId`` is the broker's id, the bytes of the body have a sign.
    ``properties``: shown instead."""
    body = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in message.body)
    table = map_text(message.properties if properties is None else properties)
    inner = (
        f"Message{{topic='{message.topic}', flag={message.flag}, properties={table}, "
        f"body=[{body}], transactionId='{message.transaction_id or 'null'}'}}"
    )
    return (
        f"MessageExt [brokerName={message.broker_name or 'null'}, queueId={message.queue_id}, "
        f"storeSize={message.store_size}, queueOffset={message.queue_offset}, "
        f"sysFlag={message.sys_flag}, "
        f"bornTimestamp={message.born_timestamp}, bornHost=/{message.born_host}, "
        f"storeTimestamp={message.store_timestamp}, storeHost=/{message.store_host}, "
        f"msgId={message.offset_msg_id}, "
        f"commitLogOffset={message.commit_log_offset}, bodyCRC={message.body_crc}, "
        f"reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, toString()={inner}]"
    )


def map_text(table: Mapping[str, str]) -> str:
    """A Java map with text as keys: ``{KEYS=k1, TAGS=TagA}``."""
    return "{" + ", ".join(f"{key}={table[key]}" for key in hash_order(table)) + "}"


def hash_order(keys: Iterable[str]) -> list[str]:
    """Text in the order in which a Java HashMap or HashSet gives it back, when added in the given
    order.

    The order is by bucket: the hash folded to 16 bits, modulo the smallest power of two (16 at
    least) that the keys fill to at most three quarters. Within a bucket keys stay in the order in
    which they came.
    """
    found = list(dict.fromkeys(keys))
    buckets = 16
    while len(found) * 4 > buckets * 3:
        buckets *= 2
    return sorted(found, key=lambda key: _spread(java_string_hash(key)) & (buckets - 1))


def queue_hash_order(queues: Iterable[MessageQueue], *, copied: bool = False) -> list[MessageQueue]:
    """Queues in the order of a Java HashMap (class MessageQueue, hashCode); ``copied`` from another
    one, which makes a table that may be smaller than 16."""
    found = list(dict.fromkeys(queues))
    buckets = 1 if copied else 16
    while (len(found) + 0.75) * 4 > buckets * 3 if copied else len(found) * 4 > buckets * 3:
        buckets *= 2
    return sorted(found, key=lambda queue: _spread(_queue_hash(queue)) & (buckets - 1))


def _queue_hash(queue: MessageQueue) -> int:
    code = 31 + java_string_hash(queue.broker_name)
    code = 31 * code + queue.queue_id
    return 31 * code + java_string_hash(queue.topic)


def _spread(hash_code: int) -> int:
    return (hash_code & 0xFFFFFFFF) ^ ((hash_code & 0xFFFFFFFF) >> 16)


def boolean(value: bool) -> str:
    return "true" if value else "false"


def fixed(number: float, digits: int) -> str:
    """``%.2f`` of Java, which rounds the shortest decimal form half up: 0.125 is 0.13, not 0.12."""
    if number != number or abs(number) == float("inf"):
        return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")
    if abs(number) >= 1e15:
        return f"{number:.{digits}f}"
    return str(Decimal(repr(float(number))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def cut(text: str, length: int) -> str:
    """At most ``length`` characters."""
    return text[:length]


def seconds_text(timestamp_ms: int) -> str:
    """Time A: ``yyyy-MM-dd HH:mm:ss``, local."""
    return _local(timestamp_ms).strftime("%Y-%m-%d %H:%M:%S")


def millis_text(timestamp_ms: int) -> str:
    """Time B: ``yyyy-MM-dd HH:mm:ss,SSS``, local."""
    return f"{seconds_text(timestamp_ms)},{timestamp_ms % 1000:03}"


def compact_time_text(timestamp_ms: int) -> str:
    """``yyyyMMddHHmmssSSS``, local."""
    return f"{_local(timestamp_ms).strftime('%Y%m%d%H%M%S')}{timestamp_ms % 1000:03}"


def parse_time(text: str) -> int:
    """Milliseconds of a time option: a number, or ``yyyy-MM-dd#HH:mm:ss:SSS`` in local time. Raises
    ``ValueError``."""
    text = text.strip()
    if text.removeprefix("-").isdecimal():
        return int(text)
    seconds, _, millis = text.rpartition(":")
    if not millis.isdecimal() or len(millis) > 3:
        raise ValueError(f"'{text}' is no time")
    moment = datetime.datetime.strptime(seconds, "%Y-%m-%d#%H:%M:%S").astimezone()
    return int(moment.timestamp()) * 1000 + int(millis)


def _local(timestamp_ms: int) -> datetime.datetime:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        return (epoch + datetime.timedelta(seconds=timestamp_ms // 1000)).astimezone()
    except OverflowError:
        return epoch.astimezone()  # a peer sent nonsense; a wrong date beats a traceback
