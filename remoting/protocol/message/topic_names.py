"""What a topic and a group may be called, and the names that have a meaning (message-encoding.md
§4.9).

Classes of the original: Validators, TopicValidator, MixAll.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TOPIC_LENGTH: Final = 127
MAX_GROUP_LENGTH: Final = 255
_ALLOWED: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


class TopicName:
    """Topics and prefixes with a meaning."""

    AUTO_CREATE: Final = "TBW102"
    SELF_TEST: Final = "SELF_TEST_TOPIC"
    BENCHMARK: Final = "BenchmarkTest"
    OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
    SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
    TRACE: Final = "RMQ_SYS_TRACE_TOPIC"
    TRANS_HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
    TRANS_OP_HALF: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    TRANS_CHECK_MAX_TIME: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
    RETRY_PREFIX: Final = "%RETRY%"
    DLQ_PREFIX: Final = "%DLQ%"
    LMQ_PREFIX: Final = "%LMQ%"
    SYSTEM_PREFIX: Final = "rmq_sys_"
    REPLY_POSTFIX: Final = "REPLY_TOPIC"


SYSTEM_TOPICS: Final = frozenset(
    {
        TopicName.AUTO_CREATE,
        TopicName.SCHEDULE,
        TopicName.BENCHMARK,
        TopicName.TRANS_HALF,
        TopicName.TRACE,
        TopicName.TRANS_OP_HALF,
        TopicName.TRANS_CHECK_MAX_TIME,
        TopicName.SELF_TEST,
        TopicName.OFFSET_MOVED_EVENT,
    }
)
"""Cannot be created or deleted by an administrator; a broker adds its cluster, its name, reply and
trace topic.
"""

SEND_FORBIDDEN_TOPICS: Final = frozenset(
    {
        TopicName.SCHEDULE,
        TopicName.TRANS_HALF,
        TopicName.TRANS_OP_HALF,
        TopicName.TRANS_CHECK_MAX_TIME,
        TopicName.SELF_TEST,
        TopicName.OFFSET_MOVED_EVENT,
    }
)
"""Only the broker itself writes to them."""

RESERVED_GROUPS: Final = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
    }
)
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"


def topic_error(topic: str) -> str | None:
    """Why a topic name is not allowed, or None when it is."""
    return _name_error("topic", topic, MAX_TOPIC_LENGTH)


def group_error(group: str) -> str | None:
    """Why a group name is not allowed, or None when it is."""
    return _name_error("group", group, MAX_GROUP_LENGTH)


def _name_error(kind: str, name: str, max_length: int) -> str | None:
    if not name or name.isspace():
        return f"The specified {kind} is blank."
    if _ALLOWED.fullmatch(name) is None:
        return (
            f"The specified {kind} contains illegal characters, allowing only "
            f"^[%|a-zA-Z0-9_-]+$: {name!r}"
        )
    if len(name) > max_length:
        too_long = f"{name!r} is {len(name)} characters long, the limit is {max_length}"
        return f"The specified {kind} is longer than {kind} max length. {too_long}"
    return None


def is_system_topic(topic: str) -> bool:
    """A fixed system topic or one with the system prefix. A broker knows a few more (see
    SYSTEM_TOPICS)."""
    return topic in SYSTEM_TOPICS or topic.startswith(TopicName.SYSTEM_PREFIX)


def is_system_group(group: str) -> bool:
    """A group that the system itself uses."""
    return group in RESERVED_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def retry_topic(group: str) -> str:
    """Where messages go that a group could not consume yet."""
    return TopicName.RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where messages go that a group has given up on (dead letter queue)."""
    return TopicName.DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Where replies of request-reply go."""
    return f"{cluster}_{TopicName.REPLY_POSTFIX}"


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(TopicName.RETRY_PREFIX)


def group_of_retry_topic(topic: str) -> str | None:
    """``None`` for any other topic."""
    return topic.removeprefix(TopicName.RETRY_PREFIX) if is_retry_topic(topic) else None


def is_dlq_topic(topic: str) -> bool:
    return topic.startswith(TopicName.DLQ_PREFIX)


def is_lmq_topic(topic: str) -> bool:
    return topic.startswith(TopicName.LMQ_PREFIX)
