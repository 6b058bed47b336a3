"""The topics of a broker: who may read and write them, how many queues they have (class
TopicConfigManager).

``get`` is one dict lookup and returns the ``Topic`` that the hot path reads. Every change makes a
new data version and tells the listeners, which persist the table (``config/topics.json``) and
register the broker anew.

One file: every change, whoever makes it, goes through the same limits to the same listeners.
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from ...remoting.clock import Clock
from ...remoting.errors import RequestError
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
    TopicFilterType,
)
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.sys_flag import PermName, TopicSysFlag
from ...remoting.protocol.message.topic_names import (
    SEND_FORBIDDEN_TOPICS,
    SYSTEM_TOPICS,
    TopicName,
    group_of_retry_topic,
    is_retry_topic,
    is_system_topic,
    reply_topic,
    topic_error,
)
from ..config.config import BrokerConfig
from .frame_limit import FrameBudget, entry_bytes
from .lmq import light_topic

log: Final = logging.getLogger(__name__)

READ_WRITE: Final = PermName.READ | PermName.WRITE
MAX_TOPICS: Final = 100_000
"""Clients make topics by sending to them; this many is the end."""
MAX_QUEUES_PER_TOPIC: Final = 65_536
"""The original takes any number, and then lists them all to everybody who asks."""


class TopicChange(enum.Enum):
    """What happened to a topic."""

    MADE = enum.auto()
    """By a message, whose sender is to be told that it is stored."""
    FOR_GROUP = enum.auto()
    """The retry topic of a group that has come up: no message has gone into it yet."""
    SET = enum.auto()
    """Made or changed by an administrator."""
    DELETED = enum.auto()
    ORDER = enum.auto()
    """The name server says otherwise about being ordered."""

    @property
    def is_for_name_servers(self) -> bool:
        """Whether they have to hear of it. They forget topics only when whoever deletes one tells
        them."""
        return self in (TopicChange.MADE, TopicChange.FOR_GROUP, TopicChange.SET)


TopicListener = Callable[["Topic", TopicChange], None]


class Topic:
    """One topic as the hot path sees it: plain attributes, no property, one object for as long as
    the topic lives.

    ``put_nums`` and ``put_size_bytes`` count what was stored (TOPIC_PUT_NUMS, TOPIC_PUT_SIZE); the
    send processor adds to them directly. ``batched_nums`` are those of them that came with another
    one in one request. ``sendable`` is false for topics that only the broker itself writes to;
    ``retry_of`` is the group whose retry topic this is.
    """

    __slots__ = (
        "batched_nums",
        "config",
        "max_queue_nums",
        "multi_tag",
        "name",
        "order",
        "perm",
        "put_nums",
        "put_size_bytes",
        "read_queue_nums",
        "readable",
        "retry_of",
        "sendable",
        "write_queue_nums",
        "writeable",
    )

    def __init__(self, config: TopicConfig) -> None:
        self.name: Final[str] = config.topic_name
        self.sendable: Final[bool] = self.name not in SEND_FORBIDDEN_TOPICS
        self.retry_of: Final[str | None] = group_of_retry_topic(self.name)
        self.put_nums: int = 0
        self.put_size_bytes: int = 0
        self.batched_nums: int = 0
        self.apply(config)

    def apply(self, config: TopicConfig) -> None:
        """Take over another configuration of the same topic; the counters go on."""
        self.config: TopicConfig = config
        self.read_queue_nums: int = config.read_queue_nums
        self.write_queue_nums: int = config.write_queue_nums
        self.max_queue_nums: int = max(config.read_queue_nums, config.write_queue_nums)
        self.perm: int = config.perm
        self.readable: bool = bool(config.perm & PermName.READ)
        self.writeable: bool = bool(config.perm & PermName.WRITE)
        self.order: bool = config.order
        self.multi_tag: bool = config.topic_filter_type is TopicFilterType.MULTI_TAG

    def __repr__(self) -> str:
        return f"Topic({self.config!r})"


@lru_cache(maxsize=10_000)
def _light_topic(name: str) -> Topic | None:
    config = light_topic(name)
    return None if config is None else Topic(config)


class Topics:
    """All topics by name. Pure: the clock comes from outside, files and name servers hang on
    ``listeners``."""

    def __init__(self, config: BrokerConfig, clock: Clock, *, light: bool = False) -> None:
        """``light``: topics whose names begin with ``%LMQ%`` need not be made (``lmq.py``)."""
        self._config = config
        self._clock = clock
        self._outages = Outages(clock)
        self._table: dict[str, Topic] = {}
        self._deleting: Counter[str] = Counter()
        """How many are at it."""
        self._system: set[str] = {
            config.broker_cluster_name,
            config.broker_name,
            reply_topic(config.broker_cluster_name),
        }
        if config.trace_topic_enable:
            self._system.add(config.msg_trace_topic_name)
        self.data_version: DataVersion = DataVersion(counter=0, timestamp=clock.time_ms())
        self.version_before: DataVersion = self.data_version
        """The version that this broker's last change was made to."""
        self.listeners: list[TopicListener] = []
        """Called after every change with the topic, after a deletion with the one that is gone."""
        self.frame_budget: FrameBudget = FrameBudget(
            "topics", "delete topics that are not used or start another broker"
        )
        for built_in in _built_in_topics(config):
            self._put(built_in)
        self.get: Callable[[str], Topic | None] = self._table.get
        """``get(name)``: the topic or None. Bound to the dict, so that asking costs one call."""
        if light:
            self.get = lambda name: self._table.get(name) or _light_topic(name)

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._table.values())

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def has_queue(self, name: str, queue_id: int, max_offset: Callable[[str, int], int]) -> bool:
        """A queue of a topic that somebody has made; of others, and behind its last one, those that
        have ever had a message: light ones, whose names have no end, and those that a topic had."""
        topic = self._table.get(name)
        return (topic is not None and 0 <= queue_id < topic.max_queue_nums) or (
            max_offset(name, queue_id) > 0
        )

    def is_system(self, name: str) -> bool:
        """A topic that no administrator may create, change or delete."""
        return name in self._system or is_system_topic(name)

    def check_name(self, name: str) -> None:
        """Raises ``RequestError`` for one that no administrator may create, change or delete."""
        if error := topic_error(name):
            raise RequestError(ResponseCode.SYSTEM_ERROR, error)
        if self.is_system(name):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"The topic[{name}] is conflict with system topic."
            )

    def system_topics(self) -> list[str]:
        """The names of all system topics, whether they exist or not."""
        return sorted(SYSTEM_TOPICS | self._system)

    def new_version(self) -> None:
        """Name servers and slaves have to take over every topic anew, though none has changed."""
        self.version_before = self.data_version
        self.data_version = self.data_version.next(self._clock.time_ms())

    # -- creation by messages
    # ------------------------------------------------------------------------------------

    def create_on_send(
        self, name: str, *, default_topic: str, queue_nums: int, sys_flag: int = 0
    ) -> Topic | None:
        """The topic a message is sent to, made after the pattern of ``default_topic`` when it does
        not exist.

        ``queue_nums`` is the client's wish; the default topic's write queues limit it. ``None``
        when the default topic is missing or may not be inherited (``broker-services.md`` §2.2). A
        client names it, and could name the topics of cluster and broker: with
        ``autoCreateTopicEnable=false`` only one that an administrator has made counts.
        """
        topic = self._table.get(name)
        if topic is not None:
            return topic
        pattern = self._table.get(default_topic)
        if pattern is None:
            self._outages.fails(
                log,
                ("not made", name),
                "no topic made: the default topic is unknown topic=%s default=%s",
                name,
                default_topic,
            )
            return None
        switched_off = not self._config.auto_create_topic_enable and self.is_system(default_topic)
        if default_topic == TopicName.AUTO_CREATE and switched_off:
            pattern.apply(replace(pattern.config, perm=READ_WRITE))
        if switched_off or not pattern.perm & PermName.INHERIT:
            self._outages.fails(
                log,
                ("not made", name),
                "no topic made: the default topic may not be inherited topic=%s default=%s",
                name,
                default_topic,
            )
            return None
        queues = max(0, min(queue_nums, pattern.write_queue_nums))
        return self._create(
            TopicConfig(
                topic_name=name,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=pattern.perm & ~PermName.INHERIT,
                topic_filter_type=pattern.config.topic_filter_type,
                topic_sys_flag=sys_flag,
            ),
            TopicChange.MADE,
        )

    def create_for_broker(self, name: str, *, queue_nums: int = 1, sys_flag: int = 0) -> Topic:
        """A topic that a message needs (retry, dead letter, transactions); an existing one stays as
        it is."""
        return self._table.get(name) or self._create(
            _own_topic(name, queue_nums, sys_flag), TopicChange.MADE
        )

    def create_if_possible(self, name: str, *, queue_nums: int = 1) -> Topic | None:
        """The same where nobody waits for an answer. Without it a message is stored all the same,
        and can be read as soon as somebody has made the topic."""
        try:
            return self.create_for_broker(name, queue_nums=queue_nums)
        except RequestError as error:
            self._outages.fails(
                log,
                ("not made", name),
                "no topic for what the broker stores itself, make it to read that topic=%s "
                "error=%s",
                name,
                error.remark,
                level=logging.ERROR,
            )
            return None

    def create_for_group(
        self, name: str, *, queue_nums: int = 1, sys_flag: int = 0
    ) -> Topic | None:
        """The retry topic of a group that has come up; an existing one stays as it is. ``None``: it
        is for this broker's master to make. (Slaves of the original make it, too.)"""
        topic = self._table.get(name)
        if topic is None and self._config.owns_tables:
            topic = self._create(_own_topic(name, queue_nums, sys_flag), TopicChange.FOR_GROUP)
        return topic

    @contextmanager
    def deleting(self, name: str) -> Iterator[None]:
        """Meanwhile nobody makes such a topic: what its queues got might go with what they have of
        the old one."""
        self._deleting[name] += 1
        try:
            yield
        finally:
            self._deleting -= Counter((name,))  # none is left of what is 0

    def _create(self, config: TopicConfig, change: TopicChange) -> Topic:
        if config.topic_name in self._deleting:
            remark = f"the topic {config.topic_name} is being deleted: try again in a second"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        if error := topic_error(config.topic_name):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, error
            )  # names become folders of the store
        if len(self._table) >= MAX_TOPICS:
            remark = (
                f"the broker holds {MAX_TOPICS} topics, {config.topic_name} cannot be added: "
                "delete unused topics first"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        if not self.frame_budget.has(entry_bytes(config.topic_name, config)):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, self.frame_budget.refusal(config.topic_name)
            )
        topic = self._put(config)
        log.info("topic made %s", config)
        self._has_changed(topic, change)
        return topic

    def _put(self, config: TopicConfig) -> Topic:
        """Into the table; a topic that is there stays the object that it is."""
        name = config.topic_name
        topic = self._table.get(name)
        if topic is None:
            topic = self._table[name] = Topic(config)
            self.frame_budget.take(entry_bytes(name, config))
        else:
            self.frame_budget.take(entry_bytes(name, config) - entry_bytes(name, topic.config))
            topic.apply(config)
        return topic

    def _pop(self, name: str) -> Topic | None:
        topic = self._table.pop(name, None)
        if topic is not None:
            self.frame_budget.take(-entry_bytes(name, topic.config))
        return topic

    # -- administration
    # ------------------------------------------------------------------------------------------

    def update(self, config: TopicConfig) -> Topic:
        """Create or change a topic as an administrator asks for."""
        topic = self._table.get(config.topic_name)
        if topic is None:
            return self._create(config, TopicChange.SET)
        log.info("topic changed old=%s new=%s", topic.config, config)
        self._put(config)
        self._has_changed(topic, TopicChange.SET)
        return topic

    def delete(self, name: str) -> bool:
        """Whether there was such a topic."""
        topic = self._pop(name)
        if topic is None:
            return False
        log.info("topic deleted %s", topic.config)
        self._has_changed(topic, TopicChange.DELETED)
        return True

    def set_order_topics(self, names: Collection[str]) -> bool:
        """What the name server says: these topics are ordered, all others are not. Whether anything
        changed.

        It is one change, however many topics it is about; the listeners are told one of them.
        """
        changed = [topic for topic in self._table.values() if topic.order != (topic.name in names)]
        for topic in changed:
            self._put(replace(topic.config, order=topic.name in names))
        if changed:
            self._has_changed(changed[0], TopicChange.ORDER)
        return bool(changed)

    def _has_changed(self, topic: Topic, change: TopicChange) -> None:
        self.frame_budget.tell()
        self.new_version()
        for listener in self.listeners:
            listener(topic, change)

    # -- file and wire
    # -------------------------------------------------------------------------------------------

    def record(self) -> TopicConfigTable:
        """The table as it is persisted and as GET_ALL_TOPIC_CONFIG answers: a snapshot."""
        return TopicConfigTable(
            data_version=self.data_version,
            topic_config_table={name: topic.config for name, topic in self._table.items()},
        )

    def load(self, table: TopicConfigTable) -> None:
        """Lay a persisted table over the built-in topics; the file wins. The key is the name that
        counts."""
        for name, config in table.topic_config_table.items():
            if error := topic_error(name):
                log.warning("topic of the file left out: %s", error)
                continue
            self._put(replace(config, topic_name=name))
        self.frame_budget.tell()
        self.data_version = table.data_version

    def replace(self, table: TopicConfigTable) -> None:
        """On a slave: have exactly the topics of the master, in its version. Those that stay go on
        counting."""
        theirs = {
            name: config
            for name, config in table.topic_config_table.items()
            if not topic_error(name)
        }
        gone = [
            topic
            for name in list(self._table)
            if name not in theirs and (topic := self._pop(name)) is not None
        ]
        for name, config in theirs.items():
            config = replace(config, topic_name=name)
            known = self._table.get(name)
            if known is None or known.config != config:
                self._put(config)
        self._taken_over(table.data_version, gone)

    def take_over(self, config: TopicConfig, version: DataVersion) -> None:
        """On a follower: a topic as it is at its leader, and this table has ``version`` now."""
        if not topic_error(config.topic_name):
            self._put(config)
        self._taken_over(version, ())

    def take_deletion(self, name: str, version: DataVersion) -> None:
        """On a follower: the leader has deleted a topic. ``version`` as in ``take_over``."""
        topic = self._pop(name)
        self._taken_over(version, () if topic is None else (topic,))

    def _taken_over(self, version: DataVersion, gone: Iterable[Topic]) -> None:
        self.frame_budget.tell()
        self.data_version = version
        for topic in gone:
            for listener in self.listeners:
                listener(topic, TopicChange.DELETED)


