"""``config/consumerFilter.json``: the filters of groups across restarts (class ConsumerFilterManager;
``broker-services.md`` §7.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..remoting.clock import Clock
from ..remoting.protocol.bodies.codec import decode_body
from ..remoting.protocol.bodies.consumer_filter import ConsumerFilterTable
from .config import BrokerConfig
from .config_files import ConfigFile
from .consumer_filters import ConsumerFilters
from .filter.bloom import BloomFilter
from .json_file import JsonFile

FILE_NAME: Final = "consumerFilter.json"
INTERVAL_S: Final = 10.0


def load_filters(config: BrokerConfig, folder: Path, now_ms: int) -> ConsumerFilters:
    """The filters as they were persisted, all of them dead. Blocks. Raises ``StoreFileError``.

    Before the store is opened: messages that recovery puts into their queues again get their bit maps too.
    """
    bloom = BloomFilter.for_groups(config.expect_consumer_num_use_filter, config.max_error_rate_of_bloom_filter)
    filters = ConsumerFilters(bloom)
    file = JsonFile(folder / FILE_NAME)
    table = file.load(lambda text: decode_body(ConsumerFilterTable, text.encode()))
    if table is not None:
        filters.load(table, now_ms)
    return filters


class FilterPersistence:
    """Service: every 10 seconds forgets old filters and has the others written when they changed."""

    def __init__(self, config: BrokerConfig, filters: ConsumerFilters, file: ConfigFile, clock: Clock) -> None:
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
