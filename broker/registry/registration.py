"""What a broker tells name servers, and when: without I/O (classes BrokerOuterAPI,
RegisterBrokerBody; ``broker-services.md`` §11). ``name_servers`` does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.registration import (
    RegisterBrokerBody,
    body_crc32,
    pack_registration,
)
from ...remoting.protocol.bodies.topic_config import DataVersion, TopicConfig, TopicConfigTable
from ...remoting.protocol.commands.route import BrokerRequest, RegisterBrokerRequest
from ..config.config import BrokerConfig
from ..state.frame_limit import entry_bytes
from ..state.topics import READ_WRITE

FIRST_RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 5.0
"""Where name servers have been away nobody finds a topic until the next attempt; one costs a
connection."""
PART_BYTES: Final = 4 << 20
"""Topics of one request, as JSON: a quarter of a frame. A name server takes some 40 ms for them,
then serves others."""
_MOST_PARTS: Final = 1 << 12
_MOST_COUNTER: Final = 1 << 62


class Identity(NamedTuple):
    """Who is registered."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int
    ha_server_addr: str

    def request(self) -> BrokerRequest:
        """The header of the requests that are about this broker and nothing else."""
        return BrokerRequest(
            broker_name=self.broker_name,
            broker_addr=self.broker_addr,
            cluster_name=self.cluster_name,
            broker_id=self.broker_id,
        )


class Registration(NamedTuple):
    """A REGISTER_BROKER request."""

    header: RegisterBrokerRequest
    body: bytes


def in_parts(table: TopicConfigTable, part_bytes: int) -> list[TopicConfigTable]:
    """The table in pieces of up to so many bytes, to be registered in this order, each when the one
    before it is answered.

    A name server adds what it is told to what it knows, but only when the version is not the one it
    knows. So only the last part has the version of the table, and each before it one that no table
    has, below 0, and another one for every table.
    """
    parts = [dict(part) for part in _cut(table, part_bytes)] or [{}]
    version = table.data_version
    first = version.counter * _MOST_PARTS % _MOST_COUNTER
    versions = [
        replace(version, counter=-2 - first - number) for number in range(len(parts) - 1)
    ] + [version]
    return [
        TopicConfigTable(topic_config_table=part, data_version=of)
        for part, of in zip(parts, versions, strict=True)
    ]


def _cut(table: TopicConfigTable, part_bytes: int) -> Iterator[list[tuple[str, TopicConfig]]]:
    part: list[tuple[str, TopicConfig]] = []
    size = 0
    for name, topic in table.topic_config_table.items():
        size += (more := entry_bytes(name, topic))
        if part and size > part_bytes:
            yield part
            part, size = [], more
        part.append((name, topic))
    if part:
        yield part


def can_be_packed(table: TopicConfigTable) -> bool:
    """Whether the packed form has space for everything that stands in the table: it knows neither
    flags nor order."""
    return not any(
        topic.topic_sys_flag or topic.order for topic in table.topic_config_table.values()
    )


def registration(
    identity: Identity,
    table: TopicConfigTable,
    *,
    broker_permission: int,
    compressed: bool,
    whole: bool = False,
) -> Registration:
    """What is sent, ``compressed`` if nothing gets lost by it. A broker that may not be read and
    written gives its own permission to every topic. ``whole``: the broker has no other topics."""
    if broker_permission & READ_WRITE != READ_WRITE:
        limited = {
            name: replace(topic, perm=broker_permission)
            for name, topic in table.topic_config_table.items()
        }
        table = replace(table, topic_config_table=limited)
    compressed = compressed and can_be_packed(table)
    content = RegisterBrokerBody(topic_config_table=table)
    body = pack_registration(content) if compressed else encode_body(content)
    header = RegisterBrokerRequest(
        broker_name=identity.broker_name,
        broker_addr=identity.broker_addr,
        cluster_name=identity.cluster_name,
        ha_server_addr=identity.ha_server_addr,
        broker_id=identity.broker_id,
        compressed=compressed,
        body_crc32=body_crc32(body),
        whole_table=whole or None,
    )
    return Registration(header, body)


def is_outdated(mine: DataVersion, changed: bool, theirs: DataVersion | None) -> bool:
    """What an answer to QUERY_DATA_VERSION means: the name server has to be told anew."""
    return changed or (theirs is not None and theirs != mine)


def period_s(config: BrokerConfig) -> float:
    """``registerNameServerPeriod`` in seconds, kept between 10 and 60."""
    return max(10_000, min(config.register_name_server_period, 60_000)) / 1000


def retry_s(failures: int) -> float:
    """When to try again after that many failures in a row."""
    return float(min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures - 1, 10)))


def name_server_addresses(text: str | None) -> list[str]:
    """The entries of ``namesrvAddr``, in order and once each."""
    return list(dict.fromkeys(part.strip() for part in (text or "").split(";") if part.strip()))
