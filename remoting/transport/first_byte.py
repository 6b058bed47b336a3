"""The first byte of a connection decides between plain and TLS, while no transport exists yet
(``remoting.md`` §1.7)."""

from __future__ import annotations

import asyncio
import socket

from .tls import HANDSHAKE_BYTE, TlsMode


async def wants_tls(
    sock: socket.socket, mode: TlsMode, *, has_certificate: bool, timeout: float
) -> bool:
    """Whether the peer begins with a TLS handshake; nothing is taken out of the socket.

    Raises ``ConnectionError`` when the connection has to be closed instead, ``TimeoutError`` when
    the peer says nothing.
    """
    if mode is TlsMode.DISABLED:
        # a handshake is a frame of more than 369 MB to the decoder, which closes the connection
        return False
    try:
        first = await _peek(sock, timeout)
    except TimeoutError:
        raise TimeoutError(f"it said nothing within {timeout:g} s") from None
    if first == b"":
        raise ConnectionResetError("it left before it said anything")
    if first[0] == HANDSHAKE_BYTE:
        if not has_certificate:
            raise ConnectionRefusedError(
                "the peer wants TLS, but no certificate is configured (tls.server.certPath)"
            )
        return True
    if mode is TlsMode.ENFORCING:
        raise ConnectionRefusedError(
            "the peer does not use TLS, which tls.server.mode=enforcing demands"
        )
    return False


async def _peek(sock: socket.socket, timeout: float) -> bytes:
    """The first byte that the peer sends, left in the socket; empty if the peer closed."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(sock, ready)
    try:
        async with asyncio.timeout(timeout):
            await readable
    finally:
        loop.remove_reader(sock)
    return sock.recv(1, socket.MSG_PEEK)
