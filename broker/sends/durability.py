"""How safe a message must be before its sender is told that it is stored (classes CommitLog,
GroupTransferService)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from ...remoting.dispatch import Context, Reply, reply_together
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.protocol.frames.reply_frames import frame_with_code
from ...store.message_store import MessageStore
from ...store.model.status import PutStatus

BUSY: Final = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
"""The remark of ``PutStatus.OS_PAGECACHE_BUSY``, as in the original."""
NOT_LEADING: Final = (
    "this broker has lost the leadership of its group before a majority had the message: ask for "
    "the route, and send it to the master"
)


_PUT_OK: Final = PutStatus.PUT_OK
_Answers = list[tuple[Context, Reply | bytes]]


class Replicas(Protocol):
    """The slaves, or the other members of a group, as far as answers wait for them."""

    def when_acked(self, phy_offset: int, done: Callable[[PutStatus], None]) -> None:
        """See ``ReplicaAcks.when_acked``."""


class Members(Replicas, Protocol):
    """The members of a group."""

    def when_committed(
        self, phy_offset: int, tell: Callable[[list[Any], PutStatus], None], who: object
    ) -> None:
        """See ``RaftNode.when_committed``."""


class AnswersWait(Protocol):
    """What answers to stored messages wait for."""

    @property
    def waits(self) -> bool:
        """There is anything to wait for now."""

    @property
    def for_all(self) -> bool:
        """Also the answers of those who do not want to wait (WAIT=false): what a majority does not
        have may be gone with the next leader, and is no message before."""

    def answer(self, phy_offset: int, ctx: Context, answer: Reply | bytes) -> None:
        """Send an answer that was made for code 0 later, with the code that it turns out to
        deserve; ``phy_offset`` is where the message ends in the commit log."""


class StoredSafely(AnswersWait, Protocol):
    """The same, for who has something else to wait for as well."""

    def when_stored(self, phy_offset: int, done: Callable[[int], None]) -> None:
        """Call ``done`` with that code. Of a member of a group to be asked for in the turn in which
        the message was put: later another leader's may be in its place."""

    def tell(self, ctx: Context, answer: Reply | bytes, code: int) -> None:
        """Send such an answer with a code that is known."""


class Durability:
    """How safe a message must be before its sender is told that it is stored: on the disk, at the
    slaves."""

    def __init__(
        self,
        store: MessageStore,
        *,
        sync_flush: bool = False,
        server: Replicas | None = None,
        members: Members | None = None,
        end: Callable[[], int] | None = None,
        refusal_fields: SendErrorFields | None = None,
    ) -> None:
        """``server``: of a SYNC_MASTER, else None. Of a member of a group: ``members``, where its
        log ends, and what stands on answers to messages that were not kept."""
        self._store = store
        self._end = end
        self._refusal_fields = refusal_fields
        self.for_all: bool = members is not None
        self._sync_flush = sync_flush
        self._server: Final = server or members
        self._members: Final = members
        self._committed: Final = self._tell_together
        self.waits: bool = sync_flush or self._server is not None
        """There is anything to wait for at all."""
        self._ready: _Answers = []

    def answer(self, phy_offset: int, ctx: Context, answer: Reply | bytes) -> None:
        """Send an answer that was made for code 0 with the code that ``when_stored`` tells. What
        becomes ready in the same turn of the loop leaves together, with one write per connection.
        """
        if (members := self._members) is not None:  # there is nothing else to wait for
            members.when_committed(phy_offset, self._committed, (ctx, answer))
        else:
            self.when_stored(phy_offset, partial(self.tell, ctx, answer))

    def _tell_together(self, answers: _Answers, status: PutStatus) -> None:
        if status is _PUT_OK:
            reply_together(answers)
        else:
            for ctx, answer in answers:
                self.tell(ctx, answer, _REPLICA_CODES[status])

    def tell(self, ctx: Context, answer: Reply | bytes, code: int) -> None:
        """Send an answer that was made for code 0 with this code, together with all others of the
        turn."""
        if not self._ready:
            try:
                loop = asyncio.get_running_loop()
            except (
                RuntimeError
            ):  # the store is closed, in a thread: all connections have ended before
                return
            loop.call_soon(self._send)
        self._ready.append((ctx, answer if code == 0 else self._without_success(answer, code)))

    def _without_success(self, answer: Reply | bytes, code: int) -> Reply | bytes:
        """A message that may be gone has no place that could be told."""
        remark = REMARKS.get(code)
        if remark is None:
            return with_code(answer, code)
        return Reply(code, self._refusal_fields, remark=remark)

    def _send(self) -> None:
        ready, self._ready = self._ready, []
        reply_together(ready)

    def when_stored(self, phy_offset: int, done: Callable[[int], None]) -> None:
        """Call ``done`` with the code of the answer once everything below ``phy_offset`` is as safe
        as configured, or cannot be; the message is stored in any case. If both fail the replicas'
        code counts. Perhaps at once.
        """
        if self._server is None:
            self._store.flush.when_flushed(phy_offset, lambda good: done(_flush_code(good)))
        elif not self._sync_flush:
            self._server.when_acked(phy_offset, lambda status: done(_REPLICA_CODES[status]))
        else:
            codes: list[int] = []

            def one(code: int, *, of_replicas: bool) -> None:
                codes.insert(0 if of_replicas else len(codes), code)
                if len(codes) == 2:
                    done(codes[0] or codes[1])

            self._store.flush.when_flushed(
                phy_offset, lambda good: one(_flush_code(good), of_replicas=False)
            )
            self._server.when_acked(
                phy_offset, lambda status: one(_REPLICA_CODES[status], of_replicas=True)
            )

    def when_all_stored(self, done: Callable[[int], None]) -> None:
        """The same for everything that was stored until now."""
        self.when_stored(self._store.max_phy_offset if self._end is None else self._end(), done)

    async def stored(self, phy_offset: int) -> int:
        """The same as ``when_stored`` for who is a task anyway."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.when_stored(phy_offset, lambda code: None if done.done() else done.set_result(code))
        return await done

    async def all_stored(self) -> int:
        """The same as ``when_all_stored``."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.when_all_stored(lambda code: None if done.done() else done.set_result(code))
        return await done


_REPLICA_CODES: Final[dict[PutStatus, int]] = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.OS_PAGECACHE_BUSY: ResponseCode.SYSTEM_ERROR,
}
REMARKS: Final[dict[int, str]] = {
    ResponseCode.SERVICE_NOT_AVAILABLE: NOT_LEADING,
    ResponseCode.SYSTEM_ERROR: BUSY,
}
"""Of codes that say that a message is not safe anywhere (dledger.md §5.3)."""


def _flush_code(good: bool) -> int:
    return ResponseCode.SUCCESS if good else ResponseCode.FLUSH_DISK_TIMEOUT


def with_code(answer: Reply | bytes, code: int) -> Reply | bytes:
    """An answer that was made for code 0, with another one."""
    if isinstance(answer, Reply):
        return msgspec.structs.replace(answer, code=code)
    return frame_with_code(answer, code)
