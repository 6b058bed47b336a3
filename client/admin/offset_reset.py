"""Moving a group to a point in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ...remoting.errors import BrokerError, ConsumerNotOnline, RemotingError, RocketMQError
from ...remoting.protocol.bodies.reset import ResetOffsetBody
from ...remoting.protocol.bodies.stats import OffsetWrapper
from ...remoting.protocol.codes import LanguageCode, RequestCode
from ...remoting.protocol.commands.offset import ResetOffsetRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ..cluster.answers import answer_body
from .core import SLOW, address_of
from .offsets import OffsetOperations
from .topics import TopicOperations

TO_THE_END: Final = -1
"""Instead of a time: behind the last message."""


class OffsetMove(NamedTuple):
    """A queue of a group that is moved (class RollbackStats)."""

    queue: MessageQueue
    broker_offset: int
    """What the next message will get."""
    consumer_offset: int
    """Where the group stood."""
    timestamp_offset: int
    """What the time asked for means in this queue."""
    rollback_offset: int
    """Where it stands afterwards."""


class PartlyReset(RocketMQError):
    """Some brokers have told the members of a group where to go on, others have not; the text says
    which. Its offsets must not be moved there: who is online would write over that."""


class ResetOperations(OffsetOperations, TopicOperations):
    async def reset_offsets(
        self, group: str, topic: str, timestamp_ms: int, *, force: bool = True, cpp: bool = False
    ) -> dict[MessageQueue, int]:
        """Have the clients of a group that are online go on at a time (``TO_THE_END``: at the end);
        the new offsets.

        ``force``: also forwards; without it only back. ``cpp``: the clients are written in C++ and
        are told in their form. They commit it themselves, within about ten seconds. Raises
        ``NoRouteError``; ``ConsumerNotOnline`` when every broker says so (use ``move_offsets``
        then); ``BrokerError`` (code 1) when the group has no offset in some queue; ``PartlyReset``
        when only some brokers, all of which are asked, fail.
        """
        header = ResetOffsetRequest(
            topic=topic, group=group, timestamp=timestamp_ms, is_force=force
        )
        moved: dict[MessageQueue, int] = {}
        told: list[str] = []
        failed: RocketMQError | None = None
        for broker in await self._live_brokers_of_topic(topic):
            address = address_of(broker)
            try:
                moved |= await self._reset_at(address, header, cpp=cpp)
            except (BrokerError, RemotingError) as error:
                if failed is None or isinstance(failed, ConsumerNotOnline):
                    failed = error  # at a broker that says anything else, members may be online
            else:
                told.append(address)
        if failed is None:
            return moved
        if not told:
            raise failed
        raise PartlyReset(
            f"the members of {group} were told by {', '.join(told)}, and not by others, try again: "
            f"{failed}"
        ) from failed

    async def _reset_at(
        self, address: str, header: ResetOffsetRequest, *, cpp: bool
    ) -> Mapping[MessageQueue, int]:
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        if not cpp:
            return (
                await self._ask(address, code, header, ResetOffsetBody, times=SLOW)
            ).offset_table
        timeout = self.instance.request_timeout * SLOW
        answer = await self.instance.remoting.invoke_as(
            LanguageCode.CPP, address, code, header, timeout=timeout
        )
        return answer_body(answer, ResetOffsetBody, address).offset_table

    async def move_offsets(
        self,
        group: str,
        topic: str,
        timestamp_ms: int,
        *,
        force: bool = True,
        dry_run: bool = False,
    ) -> list[OffsetMove]:
        """Move a group that is not online to a time (``TO_THE_END``: the end) in all queues;
        ``dry_run``: only tell where.

        ``force`` as in ``reset_offsets``. Clients that are online would write over it. Raises
        ``NoRouteError``.
        """
        moves = []
        for broker in await self._live_brokers_of_topic(topic):
            for queue, offsets in sorted(
                (await self._offsets_on(address_of(broker), group, topic)).items()
            ):
                moves.append(
                    await self._move(
                        group, queue, offsets, timestamp_ms, force=force, dry_run=dry_run
                    )
                )
        return moves

    async def _offsets_on(
        self, address: str, group: str, topic: str
    ) -> dict[MessageQueue, OffsetWrapper]:
        """A group that never consumed there stands at the beginning of every queue."""
        consumed = (await self._consume_stats_of(address, group, topic)).offset_table
        if consumed:
            return consumed
        queues = (await self._topic_stats_of(address, topic)).offset_table
        return {
            queue: OffsetWrapper(broker_offset=found.max_offset, consumer_offset=found.min_offset)
            for queue, found in queues.items()
        }

    async def _move(
        self,
        group: str,
        queue: MessageQueue,
        offsets: OffsetWrapper,
        timestamp_ms: int,
        *,
        force: bool,
        dry_run: bool,
    ) -> OffsetMove:
        to_end = timestamp_ms == TO_THE_END
        target = await (
            self.max_offset(queue) if to_end else self.search_offset(queue, timestamp_ms)
        )
        new = target if force or target <= offsets.consumer_offset else offsets.consumer_offset
        if new == target and not dry_run:
            await self.update_consumer_offset(group, queue, new)
        return OffsetMove(queue, offsets.broker_offset, offsets.consumer_offset, target, new)
