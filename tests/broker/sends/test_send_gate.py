"""Whether messages are taken at all."""

from __future__ import annotations

import pytest

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.sends.send_gate import SendGate
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.codes import ResponseCode

NOW = 1_700_000_000_000


def test_open_from_a_time_on_and_while_the_broker_keeps_up() -> None:
    config = BrokerConfig(broker_name="b", start_accept_send_request_time_stamp=NOW)
    gate = SendGate(config)
    assert gate.closed_until_ms == NOW
    gate.check(NOW)
    with pytest.raises(RequestError, match=f"unable to service, until {NOW} ") as early:
        gate.check(NOW - 1)
    assert early.value.code == ResponseCode.SYSTEM_ERROR
    gate.check_busy()
    gate.refuse("too much")
    for when in (NOW, NOW + 10**9):
        assert when < gate.closed_until_ms
        with pytest.raises(RequestError, match="too much") as busy:
            gate.check(when)
        assert busy.value.code == ResponseCode.SYSTEM_BUSY
    config.start_accept_send_request_time_stamp = 0
    gate.read_config()
    with pytest.raises(RequestError, match="too much"):
        gate.check_busy()
    gate.refuse(None)
    assert gate.closed_until_ms == 0
    gate.check(1)
