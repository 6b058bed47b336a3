"""Addresses in words: what is none is refused in words too, whoever wrote it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiorocketmq.broker.config.addresses import resolve
from aiorocketmq.broker.raft.group import read_peers
from aiorocketmq.client.cluster.server_addresses import parse_addresses
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.client.options import vip_address
from aiorocketmq.remoting.errors import AddressInUseError, ConnectError
from aiorocketmq.remoting.transport.accepting import listening_socket
from aiorocketmq.remoting.transport.address import moved_port, port_of, split_address
from aiorocketmq.store.model.errors import StoreConfigError

NO_PORTS = ["", "x", "-1", "0", "65536", "²", "٣", "1_0", " 7", "9" * 5000]
"""``int`` takes some of them, and raises its own error for others."""


@pytest.mark.parametrize("text", NO_PORTS)
def test_what_is_no_port(text: str) -> None:
    assert port_of(text) is None


def test_ports() -> None:
    assert [port_of(text) for text in ("1", "10911", "65535")] == [1, 10911, 65535]
    assert split_address("[fe80::1]:10911") == ("fe80::1", 10911)


READERS = pytest.mark.parametrize(
    ("read", "refusal"),
    [
        (split_address, ConnectError),
        (parse_addresses, ConfigError),
        (lambda text: read_peers(f"n0-{text}"), StoreConfigError),
    ],
    ids=["address", "name server", "member"],
)


@pytest.mark.parametrize("port", NO_PORTS)
@READERS
def test_an_address_without_a_port_is_refused_in_words(
    read: Callable[[str], object], refusal: type[Exception], port: str
) -> None:
    with pytest.raises(refusal):
        read(f"10.0.0.1:{port}")


@pytest.mark.parametrize("port", NO_PORTS)
def test_another_port_of_what_is_no_address_is_that(port: str) -> None:
    address = f"10.0.0.1:{port}"
    assert vip_address(address) == moved_port(address, -2) == address


def test_another_port() -> None:
    assert vip_address("10.0.0.1:10911") == moved_port("10.0.0.1:10911", -2) == "10.0.0.1:10909"


NO_HOSTS = ["", "ns1..example", ".example", "x" * 64, "a.b" * 99, "x\u2028x", "\ud800", "a\0b"]
"""Of these ``socket`` does not say that they are unknown: it raises errors that are no OSError."""


@pytest.mark.parametrize("host", NO_HOSTS, ids=ascii)
@READERS
def test_a_host_that_cannot_be_looked_up_is_refused_in_words(
    read: Callable[[str], object], refusal: type[Exception], host: str
) -> None:
    with pytest.raises(refusal):
        read(f"{host}:10911")


@pytest.mark.parametrize("host", NO_HOSTS[1:], ids=ascii)
def test_nobody_listens_on_what_is_no_host(host: str) -> None:
    with pytest.raises(AddressInUseError, match="no address and no name"):
        listening_socket(host, 0, 1, port_property="listenPort")
    with pytest.raises(OSError, match=r"brokerIP1=.* is no address and no name"):
        asyncio.run(resolve(host))


def test_hosts() -> None:
    for host in (
        "10.0.0.1",
        "fe80::1%eth0",
        "ns1.example",
        "ns1.example.",
        "mq_1",
        "bücher.example",
    ):
        assert split_address(f"{host}:1") == (host, 1)
