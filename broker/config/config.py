"""What a broker can be told, with the original's names and defaults (``broker-services.md`` §16.1,
§16.3, §16.4).

A property ``brokerName`` is the field ``broker_name``; the store has a Record of its own
(``store.model.config``), and one ``.properties`` file fills them all. Thread pools and their queues
mean nothing on one event loop, and some services are not there yet: such properties are accepted
and handed out by GET_BROKER_CONFIG, and who sets one is told so once. Which take effect at the next
start only, when request 25 changes them, stands in ``runtime_config.NEXT_START``.
"""

from __future__ import annotations

import os
import socket
from typing import Annotated, Final

from msgspec import Meta, field

from ...daemon.local_address import local_address
from ...remoting.protocol.bodies.route import MASTER_ID
from ...remoting.protocol.java_properties import description_of
from ...remoting.protocol.message.sys_flag import PermName
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.wire import Record, fields_of, i32, i64
from ...remoting.transport.config import ServerConfig

DEFAULT_PORT: Final = 10911
VIP_PORT_DISTANCE: Final = 2
"""The second port lies this much below ``listenPort``; clients compute it themselves."""
HA_PORT_DISTANCE: Final = 1
"""Replication lies this much above it."""

ALIASES: Final = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "warmMappedFileEnable": "warmMapedFileEnable",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
    "mapedFileSizeConsumeQueueExt": "mappedFileSizeConsumeQueueExt",
    "enableBatchPush": "isEnableBatchPush",
}
"""Spellings of older and of other versions."""

OF_THIS_MACHINE: Final = frozenset(
    {"rocketmqHome", "namesrvAddr", "brokerIP1", "brokerIP2", "brokerName", "useTLS"}
)
"""Properties that follow the machine, its environment or others while nobody sets them: in a file
they would stay as they were once. ``useTLS`` follows ``tls.enable`` in the original, which is no
property of a file there."""

IMPORTANT: Final = frozenset(
    {
        "namesrvAddr",
        "brokerIP1",
        "brokerName",
        "brokerClusterName",
        "brokerId",
        "listenPort",
        "autoCreateTopicEnable",
        "rejectTransactionMessage",
        "transactionTimeOut",
        "transactionCheckMax",
        "transactionCheckInterval",
        "aclEnable",
        "storePathRootDir",
        "storePathCommitLog",
        "deleteWhen",
        "fileReservedTime",
        "brokerRole",
        "flushDiskType",
        "haMasterAddress",
    }
)
"""What ``-m`` prints."""

_NO_EFFECT: Final = "no effect here: "
_NOTHING: Final = _NO_EFFECT + "nothing depends on it"
_THREADS: Final = _NO_EFFECT + "there are no thread pools"

threads = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, description=_THREADS)]
_POOL: Final = _NO_EFFECT + "there is no pool of off-heap buffers"

no_pool_int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description=_POOL)]
no_pool_bool = Annotated[bool, Meta(description=_POOL)]
unused_int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description=_NOTHING)]
unused_bool = Annotated[bool, Meta(description=_NOTHING)]

positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
"""With 0 of these nothing would be served."""
_positive_i64 = Annotated[int, Meta(ge=1, le=2**63 - 1)]
_not_negative_i64 = Annotated[int, Meta(ge=0, le=2**63 - 1)]

_CORES = os.cpu_count() or 1


def _send_threads() -> int:
    return min(_CORES, 4)


