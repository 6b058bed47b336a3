"""Pulls that are alike, served together: PULL_MESSAGE of many consumers of one group and topic that want every message.

What ``PullProcessor.pull`` looks at, and all of them share, is looked at once here, and their messages are read at once
(``store/alike_reader.py``). A turn in which one of them finds nothing, or anything else is not as usual, goes one by one.
"""

from __future__ import annotations

from typing import Final

from ...remoting.errors import RequestError
from ...remoting.gathering import AlikeRequests, ManyHandler
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.pull import PullMessageRequest, PullMessageResponse, PullSysFlag
from ...remoting.protocol.frame import Body, pack_prefix
from ...remoting.protocol.header_shape import Varying
from ...remoting.protocol.templates import reply_template
from ...store.errors import StoreError
from ...store.status import GetMessageStatus, GetResult
from .pull import PullProcessor

__all__ = ["AlikePulls"]

_VARYING: Final = Varying(("queue_id", "queue_offset", "commit_offset"))
_FEW: Final = 8
_MOST_BYTES: Final = 32 << 10
"""Of one answer. Copying more than that takes most of the time, and nothing is gained."""
_ANSWER: Final = reply_template(
    PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=0, min_offset=0, max_offset=0),
    dict.fromkeys(("suggest_which_broker_id", "next_begin_offset", "min_offset", "max_offset"), b"%d"),
    remark="FOUND",
)


class AlikePulls:
    """Does for many requests what a ``PullProcessor`` does for one."""

    def __init__(self, processor: PullProcessor) -> None:
        self._processor = processor
        self._get = processor.store.get_alike

    @property
    def table(self) -> dict[RequestCode, ManyHandler]:
        """Empty without numpy."""
        if self._get is None:
            return {}
        return {RequestCode.PULL_MESSAGE: ManyHandler(_VARYING, self.pull, self._processor.pull, _FEW)}

    def pull(self, requests: AlikeRequests) -> bool:
        """Read for all of them and answer. False: nothing was done."""
        assert self._get is not None
        request, numbers = requests.request, requests.columns.numbers
        if not self._wants_all(request, int(numbers["queue_id"].max())) or not requests.may_answer(_MOST_BYTES):
            return False
        queue_ids, offsets = numbers["queue_id"].tolist(), numbers["queue_offset"].tolist()
        try:
            results = self._get(request.topic, queue_ids, offsets, request.max_msg_nums, _MOST_BYTES)
            if results is None and (results := self._read_each(request, queue_ids, offsets)) is None:
                return False
        except StoreError:  # who asks alone comes to it, too, and is told
            return False
        processor = self._processor
        if request.sys_flag & PullSysFlag.COMMIT_OFFSET:
            for queue_id, offset in zip(queue_ids, numbers["commit_offset"].tolist(), strict=True):
                processor.commit(request, queue_id, offset)
        processor.found(request, queue_ids, results, requests.received_at_ms)
        requests.reply(self._answers(request, results, numbers["opaque"].tolist()), pieces=2)
        return True

    def _read_each(self, request: PullMessageRequest, queue_ids: list[int], offsets: list[int]) -> list[GetResult] | None:
        """Where sizes differ, or there is less than was asked for. None as soon as one finds nothing, or much."""
        results = []
        for queue_id, offset in zip(queue_ids, offsets, strict=True):
            result = self._processor.store.get(request.topic, queue_id, offset, request.max_msg_nums)
            if result.status is not GetMessageStatus.FOUND or result.damaged or len(result.body) > _MOST_BYTES:
                return None
            results.append(result)
        return results

    def _wants_all(self, request: PullMessageRequest, queue_id: int) -> bool:
        """Whether the pull may be, and is one of every message."""
        try:
            wanted = self._processor.check(request, queue_id, None)
        except RequestError:
            return False
        return wanted is None and request.max_msg_bytes is None

    def _answers(self, request: PullMessageRequest, results: list[GetResult], opaques: list[int]) -> list[Body]:
        """The frame of each answer, in two pieces: what is in front of the messages, and these."""
        group, next_broker = request.consumer_group, self._processor.next_broker
        brokers = next_broker(group, behind=False), next_broker(group, behind=True)
        pieces: list[Body] = []
        for result, opaque in zip(results, opaques, strict=True):
            suggested, body = brokers[result.suggest_pulling_from_slave], result.body
            header = _ANSWER % (suggested, result.next_begin_offset, result.min_offset, result.max_offset, opaque)
            pieces += (pack_prefix(4 + len(header) + len(body), len(header)) + header, body)
        return pieces
