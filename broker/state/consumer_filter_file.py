"""``config/consumerFilter.json``: the filters of groups across restarts (class
ConsumerFilterManager; ``broker-services.md`` §7.4)."""

from __future__ import annotations

from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.consumer_filter import ConsumerFilterTable
from ..config.config import BrokerConfig
from ..filter.bloom import BloomFilter
from .config_files import ConfigFile, ConfigFiles
from .consumer_filters import ConsumerFilters

FILE_NAME: Final = "consumerFilter.json"
INTERVAL_S: Final = 10.0


def load_filters(config: BrokerConfig, files: ConfigFiles, clock: Clock) -> ConsumerFilters:
    """The filters as they were persisted, all of them dead. Blocks. Raises ``StoreFileError``."""
    bloom = BloomFilter.for_groups(
        config.expect_consumer_num_use_filter, config.max_error_rate_of_bloom_filter
    )
    filters = ConsumerFilters(bloom, Outages(clock))
    if (table := files.load(FILE_NAME, ConsumerFilterTable)) is not None:
        filters.load(table, clock.time_ms())
    return filters


class FilterPersistence:
    """Service: every 10 seconds forgets old filters and has the others written when they
    changed."""

    def __init__(
        self, config: BrokerConfig, filters: ConsumerFilters, file: ConfigFile, clock: Clock
    ) -> None:
        self._config = config
        self._filters = filters
        self._file = file
        self._clock = clock
        self._written = filters.changes

    async def run(self) -> None:
        try:
            while True:
                await self._clock.sleep(INTERVAL_S)
                self.check()
        finally:
            self.check()

    def check(self) -> None:
        self._filters.clean(self._clock.time_ms(), self._config.filter_data_clean_time_span)
        if self._filters.changes != self._written:
            self._written = self._filters.changes
            self._file.changed()