class BrokerConfig(Record, kw_only=True):
    """Class BrokerConfig. Mutable: UPDATE_BROKER_CONFIG changes it while the broker runs."""

    rocketmq_home: str | None = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME"))
    namesrv_addr: str | None = field(default_factory=lambda: os.environ.get("NAMESRV_ADDR"))
    """``;`` separated."""
    broker_ip1: str = field(name="brokerIP1", default_factory=local_address)
    """Where clients reach this broker; registered with the name servers."""
    broker_ip2: str = field(name="brokerIP2", default_factory=local_address)
    """Where slaves reach it."""
    broker_name: str = field(default_factory=socket.gethostname)
    broker_cluster_name: str = "DefaultCluster"
    broker_id: i64 = 0
    """0 is the master."""
    broker_permission: Annotated[int, Meta(ge=0, le=7)] = PermName.READ | PermName.WRITE

    default_topic_queue_nums: Annotated[int, Meta(ge=1, le=65536)] = 8
    auto_create_topic_enable: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    message_store_plug_in: Annotated[
        str, Meta(description=_NO_EFFECT + "it names Java classes")
    ] = ""
    msg_trace_topic_name: str = TopicName.TRACE
    trace_topic_enable: bool = False

    send_message_thread_pool_nums: threads = field(default_factory=_send_threads)
    put_message_future_thread_pool_nums: threads = field(default_factory=_send_threads)
    pull_message_thread_pool_nums: threads = 16 + 2 * _CORES
    process_reply_message_thread_pool_nums: threads = 16 + 2 * _CORES
    query_message_thread_pool_nums: threads = 8 + _CORES
    admin_broker_thread_pool_nums: threads = 16
    client_manage_thread_pool_nums: threads = 32
    consumer_manage_thread_pool_nums: threads = 32
    heartbeat_thread_pool_nums: threads = min(32, _CORES)
    end_transaction_thread_pool_nums: threads = field(
        default_factory=lambda: max(8 + 2 * _CORES, 4 * _send_threads())
    )

    flush_consumer_offset_interval: positive = 5000
    flush_consumer_offset_history_interval: unused_int = 60000
    reject_transaction_message: bool = False
    fetch_namesrv_addr_by_address_server: bool = False
    namesrv_domain: str = field(name="rocketmq.namesrv.domain", default="jmenv.tbsite.net")
    """The address server that is asked then, a host or ``host:port``. A system property of the
    original, as the next."""
    namesrv_domain_subgroup: str = field(name="rocketmq.namesrv.domain.subgroup", default="nsaddr")
    """The last part of the path there."""

    send_thread_pool_queue_capacity: threads = 10000
    put_thread_pool_queue_capacity: threads = 10000
    pull_thread_pool_queue_capacity: threads = 100000
    reply_thread_pool_queue_capacity: threads = 10000
    query_thread_pool_queue_capacity: threads = 20000
    client_manager_thread_pool_queue_capacity: threads = 1000000
    consumer_manager_thread_pool_queue_capacity: threads = 1000000
    heartbeat_thread_pool_queue_capacity: threads = 50000
    end_transaction_pool_queue_capacity: threads = 100000

    filter_server_nums: unused_int = 0
    long_polling_enable: bool = True
    short_polling_time_mills: _not_negative_i64 = 1000
    notify_consumer_ids_changed_enable: bool = True
    high_speed_mode: unused_bool = False
    commercial_enable: unused_bool = True
    commercial_timer_count: unused_int = 1
    commercial_trans_count: unused_int = 1
    commercial_big_count: unused_int = 1
    commercial_base_count: unused_int = 1
    transfer_msg_by_heap: unused_bool = True
    max_delay_time: unused_int = 40
    region_id: str = "DefaultRegion"
    register_broker_timeout_mills: positive = 6000
    slave_read_enable: bool = False
    disable_consume_if_consumer_read_slowly: bool = False
    consumer_fallbehind_threshold: _not_negative_i64 = 16 * 1024**3
    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: positive = 200
    """Messages are refused while the oldest one without an answer is older."""
    wait_time_mills_in_pull_queue: threads = 5000
    wait_time_mills_in_heartbeat_queue: threads = 31000
    wait_time_mills_in_transaction_queue: threads = 3000
    start_accept_send_request_time_stamp: i64 = 0
    max_send_sequences: Annotated[int, Meta(ge=0, le=30_000)] = 10_000
    send_sequence_expire_millis: Annotated[int, Meta(ge=60_000)] = 7 * 24 * 3_600_000
    trace_on: bool = True
    enable_calc_filter_bit_map: bool = False
    expect_consumer_num_use_filter: Annotated[int, Meta(ge=1, le=10_000)] = 32
    max_error_rate_of_bloom_filter: Annotated[int, Meta(ge=1, le=99)] = 20
    filter_data_clean_time_span: _not_negative_i64 = 24 * 3600 * 1000
    filter_support_retry: bool = False
    enable_property_filter: bool = False
    compressed_register: bool = False
    force_register: bool = True
    register_name_server_period: i32 = 30000
    transaction_time_out: _not_negative_i64 = 6000
    """How old (ms) a half message is when its producer is asked about it for the first time."""
    transaction_check_max: positive = 15
    """How often a producer is asked before its half message goes to TRANS_CHECK_MAX_TIME_TOPIC."""
    transaction_check_interval: _positive_i64 = 60000
    """Between two rounds of asking (ms)."""
    acl_enable: bool = False
    """Takes effect at the next start."""
    acl_compatible: Annotated[
        bool, Meta(description="open to every account what the original does not check")
    ] = False
    """Ours."""
    acl_plain_file: Annotated[
        str, Meta(description="ACL accounts, a path in ROCKETMQ_HOME; also all of conf/acl")
    ] = field(name="rocketmq.acl.plain.file", default="conf/plain_acl.yml")
    """A system property of the original."""
    store_reply_message_enable: bool = True
    enable_detail_stat: bool = True
    """Statistics per queue too."""
    auto_delete_unused_stats: unused_bool = False
    """What is gone is always forgotten."""
    isolate_log_enable: unused_bool = False
    config_black_list: str = "configBlackList;brokerConfigPath"
    request_hooks: Annotated[
        str, Meta(description="your own code around requests: module:name;...")
    ] = ""
    """Ours, like those below."""
    prometheus_port: Annotated[
        int, Meta(ge=0, le=65535, description="serve metrics at /metrics, 0: do not")
    ] = 0
    prometheus_address: Annotated[str, Meta(description="where to listen for scrapes")] = (
        "127.0.0.1"
    )

    @property
    def owns_tables(self) -> bool:
        """Topics and groups are made here when they are used. Those of a slave, and of a member of
        a group that does not lead, are its master's: what it made itself the master's tables would
        take away again."""
        return self.broker_id == MASTER_ID

    @property
    def is_readable(self) -> bool:
        """Messages may be pulled."""
        return bool(self.broker_permission & PermName.READ)

    @property
    def is_writeable(self) -> bool:
        """Messages may be sent."""
        return bool(self.broker_permission & PermName.WRITE)


