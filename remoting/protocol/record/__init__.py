"""The stored record: an element of the commit log, and of the body of a pull, query or view
response.

``layout`` has its fields, ``verdict`` decides whether bytes are one, ``scan`` finds all in a buffer
and ``walk`` all in a file, ``decode`` makes messages of them and ``encode`` records of messages.
Pure. Imports the protocol's ``message`` and ``leaves``. Start with ``layout.py``, beside the table
in ``docs/store-format.md``.
"""

from __future__ import annotations

from .crc import body_crc
from .decode import MessageExt, decode_record, read_messages
from .encode import NewRecord, encode_record, topic_field
from .ends import LogEnd, QueueEnd, put_record
from .layout import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC,
    MAX_TOPIC_BYTES,
    MIN_RECORD_SIZE,
    blank_record,
    head_struct,
    record_overhead,
    size_and_magic,
)
from .scan import Records, Scan, scan
from .verdict import NoRecord, Reason, RecordError, Verdict, verdict_of

__all__ = [
    "BLANK_MAGIC",
    "BLANK_SIZE",
    "MAGIC",
    "MAX_TOPIC_BYTES",
    "MIN_RECORD_SIZE",
    "LogEnd",
    "MessageExt",
    "NewRecord",
    "NoRecord",
    "QueueEnd",
    "Reason",
    "RecordError",
    "Records",
    "Scan",
    "Verdict",
    "blank_record",
    "body_crc",
    "decode_record",
    "encode_record",
    "head_struct",
    "put_record",
    "read_messages",
    "record_overhead",
    "scan",
    "size_and_magic",
    "topic_field",
    "verdict_of",
]
