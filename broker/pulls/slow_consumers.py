"""Groups that read so far back that they cost others the disk are not served any more
(BrokerController.protectBroker; ``broker-services.md`` §9.3). Off unless
``disableConsumeIfConsumerReadSlowly``."""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from ...remoting.clock import Clock
from ..config.config import BrokerConfig
from ..state.subscription_groups import SubscriptionGroups

log: Final = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 180.0


class SlowConsumers:
    """Service: every 3 minutes takes ``consumeEnable`` from groups whose last pull of any queue
    ended more than ``consumerFallbehindThreshold`` bytes before the end of the commit log. An
    administrator gives it back (updateSubGroup). Not at a slave, other than in the original: its
    master's table gives it back at once, and who reads far back is sent there.
    """

    def __init__(self, config: BrokerConfig, groups: SubscriptionGroups, clock: Clock) -> None:
        self._config = config
        self._groups = groups
        self._clock = clock
        self._behind: dict[tuple[str, str, int], int] = {}

    def note(self, group: str, topic: str, queue_id: int, behind_bytes: int) -> None:
        """A pull found messages; so much of the commit log lies behind the last of them."""
        self._behind[group, topic, queue_id] = behind_bytes

    async def run(self) -> None:
        while True:
            await self._clock.sleep(CHECK_INTERVAL_S)
            self.check()

    def check(self) -> None:
        """Look at the pulls since the last time."""
        behind, self._behind = self._behind, {}
        config = self._config
        if not (config.disable_consume_if_consumer_read_slowly and config.owns_tables):
            return
        limit = config.consumer_fallbehind_threshold
        for (name, topic, queue_id), size_bytes in behind.items():
            group = self._groups.find(name)
            if size_bytes > limit and group is not None and group.consume_enable:
                log.warning(
                    "group disabled, it reads too far back group=%s topic=%s queue=%d bytes=%d "
                    "limit=%d",
                    name, topic, queue_id, size_bytes, limit,
                )  # fmt: skip
                self._groups.update(replace(group, consume_enable=False))
