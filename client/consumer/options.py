"""What consumers may be told (classes DefaultMQPushConsumer, DefaultLitePullConsumer). What all
clients take: ``client/options.py``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from types import NoneType

from ...remoting.protocol.bodies.heartbeat import MessageModel
from ...remoting.protocol.commands.pull import PullSysFlag
from ..cluster.instance import ClientInstance
from ..errors import ConfigError
from ..handlers import LONGEST_SUSPEND_S
from ..offsets.local_offsets import LocalOffsets
from ..offsets.start_offset import StartFrom
from ..options import ClientOptions, Settings
from ..producer.trace import ConsumeTracer, trace_topic
from ..usage_errors import check_plain, check_several, chosen, number
from .consume_hooks import ConsumeHook, FilterHook
from .owned_queue import CacheLimits, checked_limits
from .pulling import PullSettings
from .queue_callbacks import QueueCallback, QueueCallbacks
from .rebalance import AllocateStrategy, averagely

WITHOUT_END = 2**31 - 1
"""How often an ordered consumer tries a message, unless it is told otherwise; and how far apart the
first and the last of its messages may be."""


class ConsumerOptions(ClientOptions, total=False):
    """What both kinds of consumers take. See ``PushConsumer``, ``PullConsumer``."""

    instance: ClientInstance | None
    start_from: StartFrom
    start_time: datetime | None
    model: MessageModel
    pull_batch: int
    suspend: float
    commit_interval: float
    offset_folder: str | os.PathLike[str] | None
    allocate: AllocateStrategy
    trace: bool | str
    filters: Sequence[FilterHook]
    on_assign: QueueCallback | None
    on_revoke: QueueCallback | None


class PushConsumerOptions(ConsumerOptions, total=False):
    """See ``PushConsumer``."""

    ordered: bool
    concurrency: int
    batch_size: int
    max_reconsume_times: int
    cache: CacheLimits
    pull_interval: float
    post_subscription: bool
    consume_timeout: float
    suspend_queue: float
    stop_timeout: float
    hooks: Sequence[ConsumeHook]


class PullConsumerOptions(ConsumerOptions, total=False):
    """See ``PullConsumer``."""

    auto_commit: bool
    max_cached: int
    max_cached_bytes: int
    max_cached_total: int


class ConsumerSettings(Settings, frozen=True, kw_only=True):
    """See ``ConsumerOptions``."""

    instance: ClientInstance | None = None
    start_from: StartFrom = StartFrom.LAST
    start_time: datetime | None = None
    model: MessageModel = MessageModel.CLUSTERING
    pull_batch: int = 32
    suspend: float = 15.0
    commit_interval: float = 5.0
    offset_folder: str | os.PathLike[str] | None = None
    allocate: AllocateStrategy = averagely
    trace: bool | str = False
    filters: Sequence[FilterHook] = ()
    on_assign: QueueCallback | None = None
    on_revoke: QueueCallback | None = None

    def __post_init__(self) -> None:
        chosen("model", self.model, MessageModel)
        self.require_counts("pull_batch")
        self.require_positive("commit_interval")
        if not isinstance(self.offset_folder, (str, os.PathLike, NoneType)):
            raise ConfigError(f"offset_folder is a path, not {self.offset_folder!r}")
        check_several("filters", self.filters)
        for each in self.filters:
            check_plain("a filter", each)

    @property
    def broadcasting(self) -> bool:
        return self.model is MessageModel.BROADCASTING

    def local_offsets(self, instance: ClientInstance, group: str) -> LocalOffsets | None:
        """Where a broadcasting consumer keeps how far it got."""
        if not self.broadcasting:
            return None
        return LocalOffsets(
            self.offset_folder, instance.lasting_id, group, instance.clock, instance.earlier_id
        )

    def callbacks(self, instance: ClientInstance, group: str) -> QueueCallbacks:
        """Raises ``ConfigError``."""
        return QueueCallbacks(group, instance.namespace, self.on_assign, self.on_revoke)

    def tracer(self, instance: ClientInstance, group: str) -> ConsumeTracer | None:
        topic = trace_topic(self.trace)
        return None if topic is None else ConsumeTracer(instance, group, topic)


class PushConsumerSettings(ConsumerSettings, frozen=True, kw_only=True):
    """See ``PushConsumer``."""

    ordered: bool = False
    concurrency: int = 20
    batch_size: int = 32
    max_reconsume_times: int = -1
    cache: CacheLimits = CacheLimits()
    pull_interval: float = 0.0
    post_subscription: bool = False
    consume_timeout: float = 900.0
    suspend_queue: float = 1.0
    stop_timeout: float = 30.0
    hooks: Sequence[ConsumeHook] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_counts("concurrency", "batch_size")
        self.require_positive("consume_timeout", "suspend_queue")
        check_several("hooks", self.hooks)
        if number("stop_timeout", self.stop_timeout) < 0:
            raise ConfigError(f"stop_timeout must be 0 or more, not {self.stop_timeout!r}")
        if number("max_reconsume_times", self.max_reconsume_times) < -1:
            raise ConfigError(
                "max_reconsume_times is 0 or more, or -1 for the usual (16, with ordered without "
                f"end), not {self.max_reconsume_times!r}"
            )
        if self.suspend_queue > LONGEST_SUSPEND_S:
            raise ConfigError(
                f"suspend_queue is {LONGEST_SUSPEND_S:g} s at most, not {self.suspend_queue!r}"
            )

    @property
    def cache_limits(self) -> CacheLimits:
        """Raises ``ConfigError``."""
        limits = checked_limits(self.cache)
        return limits._replace(span=WITHOUT_END) if self.ordered else limits

    @property
    def pulling(self) -> PullSettings:
        return PullSettings(
            self.pull_batch,
            self.suspend,
            PullSysFlag.SUSPEND | (PullSysFlag.SUBSCRIPTION if self.post_subscription else 0),
            commits_on_pull=not self.broadcasting,
            interval=self.pull_interval,
            filters=tuple(self.filters),
        )


class PullConsumerSettings(ConsumerSettings, frozen=True, kw_only=True):
    """See ``PullConsumer``."""

    auto_commit: bool = True
    max_cached: int = CacheLimits().messages
    max_cached_bytes: int = CacheLimits().size_bytes
    max_cached_total: int = 10_000
    suspend: float = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_counts("max_cached", "max_cached_bytes", "max_cached_total")

    @property
    def pulling(self) -> PullSettings:
        return PullSettings(
            self.pull_batch,
            self.suspend,
            PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL,
            commits_on_pull=False,
            filters=tuple(self.filters),
        )
