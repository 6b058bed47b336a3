"""Namespaces: tenants of one cluster that may use the same names (client.md §7.5; class
NamespaceUtil). Pure.

``Order`` of the namespace ``shop`` is ``shop%Order`` in the cluster, its retry topic
``%RETRY%shop%group``. Programs see the names without it. System topics and groups have no
namespace, and no name gets one twice.
"""

from __future__ import annotations

import re
from typing import Final

from ..remoting.protocol.message.message_queue import MessageQueue
from ..remoting.protocol.message.topic_names import SYSTEM_GROUP_PREFIX, SYSTEM_TOPICS, TopicName
from .errors import ConfigError

__all__ = [
    "checked_namespace",
    "namespace_of_address",
    "unwrap_queue",
    "unwrap_queues",
    "with_namespace",
    "without_namespace",
    "wrap_queue",
]

SEPARATOR: Final = "%"
_PREFIXES: Final = (TopicName.RETRY_PREFIX, TopicName.DLQ_PREFIX)
_INSTANCE: Final = re.compile(r"(?:\w++://)?+(MQ_INST_(?=\w+_\w)\w++)\.")


def with_namespace(name: str, namespace: str | None) -> str:
    """The topic or group as the cluster knows it.

    >>> with_namespace("Order", "shop"), with_namespace("%RETRY%billing", "shop")
    ('shop%Order', '%RETRY%shop%billing')
    >>> with_namespace("shop%Order", "shop")
    'shop%Order'
    """
    if not namespace or not name or _is_system(name):
        return name
    prefix, bare = _split(name)
    if bare.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{bare}"


def without_namespace(name: str, namespace: str | None) -> str:
    """The topic or group as the program knows it; a name of another namespace stays as it is.

    >>> without_namespace("%RETRY%shop%billing", "shop"), without_namespace("other%Order", "shop")
    ('%RETRY%billing', 'other%Order')
    """
    if not namespace:
        return name
    prefix, bare = _split(name)
    return prefix + bare.removeprefix(namespace + SEPARATOR)


def unwrap_queue(queue: MessageQueue, namespace: str | None) -> MessageQueue:
    """The queue as the program knows it."""
    return queue._replace(topic=without_namespace(queue.topic, namespace)) if namespace else queue


def unwrap_queues(
    queues: tuple[MessageQueue, ...], namespace: str | None
) -> tuple[MessageQueue, ...]:
    """The queues as the program knows them."""
    return tuple(unwrap_queue(queue, namespace) for queue in queues) if namespace else queues


def wrap_queue(queue: MessageQueue, namespace: str | None) -> MessageQueue:
    """The queue as the cluster knows it."""
    return queue._replace(topic=with_namespace(queue.topic, namespace)) if namespace else queue


def checked_namespace(namespace: str | None) -> str | None:
    """The namespace if it may be used. Raises ``ConfigError``."""
    if namespace is None:
        return None
    if re.fullmatch(r"[a-zA-Z0-9_-]{1,100}", namespace) is None:
        raise ConfigError(
            f"a namespace has 1 to 100 of the characters a-z A-Z 0-9 _ -, not {namespace!r}"
        )
    return namespace


def namespace_of_address(address: str) -> str | None:
    """The namespace that a name server's address tells: ``http://MQ_INST_1_2.host:port`` says
    ``MQ_INST_1_2``."""
    found = _INSTANCE.match(address.strip())
    return found[1] if found else None


def _split(name: str) -> tuple[str, str]:
    prefix = ""
    for each in _PREFIXES:
        if name.startswith(each):
            prefix, name = prefix + each, name.removeprefix(each)
    return prefix, name


def _is_system(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith((TopicName.SYSTEM_PREFIX, SYSTEM_GROUP_PREFIX))
