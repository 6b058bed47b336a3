"""Errors that end a Spark query; the texts say what to do."""

from __future__ import annotations

from ...remoting.errors import RocketMQError

__all__ = ["CoverageError", "DamagedMessageError", "DataLossError", "RangeTimeoutError"]


class CoverageError(RocketMQError):
    """Brokers or queues that the query is to read are not there at present
    (``failOnDataLoss=true``)."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. What is left is not all: start the broker and read again, or read what is "
            "there with the option failOnDataLoss=false"
        )


class DamagedMessageError(RocketMQError):
    """A message is not what was sent any more (``failOnDamage=true``)."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. mqstore repair mends a broker's store from another replica; if that has it "
            "damaged too, go on without "
            "it with the option failOnDamage=false"
        )


class DataLossError(RocketMQError):
    """Messages that the query was to read are not there any more (``failOnDataLoss=true``)."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Messages are lost to this query, perhaps deleted as too old, or the topic "
            "is another one by now. "
            "If that is acceptable, go on without them with the option failOnDataLoss=false"
        )


class RangeTimeoutError(RocketMQError):
    """A range of a queue could not be read to its end in ``rocketmqConsumer.pollTimeoutMs``."""
