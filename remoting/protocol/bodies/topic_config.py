"""Topics as a broker keeps them: ``topics.json``, the reply of code 21, a part of the registration
(``headers.md`` part C).

Classes of the original: TopicConfig, DataVersion, TopicConfigSerializeWrapper.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import field
from msgspec.structs import replace

from ..wire import Record, i32, i64


class DataVersion(Record, frozen=True, kw_only=True):
    """The version of a table. Two are equal when everything in them is equal.

    ``state_version`` comes from brokers of 5.x; a name server that gives it back spares them a
    registration.
    """

    counter: i64 = 0
    timestamp: i64 = 0
    """When it last changed, ms."""
    state_version: i64 | None = None

    @property
    def text(self) -> str:
        """As slaves of ours tell which one they have (``KnownTableRequest``)."""
        return f"{self.counter}-{self.timestamp}-{self.state_version}"

    def next(self, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return DataVersion(
            counter=self.counter + 1, timestamp=now_ms, state_version=self.state_version
        )

    @property
    def unsure(self) -> DataVersion:
        """Of a table that has what came with this version, and perhaps more than it, or less: no
        table of a master has it, so a slave with it asks for the whole table."""
        return replace(self, timestamp=min(-abs(self.timestamp), -1))


class TopicFilterType(StrEnum):
    """Whether messages of a topic carry one tag or several."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class TopicConfig(Record, frozen=True, kw_only=True):
    """One topic. Keys that are absent on input get the original's defaults: 16 queues, readable and
    writeable."""

    topic_name: str
    read_queue_nums: i32 = 16
    write_queue_nums: i32 = 16
    perm: i32 = 6
    """Bits of PermName: read 4, write 2, inherit 1."""
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: i32 = 0
    """Bits of TopicSysFlag."""
    order: bool = False


class TopicConfigList(Record, frozen=True, kw_only=True):
    """Topics to be made (5.x, class CreateTopicListRequestBody)."""

    topic_config_list: tuple[TopicConfig, ...]


class TopicConfigTable(Record, frozen=True, kw_only=True):
    """All topics of a broker (class TopicConfigSerializeWrapper)."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = DataVersion()
