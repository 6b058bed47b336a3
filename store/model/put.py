"""What is put into a store: a message, or a batch of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...remoting.protocol.record.batch import BatchItem


class PutMessage(msgspec.Struct, gc=False):
    """One message (class MessageExtBrokerInner). Its fields are the arguments of
    ``MessageStore.put_fields``, in that order."""

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    """The encoded property string."""
    born_host: bytes
    """Packed."""
    born_timestamp: int
    store_timestamp: int
    tags_code: int = 0
    """What the consume queue gets: ``tags_code_of(properties)``, or the time of delivery in the
    schedule topic."""
    flag: int = 0
    sys_flag: int = 0
    """The bits for IPv6 are set by the hosts, whatever somebody says: a client's would make the
    record unreadable."""
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


class PutBatch(msgspec.Struct, gc=False, kw_only=True):
    """Messages of one queue that are stored together (class MessageExtBatch)."""

    topic: str
    queue_id: int
    items: bytes | memoryview | Sequence[BatchItem]
    """The body of a batch (``remoting.protocol.record.batch``), or what it is made of."""
    properties: bytes = b""
    """The batch's own, appended to those of every item."""
    born_host: bytes
    born_timestamp: int
    store_timestamp: int
    sys_flag: int = 0
    reconsume_times: int = 0
