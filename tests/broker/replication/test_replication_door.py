"""The port for slaves, as far as its connections need no network."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import cast

from aiorocketmq.broker.replication.admission import Admission
from aiorocketmq.broker.replication.door import LinkSecurity, ReplicationDoor
from aiorocketmq.remoting.transport.accepting import Seats

from ...sim import ManualClock


class Gone:
    """A socket whose peer has reset the connection before it was accepted."""

    closed = False

    def getpeername(self) -> object:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    def close(self) -> None:
        self.closed = True


def test_who_is_gone_before_the_door_opens_ends_nothing() -> None:
    """Least of all the broker."""

    async def main() -> None:
        seats, sock = Seats(1), Gone()

        async def registered() -> frozenset[str]:
            return frozenset()

        door = ReplicationDoor(
            Admission(8),
            LinkSecurity(),
            ManualClock(),
            1.0,
            seats,
            lambda _: asyncio.Protocol(),
            registered,
        )
        async with asyncio.TaskGroup() as group:
            door.receive(cast(socket.socket, sock), group)
        assert (sock.closed, seats.taken) == (True, 0)

    asyncio.run(main())
