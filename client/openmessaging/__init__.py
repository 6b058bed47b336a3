"""OpenMessaging 0.1.0-alpha, the driver ``rocketmq`` (client.md §8.1), in asyncio.

Imports ``producer`` and ``consumer``. Start with ``access_point.py``; ``messages.py`` is pure.
"""

from __future__ import annotations

from .access_point import MessagingAccessPoint
from .consumers import MessageContext, PullConsumer, PushConsumer
from .messages import (
    BytesMessage,
    Headers,
    KeyValue,
    MessageFormatError,
    NotSupportedError,
    OMSError,
    OMSTimeout,
    PropertyKeys,
    from_rocketmq,
    to_rocketmq,
)
from .producers import Producer, SendResult, SequenceProducer

__all__ = [
    "BytesMessage",
    "Headers",
    "KeyValue",
    "MessageContext",
    "MessageFormatError",
    "MessagingAccessPoint",
    "NotSupportedError",
    "OMSError",
    "OMSTimeout",
    "Producer",
    "PropertyKeys",
    "PullConsumer",
    "PushConsumer",
    "SendResult",
    "SequenceProducer",
    "from_rocketmq",
    "to_rocketmq",
]
