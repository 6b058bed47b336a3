"""Sends that are alike, stored together: SEND_MESSAGE and SEND_MESSAGE_V2 of many producers of one kind to one topic.

What ``SendProcessor.send`` looks at, and all of them share, is looked at once here; records, units and index items are made
in columns (``store/alike_writer.py``), and so are the answers. Where anything is not as usual the requests go one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ...remoting.gathering import AlikeRequests, ManyHandler
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.frame import PREFIX_BYTES, encode_frame, pack_prefix
from ...remoting.protocol.header_shape import Varying, join_columns, rows_of_bytes
from ...remoting.protocol.sys_flag import MessageSysFlag
from ...remoting.protocol.templates import template_parts
from ...store.alike_writer import AlikeMessages, AlikeResult
from ...store.index_keys import UNIQUE_KEY_AT
from ..durability import Durability, header_with_code
from ..stored_properties import waits_for_store
from .send import NOT_HOSTS, SendProcessor

__all__ = ["HOST_BYTES", "AlikeSends", "reply_with_code"]

_VARYING: Final = Varying(("queue_id", "born_timestamp"), "properties")
HOST_BYTES: Final = 8
"""Of a packed IPv4 address."""


class AlikeSends:
    """Does for many requests what a ``SendProcessor`` does for one."""

    def __init__(self, processor: SendProcessor) -> None:
        self._processor = processor
        self._put = processor.store.put_alike

    @property
    def table(self) -> dict[RequestCode, ManyHandler]:
        """Empty when messages have to be stored one by one."""
        if self._put is None:
            return {}
        handler = ManyHandler(_VARYING, self.send, self._processor.send)
        return {RequestCode.SEND_MESSAGE: handler, RequestCode.SEND_MESSAGE_V2: handler}

    def send(self, requests: AlikeRequests) -> bool:
        """Store them all and answer where they lie. False: nothing was done."""
        assert self._put is not None
        processor, request = self._processor, requests.request
        topic, durability = processor.usual_topic(request.topic, requests.received_at_ms), processor.durability
        if topic is None or not (durability is None or isinstance(durability, Durability)):
            return False
        stored = processor.stored_properties(request.properties)
        queue_ids, hosts = requests.columns.numbers["queue_id"], requests.packed_peers
        if stored is None or queue_ids.max() >= topic.max_queue_nums or len(hosts) != HOST_BYTES * len(queue_ids):
            return False
        properties, tags_code, keys_end = stored
        if keys_end <= 0 or request.batch or request.sys_flag & MessageSysFlag.TRANSACTION_MASK:
            return False
        sys_flag = request.sys_flag & NOT_HOSTS
        result = self._put(
            AlikeMessages(
                topic.name,
                queue_ids,
                requests.bodies,
                properties,
                (UNIQUE_KEY_AT, keys_end),
                requests.columns.keys,
                hosts,
                requests.columns.numbers["born_timestamp"],
                requests.received_at_ms,
                tags_code,
                request.flag,
                sys_flag | MessageSysFlag.MULTI_TAGS if topic.multi_tag else sys_flag,
                request.reconsume_times or 0,
            )
        )
        if result is None:
            return False
        processor.count(topic, len(queue_ids), result.size)
        answers = self._answers(queue_ids, result, requests)
        if durability is None or not waits_for_store(request.properties or ""):
            requests.reply(answers)
        else:
            end = int(result.phy_offsets[0]) + result.size
            durability.when_stored(end, partial(reply_with_code, requests.hold(), answers), len(queue_ids))
        return True

    def _answers(self, queue_ids: Any, result: AlikeResult, requests: AlikeRequests) -> list[bytes]:
        """The frame of each answer: ``SendProcessor.answer`` with four columns in its holes. They have one length, unless a
        number in a queue has a digit more than another one."""
        template, digits, numbers = self._processor.answer, requests.columns.digits, requests.columns.numbers
        phy_offsets, queue_offsets = result.phy_offsets.tolist(), result.queue_offsets.tolist()
        count = len(queue_offsets)
        if len(b"%d" % min(queue_offsets)) != len(b"%d" % max(queue_offsets)):
            rows = zip(phy_offsets, queue_ids.tolist(), queue_offsets, numbers["opaque"].tolist(), strict=True)
            return [encode_frame(0, template % row) for row in rows]
        columns = [
            rows_of_bytes(b"%016X" * count % tuple(phy_offsets), count),
            digits["queue_id"],
            rows_of_bytes(b"%d" * count % tuple(queue_offsets), count),
            digits["opaque"],
        ]
        parts = template_parts(template)
        length = sum(map(len, parts)) + sum([column.shape[1] for column in columns])
        return join_columns([pack_prefix(4 + length, length) + parts[0], *parts[1:]], columns)


def reply_with_code(send: Callable[[Sequence[bytes]], None], answers: list[bytes], code: int) -> None:
    """Send answers that were made for code 0 with the code that they turn out to deserve."""
    if code:
        answers = [encode_frame(0, header_with_code(answer[PREFIX_BYTES:], code)) for answer in answers]
    send(answers)
