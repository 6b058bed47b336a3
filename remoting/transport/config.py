"""Properties that every daemon has because it serves a port (class NettyServerConfig;
``broker-services.md`` §16.3), and what servers and clients are told."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ..file_mode import FileMode
from ..protocol.frames.serialization import SerializeType
from ..protocol.wire import Record
from .flow import Limits
from .socket_buffers import SYSTEM_BUFFERS, SocketBuffers
from .tls import ServerTls, TlsConfig, TlsMode, server_tls

_UNUSED = "no effect here: one event loop does the work"
_BUFFER = "bytes that the system buffers per connection, 0: as it thinks right"


class ServerConfig(Record, kw_only=True):
    """Base of a daemon's configuration. Not frozen: requests 25 and 318 change it while the daemon
    runs."""

    listen_port: Annotated[
        int, Meta(ge=0, le=65535, description="the port to serve, 0 for any free one")
    ] = 8888
    bind_address: Annotated[
        str, Meta(description="the address to listen on, empty for all (ours and 5.x)")
    ] = ""
    file_mode: Annotated[
        FileMode, Meta(description="who may read what this daemon writes, as octal digits (ours)")
    ] = FileMode.OWNER
    server_worker_threads: Annotated[int, Meta(description=_UNUSED)] = 8
    server_callback_executor_threads: Annotated[int, Meta(description=_UNUSED)] = 0
    server_selector_threads: Annotated[int, Meta(description=_UNUSED)] = 3
    server_oneway_semaphore_value: Annotated[int, Meta(description=_UNUSED)] = 256
    server_async_semaphore_value: Annotated[int, Meta(description=_UNUSED)] = 64
    server_channel_max_idle_time_seconds: Annotated[
        int,
        Meta(ge=1, le=2**31 - 1, description="a connection without traffic for so long is closed"),
    ] = 120
    server_socket_snd_buf_size: Annotated[int, Meta(ge=0, le=2**31 - 1, description=_BUFFER)] = 0
    server_socket_rcv_buf_size: Annotated[int, Meta(ge=0, le=2**31 - 1, description=_BUFFER)] = 0
    write_buffer_high_water_mark: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="instead of writePauseBytes, unless 0")
    ] = 0
    write_buffer_low_water_mark: Annotated[int, Meta(description=_UNUSED)] = 0
    server_socket_backlog: Annotated[
        int, Meta(ge=1, le=2**31 - 1, description="connections not yet accepted")
    ] = 1024
    server_pooled_byte_buf_allocator_enable: Annotated[bool, Meta(description=_UNUSED)] = True
    use_epoll_native_selector: Annotated[bool, Meta(description=_UNUSED)] = False


ALL_INTERFACES: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - names it only
"""``bindAddress`` of a daemon that every machine in the network can reach."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one ``RemotingServer`` is told: where it listens and what it grants its peers."""

    host: str = ""
    port: int
    """0: any free one."""
    port_property: str = "listenPort"
    """What to change when the port is taken."""
    name: str = "server"
    backlog: int = 1024
    limits: Limits = Limits()
    tls_mode: TlsMode = TlsMode.PERMISSIVE
    """What happens to TLS connections."""
    tls: ServerTls | None = None
    """The certificate for them; ``None``: they are closed and the log says that no certificate is
    configured."""
    socket_buffers: SocketBuffers = SYSTEM_BUFFERS
    """Of all connections."""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all connections of one ``RemotingClient`` are like."""

    connect_timeout: float = 3.0
    """Seconds, TLS included."""
    serialize_type: int = SerializeType.JSON
    limits: Limits = Limits()
    socket_buffers: SocketBuffers = SYSTEM_BUFFERS


def server_settings(
    config: ServerConfig, limits: Limits, tls: TlsConfig, *, name: str, port: int | None = None
) -> ServerSettings:
    """What a daemon's properties say; ``port``: instead of ``listenPort``. Raises ``TlsError``."""
    return ServerSettings(
        host=config.bind_address,
        port=config.listen_port if port is None else port,
        name=name,
        backlog=config.server_socket_backlog,
        limits=server_limits(config, limits),
        tls_mode=tls.server_mode,
        tls=server_tls(tls),
        socket_buffers=SocketBuffers(
            config.server_socket_snd_buf_size, config.server_socket_rcv_buf_size
        ),
    )


def server_limits(config: ServerConfig, limits: Limits) -> Limits:
    """Our own limits with what the original's properties say about them."""
    return msgspec.structs.replace(
        limits,
        idle_s=float(config.server_channel_max_idle_time_seconds),
        write_pause_bytes=config.write_buffer_high_water_mark or limits.write_pause_bytes,
    )