class BrokerServerConfig(ServerConfig, kw_only=True):
    """Class NettyServerConfig, with the port of a broker."""

    listen_port: Annotated[
        int, Meta(ge=0, le=65535, description="the port to serve; two below it is the VIP port")
    ] = DEFAULT_PORT


class BrokerClientConfig(Record, kw_only=True):
    """Class NettyClientConfig: the broker as a client of the name servers.

    ``writeBufferHighWaterMark`` and ``writeBufferLowWaterMark`` belong here too, under the names of
    the server's.
    """

    client_worker_threads: unused_int = 4
    client_callback_executor_threads: unused_int = _CORES
    client_oneway_semaphore_value: unused_int = 65535
    client_async_semaphore_value: unused_int = 65535
    connect_timeout_millis: positive = 3000
    channel_not_active_interval: unused_int = 60000
    client_channel_max_idle_time_seconds: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 120
    client_socket_snd_buf_size: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="as serverSocketSndBufSize")
    ] = 0
    client_socket_rcv_buf_size: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="as serverSocketRcvBufSize")
    ] = 0
    client_pooled_byte_buf_allocator_enable: unused_bool = False
    client_close_socket_if_timeout: unused_bool = True
    use_tls: Annotated[bool, Meta(description="TLS towards name servers, as tls.enable")] = field(
        name="useTLS", default=False
    )


class LaterStoreConfig(Record, kw_only=True):
    """The rest of class MessageStoreConfig (§16.2): what ``store.model.config`` does not know."""

    commit_interval_commit_log: no_pool_int = 200
    use_reentrant_lock_when_put_message: unused_bool = True
    flush_commit_log_timed: unused_bool = True
    destroy_maped_file_interval_forcibly: unused_int = 120_000
    redelete_hanged_file_interval: unused_int = 120_000
    put_msg_index_hight_water: unused_int = 600_000
    commit_commit_log_least_pages: no_pool_int = 4
    flush_least_pages_when_warm_maped_file: unused_int = 4096
    commit_commit_log_thorough_interval: no_pool_int = 200
    message_index_safe: unused_bool = False
    ha_listen_port: Annotated[
        int, Meta(ge=0, le=65535, description="where slaves come, 0: one above listenPort")
    ] = 0
    """The original sets it to ``listenPort`` + 1, whatever is configured."""
    ha_send_heartbeat_interval: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 5000
    ha_housekeeping_interval: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 20_000
    ha_transfer_batch_size: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 32_768
    ha_master_address: str | None = None
    """The master's port for slaves, ``host:port``; None: as the name servers say."""
    ha_slave_fallbehind_max: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 268_435_456
    slave_timeout: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 3000
    ha_fetch_from_first_file: bool = True
    """Ours: an empty slave gets all that its master has, else (as in the original) from its last
    file on."""
    ha_ack_after_flush: bool = False
    """Ours, of a slave: it acknowledges what is on its disk, else what it has received."""
    ha_max_connections_per_address: Annotated[int, Meta(ge=2, le=64)] = 8
    """Ours: connections to the port for slaves that come from one address. Slaves may share a
    host."""
    in_sync_replicas: Annotated[int, Meta(ge=1, le=64)] = 1
    """Ours (a name of 5.x), of a SYNC_MASTER: how many slaves must have acknowledged a message."""
    debug_lock_enable: unused_bool = False
    duplication_enable: unused_bool = False
    disk_fall_recorded: unused_bool = True
    """What a group has not read yet is always known."""
    os_page_cache_busy_time_out_mills: positive = 1000
    """An event loop that is late by so much is busy with the disk, whatever waits."""
    transient_store_pool_enable: no_pool_bool = False
    transient_store_pool_size: no_pool_int = 5
    fast_fail_if_no_buffer_in_store_pool: no_pool_bool = False
    enable_schedule_async_deliver: unused_bool = False
    schedule_async_deliver_max_pending_limit: unused_int = 2000
    schedule_async_deliver_max_resend_num2_blocked: unused_int = 3


class SecretConfig(Record, frozen=True, kw_only=True):
    """What no request hands out or changes."""

    ha_secret: Annotated[
        str, Meta(description="slaves and their master prove to each other that they know it")
    ] = ""
    """Ours; 16 characters or more."""


def without_effect(record_type: type[Record]) -> dict[str, str]:
    """The properties of a Record that change nothing, each with the reason."""
    described = {field.wire_name: description_of(field) for field in fields_of(record_type)}
    return {
        name: text.removeprefix(_NO_EFFECT)
        for name, text in described.items()
        if text.startswith(_NO_EFFECT)
    }
