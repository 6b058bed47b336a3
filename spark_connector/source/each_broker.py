"""Asking brokers about their queues, so that one that does not answer holds up nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ...remoting.errors import BrokerError, RemotingError
from ...remoting.protocol.message.message_queue import MessageQueue

__all__ = ["ask_each_broker"]

V = TypeVar("V")


def ask_each_broker(
    queues: Iterable[MessageQueue], ask: Callable[[list[MessageQueue]], Mapping[MessageQueue, V]]
) -> tuple[dict[MessageQueue, V], dict[str, str]]:
    """The answers, and why there are none, by the name of the broker."""
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue)
    found: dict[MessageQueue, V] = {}
    failed: dict[str, str] = {}
    for name, its in by_broker.items():
        try:
            found |= ask(its)
        except (RemotingError, BrokerError) as error:
            failed[name] = str(error)
    return found, failed
