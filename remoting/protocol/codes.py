"""Numbers that both ends agree on: request codes, response codes, languages, versions
(``request-codes.md``, ``remoting.md`` §1.3)."""

from __future__ import annotations

from enum import IntEnum


class RequestCode(IntEnum):
    """Every request code of 4.9.8 that somebody serves, and those of 5.x that we serve too (classes
    RequestCode, DLedgerRequestCode)."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    UPDATE_AND_CREATE_TOPIC_LIST = 18
    GET_ALL_TOPIC_CONFIG = 21
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    GET_ALL_CONSUMER_OFFSET = 43
    GET_ALL_DELAY_OFFSET = 45
    CHECK_CLIENT_CONFIG = 46
    UPDATE_AND_CREATE_ACL_CONFIG = 50
    DELETE_ACL_CONFIG = 51
    GET_BROKER_CLUSTER_ACL_INFO = 52
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    GET_KVLIST_BY_NAMESPACE = 219
    RESET_CONSUMER_CLIENT_OFFSET = 220
    GET_CONSUMER_STATUS_FROM_CLIENT = 221
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    GET_TOPICS_BY_CLUSTER = 224
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    QUERY_CONSUME_TIME_SPAN = 303
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    CLEAN_EXPIRED_CONSUMEQUEUE = 306
    GET_CONSUMER_RUNNING_INFO = 307
    QUERY_CORRECTION_OFFSET = 308
    CONSUME_MESSAGE_DIRECTLY = 309
    SEND_MESSAGE_V2 = 310
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    CLONE_GROUP_OFFSET = 314
    VIEW_BROKER_STATS_DATA = 315
    CLEAN_UNUSED_TOPIC = 316
    GET_BROKER_CONSUME_STATS = 317
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    SEND_BATCH_MESSAGE = 320
    QUERY_CONSUME_QUEUE = 321
    QUERY_DATA_VERSION = 322
    RESUME_CHECK_HALF_MESSAGE = 323
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_ALL_PRODUCER_INFO = 328
    DELETE_EXPIRED_COMMITLOG = 329
    GET_TOPIC_CONFIG = 351
    LITE_PULL_MESSAGE = 361
    HEALTH = 9_000
    """Ours: whether this daemon does what it is there for; nobody has to sign it."""
    SEND_SEQUENCE_HELLO = 9_100
    """Ours: whether this broker checks the sequences of sends (``send_sequence``)."""
    GET_QUEUE_ENDS = 9_200
    """Ours: where the queues end that have no messages behind a place of the log."""
    DLEDGER_METADATA = 50_000
    DLEDGER_APPEND = 50_001
    DLEDGER_GET = 50_002
    DLEDGER_HANDSHAKE = 50_900
    """Ours: members that share a secret prove it to each other."""
    DLEDGER_VOTE = 51_001
    DLEDGER_HEART_BEAT = 51_002
    DLEDGER_PUSH = 51_004
    DLEDGER_LEADERSHIP_TRANSFER = 51_005


class ResponseCode(IntEnum):
    """Response codes of 4.9.8 (classes ResponseCode, RemotingSysResponseCode). A code below zero is
    never on the wire."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    TRANSACTION_SHOULD_COMMIT = 200
    TRANSACTION_SHOULD_ROLLBACK = 201
    TRANSACTION_STATE_UNKNOW = 202
    TRANSACTION_STATE_GROUP_WRONG = 203
    NO_BUYER_ID = 204
    NOT_IN_CURRENT_UNIT = 205
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    UPDATE_AND_CREATE_ACL_CONFIG_FAILED = 209
    DELETE_ACL_CONFIG_FAILED = 210
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED = 211
    SEQUENCE_FENCED = 9_101
    """Ours, as all of ``send_sequence``: a later epoch of this producer has begun."""
    SEQUENCE_GAP = 9_102
    """Messages in front of this one are not stored."""
    SEQUENCE_UNKNOWN = 9_103
    """Nothing is known any more of a producer that has been here, or may have been."""
    SEQUENCES_FULL = 9_104
    """No further producer can be remembered."""
    SEQUENCES_NOT_READY = 9_105
    """SEND_SEQUENCE_HELLO comes first."""
    FLOW_CONTROL = 215


class LanguageCode(IntEnum):
    """The language of a peer: by name in JSON headers, by number in binary ones (class
    LanguageCode)."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


VERSION = 409
"""What we say we are: V4_9_8."""

V3_0_11 = 37
"""From here the body of REGISTER_BROKER is a RegisterBrokerBody."""
V3_0_7_SNAPSHOT = 28
"""From here a consumer understands RESET_CONSUMER_CLIENT_OFFSET and
GET_CONSUMER_STATUS_FROM_CLIENT."""
V3_1_8_SNAPSHOT = 62
"""From here a consumer answers GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY."""
V3_4_9 = 121
"""From here ``maxReconsumeTimes`` of a request is honoured."""
V4_9_4 = 401
"""From here a client reads routes in standard JSON."""
_HIGHER_VERSION = 612
_V3_0_0 = (
    "SNAPSHOT", "ALPHA1", "BETA1", "BETA2", "BETA3", "BETA4", "BETA5", "BETA6_SNAPSHOT", "BETA6",
    "BETA7_SNAPSHOT", "BETA7",
    "BETA8_SNAPSHOT", "BETA8", "BETA9_SNAPSHOT", "BETA9", "FINAL",
)  # fmt: skip
"""From ordinal 0 on."""


def version_name(ordinal: int) -> str:
    """The name of a version ordinal, for people: 409 is ``V4_9_8`` (class MQVersion).

    >>> version_name(409), version_name(408), version_name(479), version_name(700)
    ('V4_9_8', 'V4_9_8_SNAPSHOT', 'V5_3_3', 'HIGHER_VERSION')
    """
    if ordinal >= _HIGHER_VERSION:
        return "HIGHER_VERSION"
    if ordinal < len(_V3_0_0):
        return f"V3_0_0_{_V3_0_0[max(0, ordinal)]}"
    release = ordinal | 1
    suffix = "" if ordinal & 1 else "_SNAPSHOT"
    if release <= 45:
        return f"V3_0_{(release - 15) // 2}{suffix}"
    if release <= 85:
        minor, patch = divmod((release - 27) // 2, 10)
        return f"V3_{minor}_{patch}{suffix}"
    if release < 213:  # there is no V3_3_0, V3_4_0, ... V3_9_0
        minor, patch = divmod((release - 87) // 2, 9)
        return f"V3_{minor + 3}_{patch + 1}{suffix}"
    major, first = (4, 213) if release < 413 else (5, 413)
    minor, patch = divmod((release - first) // 2, 10)
    return f"V{major}_{minor}_{patch}{suffix}"
