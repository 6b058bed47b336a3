"""No request code of the original is forgotten: those that it serves are served, by the daemon that
serves them there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer

from ..broker.sim_broker import sim_broker

BROKER = {
    10, 11, 12, 14, 15, 17, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45,
    46, 50, 51, 52, 53,
    200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 300, 303, 305, 306, 307, 308, 309, 310, 314,
    315, 316, 317, 320, 321,
    323, 324, 325, 328, 329,
}  # fmt: skip
"""What brokers of 4.9.8 serve."""
BROKER_OF_5 = {18, 225, 351, 361}
OWN = {9000, 9100, 9200}
NAME_SERVER = {
    100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224, 304, 311, 312, 313, 318, 319, 322,
    327,
}  # fmt: skip
CLIENT = {39, 40, 220, 221, 307, 309, 326}
"""What a broker asks its clients."""


def test_the_broker_serves_every_code(tmp_path: Path) -> None:
    async def served() -> set[int]:
        async with sim_broker(tmp_path) as sim:
            return {int(code) for code in sim.broker.table}

    found = asyncio.run(served())
    assert BROKER - found == set(), "not in any dispatcher table"
    assert found - BROKER == BROKER_OF_5 | OWN


def test_the_name_server_serves_every_code() -> None:
    server = NameServer(NamesrvConfig())
    assert set(server._server.dispatcher._entries) == NAME_SERVER | {9000}


def test_the_client_serves_every_code() -> None:
    async def served() -> set[int]:
        instance = ClientInstance(namesrv="127.0.0.1:1")
        return set(instance.remoting.dispatcher._entries)

    assert asyncio.run(served()) == CLIENT
