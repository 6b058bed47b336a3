"""Looking into consume queues."""

from __future__ import annotations

from ...remoting.errors import QueryNotFound
from ...remoting.protocol.bodies.stats import QueryConsumeQueueBody
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.admin import QueryConsumeQueueRequest
from ..cluster.answers import answer_body
from .core import AdminCore


class ConsumeQueueOperations(AdminCore):
    async def query_consume_queue(
        self,
        address: str,
        topic: str,
        queue_id: int,
        index: int,
        count: int,
        group: str | None = None,
    ) -> QueryConsumeQueueBody:
        """Up to ``count`` entries from ``index`` on; with ``group`` also whether its subscription
        takes them.

        Raises ``QueryNotFound`` when the queue has no such entry.
        """
        header = QueryConsumeQueueRequest(
            topic=topic, queue_id=queue_id, index=index, count=count, consumer_group=group
        )
        answer = await self._invoke(address, RequestCode.QUERY_CONSUME_QUEUE, header)
        if not answer.body:
            raise QueryNotFound(ResponseCode.QUERY_NOT_FOUND, answer.remark, address)
        return answer_body(answer, QueryConsumeQueueBody, address)
