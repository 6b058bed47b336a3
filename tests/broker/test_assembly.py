"""Putting a broker together, and stopping it in good order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import trustme

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.assembly.ports import NOT_ON_VIP
from aiorocketmq.broker.assembly.table import request_table
from aiorocketmq.broker.config import addresses
from aiorocketmq.broker.config.addresses import free_port, resolve
from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.services import Service, run_stages
from aiorocketmq.remoting.transport.tls import TlsConfig, TlsMode
from aiorocketmq.store.model.config import BrokerRole

from ..sim import ManualClock
from ..store.world import open_store
from .sim_broker import ADDRESS, sim_broker
from .stages import Failing, Stage

FIRST_VERTICAL = {
    10, 11, 12, 14, 15, 17, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 38, 41, 42, 43, 45, 46,
    200, 201, 202, 203, 204,
    207, 208, 215, 300, 305, 306, 307, 310, 316, 320, 328, 329, 361,
}  # fmt: skip


def test_stages_end_one_after_the_other() -> None:
    diary: list[str] = []

    async def main() -> None:
        stages = [
            [Stage("a1", diary), Stage("a2", diary)],
            [Stage("b", diary)],
            [Stage("c", diary)],
        ]
        task = asyncio.create_task(run_stages(*stages))
        while len(diary) < 4:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert set(diary[4:6]) == {"a1 ends", "a2 ends"}
    assert diary[6:] == ["b ends", "c ends"]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_service_that_fails_ends_all_stages(position: int) -> None:
    diary: list[str] = []

    async def main() -> None:
        stages: list[list[Service]] = [[Stage(str(number), diary)] for number in range(3)]
        stages[position].append(Failing())
        with pytest.raises((OSError, BaseExceptionGroup)) as failed:
            await run_stages(*stages)
        error: BaseException = failed.value
        while isinstance(error, BaseExceptionGroup):
            (error,) = error.exceptions
        assert str(error) == "broken"

    asyncio.run(main())
    assert sorted(line for line in diary if line.endswith("ends")) == ["0 ends", "1 ends", "2 ends"]


def test_the_codes_of_the_first_vertical(tmp_path: Path) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path) as sim:
            assert {int(code) for code in sim.broker.table} >= FIRST_VERTICAL
            assert set(sim.broker.table) >= NOT_ON_VIP
            assert RequestCode.PULL_MESSAGE in NOT_ON_VIP

    asyncio.run(main())


def secure_slave(folder: Path, role: BrokerRole, **tls: Any) -> Broker:
    """A broker that takes nothing but TLS."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    store = open_store(folder / "store", broker_role=role)
    settings = BrokerSettings(
        BrokerConfig(broker_id=int(role is BrokerRole.SLAVE), namesrv_addr=None),
        store=store.config,
        tls=TlsConfig(
            server_mode=TlsMode.ENFORCING,
            server_cert_path=str(folder / "cert.pem"),
            server_key_path=str(folder / "key.pem"),
            **tls,
        ),
    )
    return Broker(settings, store, ADDRESS, ManualClock())


@pytest.mark.parametrize("with_all", [False, True], ids=["brokers", "name servers, too"])
@pytest.mark.parametrize("role", [BrokerRole.SLAVE, BrokerRole.ASYNC_MASTER])
def test_who_takes_nothing_but_tls_speaks_it_to_other_replicas(
    tmp_path: Path, role: BrokerRole, with_all: bool
) -> None:
    broker = secure_slave(tmp_path, role, enable=with_all)
    slave, mending = broker.replication.slave, broker.replication.mending
    remoting: Any = mending._remoting if slave is None else slave.sync._remoting
    assert remoting._tls is not None
    to_name_servers: Any = broker.registry.remoting
    assert (to_name_servers._tls is not None) == with_all
    broker.store.close()


class Answers:
    """A processor of one request."""

    def __init__(self, code: RequestCode) -> None:
        self.table = {code: lambda _request, _body, _ctx: None}


def test_a_request_has_one_processor() -> None:
    pull, send = Answers(RequestCode.PULL_MESSAGE), Answers(RequestCode.SEND_MESSAGE)
    assert request_table(pull, send) == pull.table | send.table
    with pytest.raises(ValueError, match="several processors answer PULL_MESSAGE"):
        request_table(pull, send, Answers(RequestCode.PULL_MESSAGE))


def test_tables_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path) as sim:
            client = sim.connect()
            await client.heartbeat("c1", "g")
            await client.send("T", b"one")
        async with sim_broker(tmp_path) as sim:
            assert sim.broker.state.topics.get("%RETRY%g") is not None
            topic = sim.broker.state.topics.get("T")
            assert topic is not None
            assert topic.write_queue_nums == 4
            assert sim.broker.state.groups.find("g") is not None
            assert sim.broker.store.max_offset("T", 0) == 1

    asyncio.run(main())


def test_addresses() -> None:
    assert asyncio.run(resolve("10.1.2.3")) == "10.1.2.3"
    assert asyncio.run(resolve("::1")) == "::1"
    assert asyncio.run(resolve("localhost")) in ("127.0.0.1", "::1")
    with pytest.raises(OSError, match=r"brokerIP1=no\.such\.host\.invalid has no address"):
        asyncio.run(resolve("no.such.host.invalid"))
    assert 2 < free_port("127.0.0.1") < 65535


def test_brokers_that_are_given_ports_together_do_not_need_each_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = iter([20_000, 19_998, 20_001, 20_003, 20_004])
    monkeypatch.setattr(addresses, "free_port", lambda _host: next(tried))
    assert addresses.free_ports("127.0.0.1", 2) == [20_000, 20_004]