def topic_sys_flag(name: str, *, unit_mode: bool) -> int:
    """Clients in unit mode mark the topics they make; a retry topic gets the mark of a
    subscription."""
    if not unit_mode:
        return 0
    return TopicSysFlag.UNIT_SUB if is_retry_topic(name) else TopicSysFlag.UNIT


def _own_topic(name: str, queue_nums: int, sys_flag: int) -> TopicConfig:
    queue_nums = max(0, min(queue_nums, MAX_QUEUES_PER_TOPIC))
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queue_nums,
        write_queue_nums=queue_nums,
        topic_sys_flag=sys_flag,
    )


def _built_in_topics(config: BrokerConfig) -> Iterator[TopicConfig]:
    """``broker-services.md`` §1.2."""

    def topic(name: str, queues: int, perm: int = READ_WRITE) -> TopicConfig:
        return TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm
        )

    inherited = READ_WRITE | PermName.INHERIT
    yield topic(TopicName.SELF_TEST, 1)
    if config.auto_create_topic_enable:
        yield topic(TopicName.AUTO_CREATE, config.default_topic_queue_nums, inherited)
    yield topic(TopicName.BENCHMARK, 1024)
    yield topic(
        config.broker_cluster_name,
        16,
        inherited if config.cluster_topic_enable else PermName.INHERIT,
    )
    yield topic(
        config.broker_name, 1, inherited if config.broker_topic_enable else PermName.INHERIT
    )
    yield topic(TopicName.OFFSET_MOVED_EVENT, 1)
    yield topic(TopicName.SCHEDULE, 18)
    if config.trace_topic_enable:
        yield topic(config.msg_trace_topic_name, 1)
    yield topic(reply_topic(config.broker_cluster_name), 1)
