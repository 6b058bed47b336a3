"""Which of its addresses a machine shows to others."""

from __future__ import annotations

import ipaddress

import pytest

from aiorocketmq.daemon.local_address import choose_address, local_address


@pytest.mark.parametrize(
    ("addresses", "chosen"),
    [
        ([], None),
        (["127.0.0.1", "::1"], None),
        (["127.0.0.1", "10.0.0.5", "10.0.0.6"], "10.0.0.5"),
        (["192.168.1.2", "172.16.0.1"], "172.16.0.1"),
        (["192.168.1.2", "192.168.1.3"], "192.168.1.3"),
        (["fd00::2", "fd00::3", "192.168.1.2"], "192.168.1.2"),
        (["127.0.0.1", "fd00::2", "fd00::3"], "fd00::2"),
        (["0.0.0.0", "10.0.0.5"], "10.0.0.5"),
    ],
)
def test_the_rule(addresses: list[str], chosen: str | None) -> None:
    assert choose_address(addresses) == chosen


def test_there_is_always_an_address() -> None:
    ipaddress.ip_address(local_address())
