"""What is counted and measured, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...daemon.launch import LaunchError
from ...remoting.clock import Clock
from ...remoting.protocol.extras import install_command
from ...remoting.services import Service
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole
from ..config.settings import BrokerSettings
from ..monitoring.consume_progress import ConsumeProgress
from ..sends.fast_failure import FastFailure
from ..state.state import State
from ..state.topics import Topic, TopicChange
from ..stats.broker_stats import BrokerStats, StatsSampler, topic_counts
from ..stats.stats_windows import StatsWindows
from .copies import Copies

if TYPE_CHECKING:
    from ..monitoring.prometheus import PrometheusServer


class Monitoring:
    """The counters of a broker, and what is made of them."""

    def __init__(
        self, settings: BrokerSettings, store: MessageStore, state: State, clock: Clock
    ) -> None:
        config = settings.broker
        stats = BrokerStats(store.replica, replicates_itself=store.raft is not None)
        self.stats: BrokerStats = stats
        self.sampler: StatsSampler = StatsSampler(stats, clock, store.flush.take_waits_ms)
        self.windows: StatsWindows = StatsWindows(
            clock,
            (
                lambda: topic_counts(state.topics),
                lambda: stats.counts(config.broker_cluster_name, detail=config.enable_detail_stat),
            ),
        )
        self.progress: ConsumeProgress = ConsumeProgress(
            config, state.topics, state.consumers, state.offsets, store, self.windows
        )

    @property
    def services(self) -> tuple[Service, ...]:
        return (self.sampler, self.windows)

    def topic_changed(self, topic: Topic, change: TopicChange) -> None:
        """What is gone is not counted any more."""
        if change is TopicChange.DELETED:
            self.stats.forget_topic(topic.name)


def prometheus_server(
    settings: BrokerSettings,
    store: MessageStore,
    state: State,
    monitoring: Monitoring,
    load: FastFailure,
    held_pulls: Callable[[], int],
    copies: Copies,
    clock: Clock,
) -> PrometheusServer | None:
    """``None``: nobody wants it. Raises ``LaunchError``."""
    config = settings.broker
    if not config.prometheus_port:
        return None
    try:
        from ..monitoring.metrics import BrokerMetrics
        from ..monitoring.prometheus import PrometheusServer
    except ModuleNotFoundError as error:
        raise LaunchError(
            f"prometheusPort needs the package prometheus_client: {install_command('prometheus')}"
        ) from error
    metrics = BrokerMetrics(
        config, store, state, monitoring.stats, monitoring.sampler, load, held_pulls, copies.lags
    )
    metrics.member = copies.member
    if store.raft is None and store.config.broker_role is BrokerRole.SYNC_MASTER:
        metrics.slaves_wanted = settings.later.in_sync_replicas
    return PrometheusServer(metrics, config.prometheus_address, config.prometheus_port, clock)
