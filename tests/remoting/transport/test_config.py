"""The original's server properties and our own limits."""

from aiorocketmq.remoting.transport.config import ServerConfig, server_limits
from aiorocketmq.remoting.transport.flow import Limits


def test_the_originals_properties_set_our_limits() -> None:
    limits = server_limits(ServerConfig(), Limits(max_connections=5))
    assert limits == Limits(max_connections=5, idle_s=120.0)
    config = ServerConfig(server_channel_max_idle_time_seconds=7, write_buffer_high_water_mark=99)
    limits = server_limits(config, Limits())
    assert (limits.idle_s, limits.write_pause_bytes) == (7.0, 99)
