"""Whether there is a way to an address: its name, a connection, TLS. Sends nothing but a TLS
handshake."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import NamedTuple, TypeVar

from ...remoting.errors import ConnectError
from ...remoting.transport.address import split_address
from .seen import Kind, Trouble

T = TypeVar("T")


class Way(NamedTuple):
    """To an address. ``trouble``: there is none."""

    trouble: Trouble | None = None
    is_loopback: bool = False


async def way_to(address: str, tls: ssl.SSLContext | None, timeout_s: float) -> Way:
    """Each step may take ``timeout_s``."""
    try:
        host, port = split_address(address)
    except ConnectError:
        return Way(Trouble(Kind.NO_ADDRESS, ""))
    try:
        async with asyncio.timeout(timeout_s):
            found = await _in_a_thread(
                lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            )
    except TimeoutError:
        return Way(Trouble(Kind.UNKNOWN_HOST, f"nobody told within {timeout_s:g} s"))
    except (OSError, UnicodeError) as error:
        return Way(Trouble(Kind.UNKNOWN_HOST, getattr(error, "strerror", None) or str(error)))
    loopback = all(_is_loopback(str(each[4][0])) for each in found)
    trouble = await _connected(host, port, None, timeout_s)
    if trouble is None and tls is not None:
        trouble = await _connected(host, port, tls, timeout_s)
    return Way(trouble, loopback)


async def speaks_tls(address: str, timeout_s: float) -> bool:
    """Whether whoever listens there answers a TLS handshake, whatever its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    trouble = await _connected(*split_address(address), context, timeout_s)
    return trouble is None or trouble.kind is Kind.CERTIFICATE


async def _connected(
    host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float
) -> Trouble | None:
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
    except TimeoutError:
        kind = Kind.NO_WAY if tls is None else Kind.NO_HANDSHAKE
        return Trouble(kind, f"no answer within {timeout_s:g} s")
    except ssl.SSLCertVerificationError as error:
        return Trouble(Kind.CERTIFICATE, error.verify_message)
    except ssl.SSLError as error:
        about_ours = "CERTIFICATE" in (error.reason or "")
        kind = Kind.CERTIFICATE if about_ours else Kind.NO_HANDSHAKE
        return Trouble(kind, error.reason or str(error))
    except ConnectionRefusedError:
        return Trouble(Kind.REFUSED, "")
    except OSError as error:
        kind = Kind.NO_WAY if tls is None else Kind.NO_HANDSHAKE
        return Trouble(kind, error.strerror or str(error))
    writer.transport.abort()
    return None


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _in_a_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """One that may be left alone, unlike those of the event loop: who waits for a resolver that
    hangs would also wait for it at the end."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            value = call()
        except (OSError, UnicodeError) as error:
            result.set_exception(error)
        else:
            result.set_result(value)

    Thread(target=run, name="look-up", daemon=True).start()
    return asyncio.wrap_future(result)
