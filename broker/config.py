"""What a broker can be told, with the original's names and defaults (``broker-services.md`` §16.1, §16.3, §16.4).

A property ``brokerName`` is the field ``broker_name``; the store has a Record of its own (``store.config``), and one
``.properties`` file fills them all. Thread pools and their queues mean nothing on one event loop, and some services are
not there yet: such properties are accepted and handed out by GET_BROKER_CONFIG, and who sets one is told so once.
"""

from __future__ import annotations

import os
import socket
from typing import Annotated, Final

from msgspec import Meta, field

from ..remoting.config import ServerConfig
from ..remoting.local_address import local_address
from ..remoting.protocol.java_properties import description_of
from ..remoting.protocol.sys_flag import PermName
from ..remoting.protocol.topic_names import TopicName
from ..remoting.protocol.wire import Record, fields_of, i32, i64

DEFAULT_PORT: Final = 10911
VIP_PORT_DISTANCE: Final = 2
"""The second port lies this much below ``listenPort``; clients compute it themselves."""
HA_PORT_DISTANCE: Final = 1
"""Replication lies this much above it."""

ALIASES: Final = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
    "mapedFileSizeConsumeQueueExt": "mappedFileSizeConsumeQueueExt",
    "enableBatchPush": "isEnableBatchPush",
}
"""Spellings of older and of other versions."""

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
_LATER: Final = _NO_EFFECT + "not yet"

threads = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, description=_THREADS)]
unused_int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description=_NOTHING)]
unused_bool = Annotated[bool, Meta(description=_NOTHING)]
later_int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description=_LATER)]
later_bool = Annotated[bool, Meta(description=_LATER)]
later_text = Annotated[str, Meta(description=_LATER)]

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
    broker_permission: i32 = PermName.READ | PermName.WRITE

    default_topic_queue_nums: i32 = 8
    auto_create_topic_enable: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    message_store_plug_in: later_text = ""
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
    end_transaction_thread_pool_nums: threads = field(default_factory=lambda: max(8 + 2 * _CORES, 4 * _send_threads()))

    flush_consumer_offset_interval: i32 = 5000
    flush_consumer_offset_history_interval: unused_int = 60000
    reject_transaction_message: later_bool = False
    fetch_namesrv_addr_by_address_server: later_bool = False

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
    short_polling_time_mills: i64 = 1000
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
    register_broker_timeout_mills: i32 = 6000
    slave_read_enable: later_bool = False
    disable_consume_if_consumer_read_slowly: later_bool = False
    consumer_fallbehind_threshold: later_int = 16 * 1024**3
    broker_fast_failure_enable: later_bool = True
    wait_time_mills_in_send_queue: later_int = 200
    wait_time_mills_in_pull_queue: later_int = 5000
    wait_time_mills_in_heartbeat_queue: later_int = 31000
    wait_time_mills_in_transaction_queue: later_int = 3000
    start_accept_send_request_time_stamp: i64 = 0
    trace_on: bool = True
    enable_calc_filter_bit_map: later_bool = False
    expect_consumer_num_use_filter: later_int = 32
    max_error_rate_of_bloom_filter: later_int = 20
    filter_data_clean_time_span: later_int = 24 * 3600 * 1000
    filter_support_retry: later_bool = False
    enable_property_filter: later_bool = False
    compressed_register: bool = False
    force_register: bool = True
    register_name_server_period: i32 = 30000
    transaction_time_out: later_int = 6000
    transaction_check_max: later_int = 15
    transaction_check_interval: later_int = 60000
    acl_enable: bool = False
    store_reply_message_enable: later_bool = True
    enable_detail_stat: later_bool = True
    auto_delete_unused_stats: later_bool = False
    isolate_log_enable: unused_bool = False
    config_black_list: str = "configBlackList;brokerConfigPath"


class BrokerServerConfig(ServerConfig, kw_only=True):
    """Class NettyServerConfig, with the port of a broker."""

    listen_port: Annotated[int, Meta(ge=0, le=65535, description="the port to serve; two below it is the VIP port")] = (
        DEFAULT_PORT
    )


