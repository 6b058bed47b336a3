"""RocketMQ in Python: name server, broker, store, client and tools that speak to every RocketMQ 4.9
cluster.

::

    from aiorocketmq import Message, Producer

    async with Producer("orders", namesrv="localhost:9876") as producer:
        await producer.send(Message("Order", b"..."))

The names here are imported when they are first used. ``aiorocketmq.sync`` has the same clients for
programs without asyncio; errors and whatever else is no client come from here then, too. What all
clients take (``namesrv=``, ``credentials=`` ...): ``aiorocketmq.client.options.ClientOptions``.
"""

from __future__ import annotations

import importlib
import os

TYPE_CHECKING = False
"""As typing's: to import that takes longer than all else here."""

# In a clone the rooms stand beside this folder, and Python started in the clone's root finds this
# folder whatever is installed. Where they were installed they stand in it, and nothing else counts.
_BESIDE = os.path.dirname(__path__[0])
if os.path.isfile(f"{_BESIDE}/remoting/protocol/wire.py") and not os.path.isdir(
    f"{__path__[0]}/remoting"
):
    __path__.append(_BESIDE)

if TYPE_CHECKING:
    from typing import Any

    from .client.admin import Admin
    from .client.cluster.instance import ClientInstance
    from .client.consumer.consume_hooks import ConsumeContext, ConsumeHook, ConsumeOutcome
    from .client.consumer.owned_queue import CacheLimits
    from .client.consumer.pull_consumer import PullConsumer
    from .client.consumer.push_consumer import PushConsumer
    from .client.consumer.subscription import Sql
    from .client.errors import (
        Attempt,
        ClientStateError,
        ConfigError,
        DeserializationError,
        ExpressionRefused,
        HalfMessageUnsafe,
        IdempotenceNotSupported,
        MessageError,
        NoRouteError,
        ReplyTimeout,
        RetryLater,
        SendFailed,
        SendTimedOut,
        SequenceError,
        SequenceFenced,
        SequenceGap,
        SequencesFull,
        SequenceUnknown,
        SerializationError,
        SuspendQueue,
    )
    from .client.offsets.start_offset import StartFrom
    from .client.producer.batches import Accumulate, split
    from .client.producer.hooks import SendContext, SendHook
    from .client.producer.producer import Producer
    from .client.producer.sending import SendResult, SendStatus
    from .client.producer.transaction import (
        Transaction,
        TransactionProducer,
        TransactionSendResult,
        TransactionState,
    )
    from .client.program import run
    from .client.serialization import JsonSerializer, MsgpackSerializer, Serializer
    from .local_cluster import LocalCluster
    from .remoting.errors import (
        BrokerError,
        ConnectError,
        ConnectionLostError,
        ConsumerNotOnline,
        NoPermission,
        RemotingError,
        RequestTimeout,
        RocketMQError,
        SystemBusy,
        TopicNotExist,
    )
    from .remoting.protocol.bodies.heartbeat import MessageModel
    from .remoting.protocol.message.message import Message
    from .remoting.protocol.message.message_queue import MessageQueue
    from .remoting.protocol.record.decode import MessageExt
    from .remoting.signature import Credentials

    __version__: str

__all__ = [
    "Accumulate",
    "Admin",
    "Attempt",
    "BrokerError",
    "CacheLimits",
    "ClientInstance",
    "ClientStateError",
    "ConfigError",
    "ConnectError",
    "ConnectionLostError",
    "ConsumeContext",
    "ConsumeHook",
    "ConsumeOutcome",
    "ConsumerNotOnline",
    "Credentials",
    "DeserializationError",
    "ExpressionRefused",
    "HalfMessageUnsafe",
    "IdempotenceNotSupported",
    "JsonSerializer",
    "LocalCluster",
    "Message",
    "MessageError",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "MsgpackSerializer",
    "NoPermission",
    "NoRouteError",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "RemotingError",
    "ReplyTimeout",
    "RequestTimeout",
    "RetryLater",
    "RocketMQError",
    "SendContext",
    "SendFailed",
    "SendHook",
    "SendResult",
    "SendStatus",
    "SendTimedOut",
    "SequenceError",
    "SequenceFenced",
    "SequenceGap",
    "SequenceUnknown",
    "SequencesFull",
    "SerializationError",
    "Serializer",
    "Sql",
    "StartFrom",
    "SuspendQueue",
    "SystemBusy",
    "TopicNotExist",
    "Transaction",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionState",
    "__version__",
    "run",
    "split",
]

_MODULES = {
    ".client.admin": ("Admin",),
    ".client.producer.batches": ("Accumulate", "split"),
    ".client.consumer.consume_hooks": ("ConsumeContext", "ConsumeHook", "ConsumeOutcome"),
    ".client.errors": (
        "Attempt",
        "ClientStateError",
        "ConfigError",
        "DeserializationError",
        "ExpressionRefused",
        "HalfMessageUnsafe",
        "IdempotenceNotSupported",
        "MessageError",
        "NoRouteError",
        "ReplyTimeout",
        "RetryLater",
        "SendFailed",
        "SendTimedOut",
        "SequenceError",
        "SequenceFenced",
        "SequenceGap",
        "SequenceUnknown",
        "SequencesFull",
        "SerializationError",
        "SuspendQueue",
    ),
    ".client.producer.hooks": ("SendContext", "SendHook"),
    ".client.cluster.instance": ("ClientInstance",),
    ".client.consumer.owned_queue": ("CacheLimits",),
    ".client.producer.producer": ("Producer",),
    ".client.program": ("run",),
    ".client.serialization": ("JsonSerializer", "MsgpackSerializer", "Serializer"),
    ".client.consumer.pull_consumer": ("PullConsumer",),
    ".client.consumer.push_consumer": ("PushConsumer",),
    ".client.producer.sending": ("SendResult", "SendStatus"),
    ".client.offsets.start_offset": ("StartFrom",),
    ".client.consumer.subscription": ("Sql",),
    ".client.producer.transaction": (
        "Transaction",
        "TransactionProducer",
        "TransactionSendResult",
        "TransactionState",
    ),
    ".local_cluster": ("LocalCluster",),
    ".remoting.errors": (
        "BrokerError",
        "ConnectError",
        "ConnectionLostError",
        "ConsumerNotOnline",
        "NoPermission",
        "RemotingError",
        "RequestTimeout",
        "RocketMQError",
        "SystemBusy",
        "TopicNotExist",
    ),
    ".remoting.protocol.bodies.heartbeat": ("MessageModel",),
    ".remoting.protocol.message.message": ("Message",),
    ".remoting.protocol.message.message_queue": ("MessageQueue",),
    ".remoting.protocol.record.decode": ("MessageExt",),
    ".remoting.signature": ("Credentials",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """PEP 562: import a public name when it is first asked for."""
    if name == "__version__":
        from .daemon.package_version import package_version

        value: Any = package_version()
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
