"""What a broker registers is listened on."""

from __future__ import annotations

import pytest

from aiorocketmq.broker.config.addresses import follow_bind_address, not_listened_on
from aiorocketmq.broker.config.config import BrokerConfig, BrokerServerConfig
from aiorocketmq.broker.daemon import RECORDS
from aiorocketmq.daemon.launch import Settings
from aiorocketmq.daemon.local_address import local_address
from aiorocketmq.remoting.protocol.java_properties import Property


@pytest.mark.parametrize(
    ("given", "registered"),
    [
        ({}, (None, None)),
        ({"bindAddress": "0.0.0.0"}, (None, None)),
        ({"bindAddress": "::"}, (None, None)),
        ({"brokerIP1": "192.0.2.1"}, ("192.0.2.1", None)),
        ({"bindAddress": "127.0.0.9"}, ("127.0.0.9", "127.0.0.9")),
        ({"bindAddress": "127.0.0.9", "brokerIP1": "192.0.2.1"}, ("192.0.2.1", "127.0.0.9")),
        ({"bindAddress": "127.0.0.9", "brokerIP2": "192.0.2.1"}, ("127.0.0.9", "192.0.2.1")),
    ],
)
def test_what_is_not_given_is_where_the_broker_listens(
    given: dict[str, str], registered: tuple[str | None, str | None]
) -> None:
    settings = Settings(RECORDS, [Property(*each) for each in given.items()])
    follow_bind_address(settings)
    config = settings[BrokerConfig]
    expected = tuple(each or local_address() for each in registered)
    assert (config.broker_ip1, config.broker_ip2) == expected


@pytest.mark.parametrize(
    ("bind_address", "broker_ip2", "wrong"),
    [
        ("", "127.0.0.2", []),
        ("0.0.0.0", "127.0.0.2", []),
        ("127.0.0.1", "127.0.0.1", []),
        ("127.0.0.1", "127.0.0.2", ["brokerIP2=127.0.0.2"]),
        ("127.0.0.1", "192.0.2.1", []),
        ("127.0.0.1", "some.name", []),
        ("localhost", "127.0.0.2", []),
    ],
    ids=repr,
)
def test_another_address_of_this_machine_is_certainly_wrong(
    bind_address: str, broker_ip2: str, wrong: list[str]
) -> None:
    """192.0.2.1 may be a router's that forwards, a name may be any address."""
    config = BrokerConfig(broker_ip1=bind_address or "127.0.0.1", broker_ip2=broker_ip2)
    server = BrokerServerConfig(bind_address=bind_address)
    assert not_listened_on(config, server) == wrong