class BrokerClientConfig(Record, kw_only=True):
    """Class NettyClientConfig: the broker as a client of the name servers.

    ``writeBufferHighWaterMark`` and ``writeBufferLowWaterMark`` belong here too, under the names of the server's.
    """

    client_worker_threads: unused_int = 4
    client_callback_executor_threads: unused_int = _CORES
    client_oneway_semaphore_value: unused_int = 65535
    client_async_semaphore_value: unused_int = 65535
    connect_timeout_millis: i32 = 3000
    channel_not_active_interval: unused_int = 60000
    client_channel_max_idle_time_seconds: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 120
    client_socket_snd_buf_size: unused_int = 0
    client_socket_rcv_buf_size: unused_int = 0
    client_pooled_byte_buf_allocator_enable: unused_bool = False
    client_close_socket_if_timeout: unused_bool = True
    use_tls: Annotated[bool, Meta(description="TLS towards name servers, as tls.enable")] = field(
        name="useTLS", default=False
    )


class LaterStoreConfig(Record, kw_only=True):
    """The rest of class MessageStoreConfig (§16.2): what ``store.config`` does not know yet."""

    store_path_d_ledger_commit_log: later_text | None = field(name="storePathDLedgerCommitLog", default=None)
    read_only_commit_log_store_paths: later_text | None = None
    enable_consume_queue_ext: later_bool = False
    mapped_file_size_consume_queue_ext: later_int = 50_331_648
    bit_map_length_consume_queue_ext: later_int = 64
    commit_interval_commit_log: later_int = 200
    use_reentrant_lock_when_put_message: unused_bool = True
    flush_commit_log_timed: unused_bool = True
    destroy_maped_file_interval_forcibly: unused_int = 120_000
    redelete_hanged_file_interval: unused_int = 120_000
    put_msg_index_hight_water: unused_int = 600_000
    commit_commit_log_least_pages: later_int = 4
    flush_least_pages_when_warm_maped_file: unused_int = 4096
    commit_commit_log_thorough_interval: later_int = 200
    message_index_safe: later_bool = False
    ha_listen_port: later_int = DEFAULT_PORT + HA_PORT_DISTANCE
    """The original sets it to ``listenPort`` + 1, whatever is configured."""
    ha_send_heartbeat_interval: later_int = 5000
    ha_housekeeping_interval: later_int = 20_000
    ha_transfer_batch_size: later_int = 32_768
    ha_master_address: later_text | None = None
    ha_slave_fallbehind_max: later_int = 268_435_456
    slave_timeout: later_int = 3000
    debug_lock_enable: unused_bool = False
    duplication_enable: unused_bool = False
    disk_fall_recorded: later_bool = True
    os_page_cache_busy_time_out_mills: later_int = 1000
    transient_store_pool_enable: unused_bool = False
    transient_store_pool_size: unused_int = 5
    fast_fail_if_no_buffer_in_store_pool: unused_bool = False
    enable_d_leger_commit_log: later_bool = False
    d_leger_group: later_text | None = None
    d_leger_peers: later_text | None = None
    d_leger_self_id: later_text | None = None
    preferred_leader_id: later_text | None = None
    is_enable_batch_push: unused_bool = False
    enable_schedule_message_stats: later_bool = True
    enable_lmq: later_bool = False
    enable_multi_dispatch: later_bool = False
    max_lmq_consume_queue_num: later_int = 20_000
    enable_schedule_async_deliver: later_bool = False
    schedule_async_deliver_max_pending_limit: later_int = 2000
    schedule_async_deliver_max_resend_num2_blocked: later_int = 3


def without_effect(record_type: type[Record]) -> dict[str, str]:
    """The properties of a Record that change nothing, each with the reason."""
    described = {field.wire_name: description_of(field) for field in fields_of(record_type)}
    return {name: text.removeprefix(_NO_EFFECT) for name, text in described.items() if text.startswith(_NO_EFFECT)}
