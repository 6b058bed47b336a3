"""Waiting for brokers that are away, until ``deliveryTimeout`` (Kafka's ``delivery.timeout.ms``).

What time mends is tried again until then: a broker that is gone, does not answer, has no master or
no room at present, a topic that no name server knows (a broker that has died takes its topics with
it), a name server that is away. Pauses grow from 0.1 to 2 s; each one ends early when the name
servers, who are asked meanwhile, tell something new. A broker that refuses rows with a reason of
its own is tried for 3 s only, as it would say the same in two minutes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from ...client.cluster.instance import ClientInstance
from ...client.cluster.master_watch import denies_mastership
from ...client.errors import NoRouteError, SendFailed
from ...remoting.errors import BrokerError, RemotingError, RocketMQError, SystemBusy

__all__ = ["DeliveryTimeoutError", "Patience"]

log: Final = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
_MOST_REFUSALS: Final = 5
"""Pauses of 0.1 to 1.6 s: a topic that has just been created is known to all brokers by then."""
_LAST_TRY_S: Final = 1.0
"""What the try that begins when the time is up may take."""

T = TypeVar("T")


class DeliveryTimeoutError(RocketMQError, TimeoutError):
    """Rows that no broker has acknowledged within ``deliveryTimeout``; the cause is what the last
    try said. Some of them may be stored all the same."""

    def __init__(
        self, topic: str, whom: str, limit_s: float, why: RocketMQError, repeated: str
    ) -> None:
        """``repeated``: what comes of rows that are sent once more."""
        super().__init__(
            f"rows for the topic {topic} waited {limit_s:g} s (option deliveryTimeout) for {whom} "
            f"in vain: {why}. Start the broker again (mqadmin clusterList shows who is there) and "
            f"write once more, or give a longer deliveryTimeout; {repeated}"
        )


class Patience:
    """How long the rows of one task are tried again, and what the log says of it: once for whom
    they wait, once that they go on."""

    def __init__(
        self,
        instance: ClientInstance,
        limit_s: float,
        retries: int | None,
        repeated: str = "rows may be there twice then",
    ) -> None:
        """``retries``: not more often, even if time is left. ``repeated``: as the error says."""
        self._instance = instance
        self._repeated = repeated
        self._limit_s = limit_s
        self._retries = retries
        self._waiting: dict[tuple[str, str], float] = {}
        """Since when, by topic and whom it is waited for."""
        self._acknowledged: dict[tuple[str, str], float] = {}
        """The last time, by the same."""

    async def until_done(
        self, topic: str, whom: str, work: Callable[[float], Coroutine[Any, Any, T]]
    ) -> T:
        """What ``work`` gives, which is told each time how many seconds are left.

        Raises ``DeliveryTimeoutError``; what ``work`` raised where that is no matter of time, or
        when ``retries`` are used up.
        """
        clock = self._instance.clock
        deadline = clock.monotonic() + self._limit_s
        pause_s, tries, refusals = FIRST_PAUSE_S, 0, 0
        while True:
            began = clock.monotonic()
            try:
                result = await work(max(deadline - began, _LAST_TRY_S))
            except (SendFailed, NoRouteError, RemotingError, SystemBusy) as error:
                tries, refusals = tries + 1, refusals + 1 if _is_refusal(error) else 0
                used_up = self._retries is not None and tries > self._retries
                if used_up or refusals > _MOST_REFUSALS:
                    raise
                if (left := deadline - clock.monotonic()) <= 0:
                    raise DeliveryTimeoutError(
                        topic, whom, self._limit_s, error, self._repeated
                    ) from error
                if began >= self._acknowledged.get((topic, whom), began):  # else it is old news
                    self._say_waiting(topic, whom, error)
            else:
                self._acknowledged[topic, whom] = clock.monotonic()
                self._say_going_on(topic, whom)
                return result
            await self._instance.masters.changed(topic, min(pause_s, left))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _say_waiting(self, topic: str, whom: str, error: RocketMQError) -> None:
        if (topic, whom) not in self._waiting:
            self._waiting[topic, whom] = self._instance.clock.monotonic()
            log.warning(
                "rows for the topic %s wait for %s, for %g s at most (option deliveryTimeout): %s",
                topic,
                whom,
                self._limit_s,
                error,
            )

    def _say_going_on(self, topic: str, whom: str) -> None:
        if (since := self._waiting.pop((topic, whom), None)) is not None:
            seconds = self._instance.clock.monotonic() - since
            log.warning("rows for the topic %s go on after %.1f s: %s", topic, seconds, whom)


def _is_refusal(error: RocketMQError) -> bool:
    """Every broker that was asked has answered, and not that it is unable to at present."""
    answers = [each.error for each in error.attempts] if isinstance(error, SendFailed) else []
    return bool(answers) and all(
        isinstance(answer, BrokerError)
        and not isinstance(answer, SystemBusy)
        and not denies_mastership(answer)
        for answer in answers
    )
