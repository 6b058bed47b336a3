"""Connections that wait for the next task of a worker process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiorocketmq.spark_connector.access import wire as wire_module
from aiorocketmq.spark_connector.access.connection_options import ConnectionOptions
from aiorocketmq.spark_connector.access.wire import Connections, SocketWire

OPTIONS = ConnectionOptions(("ns:1",))


class Unconnected(SocketWire):
    """Without a socket."""

    def __init__(self, address: str, *_: object) -> None:
        vars(self)["address"] = address  # it is final
        self.closed = False

    def is_open(self) -> bool:
        return not self.closed

    def rest(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def unconnected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Connections.close_all()
    monkeypatch.setattr(wire_module, "SocketWire", Unconnected)
    yield
    Connections.close_all()


def test_the_one_that_was_used_last_is_used_again() -> None:
    one, two = Connections.take("a:1", OPTIONS), Connections.take("a:1", OPTIONS)
    other = Connections.take("b:1", OPTIONS)
    for wire in (one, two, other):
        Connections.give_back(wire, OPTIONS)
    assert Connections.take("a:1", OPTIONS) is two
    assert Connections.take("a:1", ConnectionOptions(("ns:2",))) not in (one, two)
    two.close()
    Connections.give_back(two, OPTIONS)
    assert Connections.take("a:1", OPTIONS) is one, "the other side has closed the other one"
    assert Connections.idle() == 1


def test_brokers_that_are_gone_leave_no_connections_behind() -> None:
    """Each time that they are started again they have other addresses."""
    wires = []
    for number in range(1000):
        wires.append(Connections.take(f"a:{number}", OPTIONS))
        Connections.give_back(wires[-1], OPTIONS)
        assert Connections.take(f"a:{number}", OPTIONS) is wires[-1]
        Connections.give_back(wires[-1], OPTIONS)
    assert [isinstance(each, Unconnected) and each.closed for each in wires] == [
        *[True] * 936, *[False] * 64,
    ]  # fmt: skip
    assert Connections.idle() == len(Connections._idle) == 64
