"""What brokers ask of a client, over the connection that its heartbeat came over (client.md §1.5;
class ClientRemotingProcessor)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.codec import BodyError, decode_body, encode_body
from ...remoting.protocol.bodies.heartbeat import ConsumerData
from ...remoting.protocol.bodies.reset import (
    GetConsumerStatusBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from ...remoting.protocol.bodies.running_info import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ...remoting.protocol.commands.client import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
)
from ...remoting.protocol.commands.offset import GetConsumerStatusRequest, ResetOffsetRequest
from ...remoting.protocol.commands.transaction import CheckTransactionStateRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.record import RecordError, decode_record
from ...remoting.protocol.record.decode import MessageExt
from ..namespaces import without_namespace
from .replies import Requests

log: Final = logging.getLogger(__name__)

TransactionChecker = Callable[[CheckTransactionStateRequest, MessageExt, str], Awaitable[None]]
"""Answers a check: the request, the half message, the address of the broker that asks."""


class ConsumerMember(Protocol):
    """A consumer as its instance sees it."""

    group: str

    def consumer_data(self) -> ConsumerData:
        """What the heartbeat says of it."""
        ...

    def wake_rebalance(self) -> None:
        """The members of its group changed."""
        ...

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> None:
        """An administrator moved the group."""
        ...

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """How far it is in its queues of a topic, as far as it knows."""
        ...

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult | None:
        """Handle a message outside of its turn, because an administrator wants it; None: it
        cannot."""
        ...

    def running_info(self) -> ConsumerRunningInfo:
        """For an administrator who wants to look inside."""
        ...


class PushedRequests:
    """Answers for the consumers and transaction producers of one client."""

    def __init__(self, namespace: str | None, outages: Outages) -> None:
        self._namespace = namespace
        self.consumers: dict[str, ConsumerMember] = {}
        """By group."""
        self.checkers: dict[str, TransactionChecker] = {}
        """Whom brokers may ask about transactions, by producer group."""
        self._outages = outages
        self.replies: Requests = Requests(outages)
        """Requests of ours that wait for a reply of some consumer."""

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._consumer_ids_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offset,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._consumer_status,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self.replies.replied,
            RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction,
        }

    def _consumer_ids_changed(
        self, request: ConsumerGroupRequest, _body: Body, ctx: Context
    ) -> Reply | None:
        member = self.consumers.get(request.consumer_group)
        if member is not None:
            log.info("group members changed group=%s broker=%s", request.consumer_group, ctx.peer)
            member.wake_rebalance()
        return None

    def _reset_offset(self, request: ResetOffsetRequest, body: Body, ctx: Context) -> Reply | None:
        member = self.consumers.get(request.group)
        if member is not None and len(body):
            table = _reset_targets(bytes(body))
            offsets = {
                queue: offset for queue, offset in table.items() if queue.topic == request.topic
            }
            log.info(
                "offsets reset group=%s topic=%s broker=%s", request.group, request.topic, ctx.peer
            )
            member.reset_offsets(offsets)
        return None

    def _consumer_status(
        self, request: GetConsumerStatusRequest, _body: Body, _ctx: Context
    ) -> Reply:
        """A group that is not here stands nowhere, as in the original."""
        member = self.consumers.get(request.group)
        table = member.offsets_of(request.topic) if member is not None else {}
        return Reply(body=encode_body(GetConsumerStatusBody(message_queue_table=table)))

    async def _consume_directly(
        self, request: ConsumeMessageDirectlyRequest, body: Body, ctx: Context
    ) -> Reply:
        member = self.consumers.get(request.consumer_group)
        message = decode_record(bytes(body), broker_name=request.broker_name or "", check_crc=True)
        log.info(
            "message to be consumed now group=%s broker=%s message=%r",
            request.consumer_group,
            ctx.peer,
            message,
        )
        result = await member.consume_directly(message) if member is not None else None
        if result is None:
            remark = f"The Consumer Group <{request.consumer_group}> not exist in this consumer"
            return Reply(ResponseCode.SYSTEM_ERROR, remark=remark)
        return Reply(body=encode_body(result))

    async def _check_transaction(
        self, request: CheckTransactionStateRequest, body: Body, ctx: Context
    ) -> None:
        """A broker asks how a transaction ended; the answer is a request of its own."""
        try:
            message = decode_record(bytes(body), check_crc=True)
        except RecordError as error:
            text = "check of a transaction cannot be read broker=%s error=%s"
            self._outages.occurs(log, ("check", ctx.peer), text, ctx.peer, error)
            return
        message.topic = without_namespace(message.topic, self._namespace)
        group = message.properties.get(PropertyName.PGROUP, "")
        checker = self.checkers.get(group)
        if checker is None:
            text = "check of a transaction that is nobody's group=%s broker=%s"
            self._outages.occurs(log, ("check", group), text, group, ctx.peer)
            return
        await checker(request, message, ctx.peer)

    def _running_info(
        self, request: GetConsumerRunningInfoRequest, _body: Body, _ctx: Context
    ) -> Reply:
        member = self.consumers.get(request.consumer_group)
        if member is None:
            remark = f"The Consumer Group <{request.consumer_group}> not exist in this consumer"
            return Reply(ResponseCode.SYSTEM_ERROR, remark=remark)
        return Reply(body=encode_body(member.running_info()))


def _reset_targets(body: bytes) -> dict[MessageQueue, int]:
    """Both forms: a table, and the list that is pushed when a client of C++ asked for the reset."""
    try:
        return decode_body(ResetOffsetBody, body).offset_table
    except BodyError:
        rows = decode_body(ResetOffsetBodyForC, body).offset_table
        return {MessageQueue(row.topic, row.broker_name, row.queue_id): row.offset for row in rows}
