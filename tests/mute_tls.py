"""Peers that speak TLS and never answer a goodbye (close_notify), as Netty's do not: a relay in
front of a plain server, and clients that only connect."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
from typing import Final, Self

_READ_BYTES: Final = 64 << 10


class MuteTlsRelay:
    """Takes TLS connections at ``listen`` and carries what comes to a plain server at ``target``,
    and back. Use as ``with``.

    When its client says goodbye it says nothing, and keeps the connection until the client closes
    it. ``goodbyes`` counts the connections whose client did say so before it closed, ``ends`` those
    that have ended.
    """

    def __init__(
        self, context: ssl.SSLContext, listen: tuple[str, int], target: tuple[str, int]
    ) -> None:
        self._context = context
        self._target = target
        self._listening = socket.create_server(listen)
        self._open: list[socket.socket] = [self._listening]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.goodbyes: int = 0
        self.ends: int = 0

    @property
    def address(self) -> str:
        host, port = self._listening.getsockname()[:2]
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(client)
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            _Conversation(self, self._context, client, server).run()
        client.close()
        self.ends += 1


class _Conversation:
    """One connection; TLS in memory, so that nothing is answered but what is meant to be."""

    def __init__(
        self,
        relay: MuteTlsRelay,
        context: ssl.SSLContext,
        client: socket.socket,
        server: socket.socket,
    ) -> None:
        self._relay = relay
        self._client = client
        self._server = server
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._said_goodbye = False

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._client, selectors.EVENT_READ)
            selector.register(self._server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    data = self._receive(key.fileobj)
                    if key.fileobj is self._server:
                        if not data:
                            return
                        self._tls.write(data)
                    elif not data:
                        return
                    else:
                        self._incoming.write(data)
                        self._server.sendall(self._clear())
                    self._client.sendall(self._outgoing.read())

    @staticmethod
    def _receive(file: object) -> bytes:
        assert isinstance(file, socket.socket)
        return file.recv(_READ_BYTES)

    def _clear(self) -> bytes:
        """What the client has said in clear text."""
        clear = b""
        while True:
            try:
                data = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                return clear
            except ssl.SSLZeroReturnError:
                data = b""
            if not data:
                if not self._said_goodbye:
                    self._said_goodbye = True
                    self._relay.goodbyes += 1
                return clear
            clear += data


def mute_client(context: ssl.SSLContext, host: str, port: int) -> ssl.SSLSocket:
    """Has connected and shaken hands; nobody reads what comes."""
    return context.wrap_socket(socket.create_connection((host, port)), server_hostname=host)
