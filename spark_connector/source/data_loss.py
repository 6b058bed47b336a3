"""``failOnDataLoss``: what becomes of a query that cannot have what it was to read."""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.protocol.message.message_queue import MessageQueue
from ..access.errors import DataLossError, IncompleteReadError
from ..access.options import SourceOptions

__all__ = ["lose", "told"]

log: Final = logging.getLogger(__name__)


def lose(
    options: SourceOptions,
    what: str,
    instead: str = "",
    error: type[DataLossError | IncompleteReadError] = DataLossError,
) -> None:
    """Raise ``error``, or say ``what`` is lost and what is done ``instead``."""
    if options.fail_on_data_loss:
        raise error(what)
    log.warning("%s%s (failOnDataLoss=false)", what, instead and f": {instead}")


def told(queue: MessageQueue) -> str:
    """How texts call it."""
    return f"the queue {queue.topic}/{queue.broker_name}/{queue.queue_id}"
