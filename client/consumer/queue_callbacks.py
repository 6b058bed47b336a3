"""What a user wants to know of queues that come and go: ``on_assign``, ``on_revoke``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from ...remoting.protocol.message.message_queue import MessageQueue
from ..errors import ConfigError
from ..handlers import awaited, is_cancelled
from ..namespaces import unwrap_queue
from ..usage_errors import is_async
from ..user_code import PROGRAM_ENDS, UserCode
from ..user_threads import UserThreads

log: Final = logging.getLogger(__name__)

LIMIT_S: Final = 30.0
"""So long a callback is waited for: the other members of the group wait as well."""

QueueCallback = Callable[[tuple[MessageQueue, ...]], Awaitable[object] | object]
"""Is told queues, sorted. A plain function runs in a thread."""


class QueueCallbacks:
    """Calls them, one after the other. What one raises is logged, and changes nothing."""

    def __init__(
        self,
        group: str,
        namespace: str | None,
        on_assign: QueueCallback | None,
        on_revoke: QueueCallback | None,
    ) -> None:
        """Raises ``ConfigError`` for what cannot be called."""
        for name, callback in (("on_assign", on_assign), ("on_revoke", on_revoke)):
            if callback is not None and not callable(callback):
                raise ConfigError(f"{name} is a function that takes queues, not {callback!r}")
        self._group: Final = group
        self._namespace: Final = namespace
        self._on_assign: Final = on_assign
        self._on_revoke: Final = on_revoke
        self._owned: set[MessageQueue] = set()
        """What ``on_revoke`` has to be told of: once, also when a stop comes in between."""
        self._threads: UserThreads | None = None
        self._turn = asyncio.Lock()

    @property
    def wants_assigned(self) -> bool:
        return self._on_assign is not None

    async def assigned(self, queues: Iterable[MessageQueue]) -> None:
        """These are about to be read."""
        if self._on_assign is not None:
            await self._call("on_assign", self._on_assign, queues)

    def began(self, queue: MessageQueue) -> None:
        """It is read from now on."""
        self._owned.add(queue)

    async def revoked(self, queues: Iterable[MessageQueue]) -> None:
        """Nothing of these is handed out any more; they go when this returns."""
        ours = self._owned.intersection(queues)
        if self._on_revoke is not None:
            await self._call(
                "on_revoke",
                self._on_revoke,
                ours,
                lambda task: None if task.cancelled() else self._owned.difference_update(ours),
            )
        self._owned -= ours

    def close(self) -> None:
        """No more calls."""
        if self._threads is not None:
            self._threads.close()

    async def _call(
        self,
        name: str,
        callback: QueueCallback,
        queues: Iterable[MessageQueue],
        ended: Callable[[asyncio.Task[None]], None] = lambda _task: None,
    ) -> None:
        """``ended``: at once, also when we are cancelled in the same moment."""
        told = tuple(sorted(unwrap_queue(queue, self._namespace) for queue in queues))
        if not told:
            return
        with UserCode(BaseException, but=PROGRAM_ENDS) as code:
            async with self._turn, asyncio.timeout(LIMIT_S):
                if is_async(callback):
                    # in a task of its own, which it may cancel: ours divides the queues
                    task = asyncio.get_running_loop().create_task(_call(callback, told))
                    task.add_done_callback(ended)
                    await task
                else:
                    self._threads = self._threads or UserThreads(1, f"queues of {self._group}")
                    await awaited(await self._threads.call(callback, told))
        failure = code.failure()
        if isinstance(failure, asyncio.CancelledError) and is_cancelled():
            raise failure
        if failure is not None:
            log.error(
                "%s failed group=%s queues=%d", name, self._group, len(told), exc_info=failure
            )


async def _call(callback: QueueCallback, told: tuple[MessageQueue, ...]) -> None:
    await awaited(callback(told))
