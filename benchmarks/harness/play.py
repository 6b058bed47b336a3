"""Who sends frames and reads the answers: the C player where there is a compiler, else one in
Python.

::

    with open_player(port, 64, frames) as player:
        sample = measured(partial(player.play, 1), pid, seconds)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from ..cpu import cpu_ns, user_ns
from .figures import BenchmarkError, Sample
from .native import player as native_player

WARM_UP_S = 0.2
FIRST_OPAQUE = 100_000
"""A frame has this and its place in the list as its opaque."""
KEY_HOLE = "KKKKKKKK"
"""Where the C player writes eight digits that are new each time."""


class Frames(NamedTuple):
    """Requests to be sent one after the other. ``messages_each``: what an answer counts for; 0: the
    records in it."""

    frames: list[bytes]
    messages_each: int = 1


class Played(NamedTuple):
    """What an exchange came to. Times are those from a request to its answer, or of a message from
    end to end."""

    answers: int
    messages: int
    errors: int
    seconds: float
    p50_us: float
    p99_us: float
    p999_us: float
    problem: str = ""


class Player(Protocol):
    """Some connections to one server, and what can be done with them again and again."""

    def play(self, window: int, seconds: float, *, awake: bool = False) -> Played:
        """Every connection keeps ``window`` frames on their way. ``awake``: it never sleeps while
        it waits for answers."""
        ...

    def transact(self, end_format: str, oneway: bool, seconds: float) -> Played:
        """Half messages; each is followed by ``end_format % (commit log offset, queue offset)``
        (C's ``%llu``)."""
        ...

    def relay(
        self,
        senders: int,
        offsets: Sequence[int],
        pull_format: str,
        rate: float,
        window: int,
        seconds: float,
    ) -> Played:
        """The first connections send at ``rate``, or (0) with ``window`` messages on their way; the
        others read a queue each, from ``offsets`` on, with ``pull_format % (queue id, offset)``.
        Bodies begin with eight bytes for a time.
        """
        ...

    def close(self) -> None: ...


@contextmanager
def open_player(port: int, connections: int, frames: Frames) -> Iterator[Player]:
    """Connections to a server on this machine, closed at the end."""
    from .play_c import NativePlayer
    from .play_python import PythonPlayer

    library = native_player()
    made: Player
    made = (
        NativePlayer(library, port, connections, frames)
        if library
        else PythonPlayer(port, connections, frames)
    )
    try:
        yield made
    finally:
        made.close()


def measured(run: Callable[[float], Played], pid: int, seconds: float) -> Sample:
    """CPU time of the process per message, the user time among it, messages a second, times.

    Raises ``BenchmarkError`` for a bad answer.
    """
    warm = run(min(WARM_UP_S, seconds))
    before, user_before = cpu_ns(pid), user_ns(pid)
    played = run(seconds)
    used, user = cpu_ns(pid) - before, user_ns(pid) - user_before
    for each in (warm, played):
        if each.errors or each.problem:
            raise BenchmarkError(f"{each.errors} bad answers; {each.problem}")
    if not played.messages:
        raise BenchmarkError("no message got through")
    return {
        "cpu": used / 1000 / played.messages,
        "user": user / 1000 / played.messages,
        "rate": played.messages / played.seconds,
        "p50": played.p50_us,
        "p99": played.p99_us,
        "p999": played.p999_us,
    }
