"""Bit fields: the sysFlag of a message, the sysFlag of a topic, the permissions of a topic.

Plain integers in classes, not enums: they are tested once per message.
"""

from __future__ import annotations

from typing import Final


class MessageSysFlag:
    """sysFlag of a message (MessageSysFlag; message-encoding.md §4.6)."""

    COMPRESSED: Final = 0x1
    MULTI_TAGS: Final = 0x2
    TRANSACTION_NOT: Final = 0x0
    TRANSACTION_PREPARED: Final = 0x4
    TRANSACTION_COMMIT: Final = 0x8
    TRANSACTION_ROLLBACK: Final = 0xC
    TRANSACTION_MASK: Final = 0xC
    BORN_HOST_V6: Final = 0x10
    STORE_HOST_V6: Final = 0x20
    NEED_UNWRAP: Final = 0x40
    INNER_BATCH: Final = 0x80
    COMPRESSION_LZ4: Final = 0x100
    COMPRESSION_ZSTD: Final = 0x200
    COMPRESSION_ZLIB: Final = 0x300
    COMPRESSION_MASK: Final = 0x700
    SEQUENCED: Final = 0x10_0000
    """Ours; nobody else looks at it. The message has a SEND_SEQUENCE (``send_sequence``)."""


UNQUEUED: Final = MessageSysFlag.TRANSACTION_PREPARED
"""The bit of a message that gets no number and no unit in its queue: of prepared and of rolled back
ones (CommitLog.DefaultAppendMessageCallback; commitlog.md §5). A constant and no function: it is
asked once per message."""


class TopicSysFlag:
    """topicSysFlag (message-encoding.md §4.9)."""

    UNIT: Final = 0x1
    UNIT_SUB: Final = 0x2


class PermName:
    """Permissions of a topic or broker (message-encoding.md §4.9)."""

    INHERIT: Final = 0x1
    WRITE: Final = 0x2
    READ: Final = 0x4
    PRIORITY: Final = 0x8


def transaction_type(sys_flag: int) -> int:
    """One of the four TRANSACTION values."""
    return sys_flag & MessageSysFlag.TRANSACTION_MASK


def compression_type(sys_flag: int) -> int:
    """One of the COMPRESSION values; 0 on the wire means ZLIB (clients older than 4.9.4)."""
    return sys_flag & MessageSysFlag.COMPRESSION_MASK or MessageSysFlag.COMPRESSION_ZLIB


def perm_text(perm: int) -> str:
    """``RWX`` with a dash for what is missing; X is the right to be inherited by an automatic
    topic."""
    return (
        ("R" if perm & PermName.READ else "-")
        + ("W" if perm & PermName.WRITE else "-")
        + ("X" if perm & PermName.INHERIT else "-")
    )
