"""Batches that are alike, stored together: SEND_BATCH_MESSAGE of many producers of one kind to one topic.

What ``SendProcessor`` looks at, and all of them share, is looked at once here; all their messages become records at once
(``store/batch_group.py``). Where anything is not as usual the batches go one by one.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import Final

from ...remoting.gathering import AlikeRequests, ManyHandler
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.frame import encode_frame
from ...remoting.protocol.header_shape import Varying
from ...remoting.protocol.sys_flag import MessageSysFlag
from ...store.batch_group import BatchGroup
from ..durability import Durability
from ..stored_properties import has_to_be_placed, waits_for_store
from .send import SendProcessor, sys_flag_of
from .send_alike import HOST_BYTES, reply_with_code

__all__ = ["AlikeBatches"]

_VARYING: Final = Varying(("queue_id", "born_timestamp"))
_FEW: Final = 2
"""Even two cost less together."""


class AlikeBatches:
    """Does for many batches what a ``SendProcessor`` does for one."""

    def __init__(self, processor: SendProcessor) -> None:
        self._processor = processor
        self._put = processor.store.put_batch_group

    @property
    def table(self) -> dict[RequestCode, ManyHandler]:
        """Empty when messages have to be stored one by one."""
        if self._put is None:
            return {}
        return {RequestCode.SEND_BATCH_MESSAGE: ManyHandler(_VARYING, self.send, self._processor.send, few=_FEW)}

    def send(self, requests: AlikeRequests) -> bool:
        """Store them all and answer where they lie. False: nothing was done."""
        assert self._put is not None
        processor, request = self._processor, requests.request
        text = request.properties or ""
        topic, durability = processor.usual_topic(request.topic, requests.received_at_ms), processor.durability
        if topic is None or not request.batch or not (durability is None or isinstance(durability, Durability)):
            return False
        numbers, hosts = requests.columns.numbers, requests.packed_peers
        queue_ids = numbers["queue_id"]
        if queue_ids.max() >= topic.max_queue_nums or len(hosts) != HOST_BYTES * len(queue_ids) or has_to_be_placed(text):
            return False
        sys_flag = sys_flag_of(request, topic)
        if sys_flag & MessageSysFlag.TRANSACTION_MASK:
            return False
        result = self._put(
            BatchGroup(
                topic.name,
                queue_ids,
                requests.bodies,
                processor.batch_properties(text),
                hosts,
                numbers["born_timestamp"],
                requests.received_at_ms,
                sys_flag,
                request.reconsume_times or 0,
            )
        )
        if result is None:
            return False
        messages = sum(result.counts)
        processor.count(topic, messages, result.size)
        topic.batched_nums += messages - len(result.counts)
        ends = accumulate(result.counts)
        ids = processor.message_ids(result.phy_offsets.astype(">i8").tobytes()).encode()
        width = (len(ids) + 1) // messages
        template = processor.batch_answer
        rows = zip(result.counts, ends, queue_ids.tolist(), result.queue_offsets, numbers["opaque"].tolist(), strict=True)
        answers = [
            encode_frame(0, template % (ids[(end - count) * width : end * width - 1], queue_id, queue_offset, opaque))
            for count, end, queue_id, queue_offset, opaque in rows
        ]
        if durability is None or not waits_for_store(text):
            requests.reply(answers)
        else:
            end = int(result.phy_offsets[0]) + result.size
            durability.when_stored(end, partial(reply_with_code, requests.hold(), answers), len(answers))
        return True
