"""Calling what a user has written: handlers, hooks, filters, checkers, strategies, callbacks.

It may raise anything, and the client goes on: for a handler an error is an answer (the messages
come again), for a hook it changes nothing. Everything else that is raised in the client is either
handled by its type or not at all.

The workers of ``consumer/consumption.py`` do the same by an ``except`` of their own, the only broad
one in the client: they call a handler for every message.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, Self

__all__ = ["PROGRAM_ENDS", "UserCode"]

PROGRAM_ENDS: Final = (SystemExit, KeyboardInterrupt, GeneratorExit)
"""No failure of what is called on the program's own loop: the program ends, or throws the coroutine
away."""


class UserCode:
    """``with``: the block calls the user's code. What it raises ends the block and nothing else::

        with UserCode() as code:
            return function(argument)
        failure = code.failure()

    ``also``: what else than an ``Exception`` is not raised any further, ``but``: what of it is.
    """

    __slots__ = ("_also", "_but", "_error")

    def __init__(
        self,
        also: type[BaseException] = Exception,
        *,
        but: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._also = also
        self._but = but
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            return False
        self._error = error
        return isinstance(error, (Exception, self._also)) and not isinstance(error, self._but)

    def failure(self) -> BaseException | None:
        """What was raised. To be asked once: an error that is kept keeps the variables of all
        functions that it came through, so also itself."""
        error, self._error = self._error, None
        return error

    def log_failure(self, log: logging.Logger, what: str, *args: object) -> bool:
        """Whether something was raised, which is told in the log then."""
        error = self.failure()
        if error is not None:
            log.error(what, *args, exc_info=error)
        return error is not None
