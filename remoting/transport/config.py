"""Properties that every daemon has because it serves a port (class NettyServerConfig;
``broker-services.md`` §16.3)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ..file_mode import FileMode
from ..protocol.wire import Record
from .flow import Limits

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


ALL_INTERFACES: Final = frozenset({"", "0.0.0.0", "::"})
"""``bindAddress`` of a daemon that every machine in the network can reach."""


def server_limits(config: ServerConfig, limits: Limits) -> Limits:
    """Our own limits with what the original's properties say about them."""
    return msgspec.structs.replace(
        limits,
        idle_s=float(config.server_channel_max_idle_time_seconds),
        write_pause_bytes=config.write_buffer_high_water_mark or limits.write_pause_bytes,
    )
