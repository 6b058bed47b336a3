"""Networks that are cut and come back: name server, master, slave and client on four hosts (network
namespaces).

``python -m benchmarks.soak_partition`` (needs root and ``ip netns``; about six minutes, with
``--short`` nine seconds). Each pair of hosts has a link of its own, which is taken down for a while
under load: what a SYNC_MASTER acknowledged is never lost, the name server forgets a broker after
120 s and knows it again within 30 s, consumers go on.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

import click

from aiorocketmq import Admin
from aiorocketmq.remoting.errors import RocketMQError
from examples.demo.daemons import data_folder
from examples.demo.errors import DemoError
from examples.demo.program import run_program

from .command_line import HELP, KEEP
from .namespaces import Network, enter, prefix
from .soak_replication import IN_FLIGHT, Host, Options, Soak

HOSTS: Final = {
    "namesrv": "10.99.7.1",
    "master": "10.99.7.2",
    "slave": "10.99.7.3",
    "client": "10.99.7.4",
}


class Cut(NamedTuple):
    """A link that is down for some seconds."""

    one: str
    other: str
    seconds: float


CUTS: Final = (
    Cut("master", "slave", 5),
    Cut("master", "slave", 30),
    Cut("client", "master", 5),
    Cut("client", "master", 30),
    Cut("namesrv", "master", 20),
    Cut("namesrv", "master", 150),
)


EXPIRY_S: Final = 120
BACK_WITHIN_S: Final = 30
STAYS_KNOWN_S: Final = 12
"""More than a period of registration."""
SHORT_CUTS: Final = (Cut("master", "slave", 1.5), Cut("client", "master", 1.5))
SHORT_SLAVE_TIMEOUT_MS: Final = 500


class Partitions(Soak):
    """All cuts on one cluster."""

    def __init__(self, folder: Path, network: Network, *, short: bool = False) -> None:
        hosts = {
            name: Host(address, prefix(name)) for name, address in HOSTS.items() if name != "client"
        }
        settings = {"slaveTimeout": SHORT_SLAVE_TIMEOUT_MS} if short else {}
        super().__init__(folder, Options(0, 1, 1.0, None), hosts, settings)
        self._network = network
        self._short = short

    async def _rounds(self) -> None:
        for cut in SHORT_CUTS if self._short else CUTS:
            await asyncio.sleep(0.5 if self._short else 3)
            await self._cut(cut)

    async def _cut(self, cut: Cut) -> None:
        before = len(self.acknowledged)
        self._network.cut(cut.one, cut.other)
        started = time.monotonic()
        gone_after = None
        while (seconds := time.monotonic() - started) < cut.seconds:
            if gone_after is None and "namesrv" in cut and not await self._is_known():
                gone_after = seconds
            await asyncio.sleep(0.2)
        meanwhile = len(self.acknowledged) - before
        self._network.join(cut.one, cut.other)
        healed = time.monotonic()
        await self._until_slave_follows()
        sends_after = time.monotonic() - healed
        await self._check_consumed()
        text = f"  {cut.one}|{cut.other} {cut.seconds:g} s: {meanwhile:,} acknowledged meanwhile, "
        text += (
            f"acknowledged again {sends_after:.1f} s after healing, all consumed after "
            f"{time.monotonic() - healed:.1f} s"
        )
        if {"master", "slave"} == {cut.one, cut.other} and meanwhile > 2 * IN_FLIGHT:
            self.problems.append(f"{meanwhile} acknowledged as replicated without a link")
        if "namesrv" in cut:
            text += (
                "; route "
                f"{f'gone after {gone_after:.0f} s' if gone_after is not None else 'not gone'}"
            )
            text += f", there for good {await self._until_known(healed):.1f} s after healing"
        if "namesrv" in cut and gone_after is None and cut.seconds > EXPIRY_S + 10:
            self.problems.append("the name server has not forgotten the master")
        print(text, flush=True)

    async def _until_known(self, healed: float) -> float:
        """Seconds until the name server knows the master and does not forget it again: what was
        said on a connection that died in between may come late.
        """
        known_at = None
        while known_at is None or time.monotonic() - known_at < STAYS_KNOWN_S:
            if not await self._is_known():
                known_at = None
            elif known_at is None:
                known_at = time.monotonic()
            if time.monotonic() - healed > 2 * BACK_WITHIN_S + STAYS_KNOWN_S:
                break
            await asyncio.sleep(0.1)
        seconds = (known_at or time.monotonic()) - healed
        if known_at is None or seconds > BACK_WITHIN_S:
            self.problems.append(
                f"the name server knows the master {seconds:.0f} s after healing only"
            )
        return seconds

    async def _is_known(self) -> bool:
        async with Admin(namesrv=self._namesrv) as admin:
            try:
                broker = (await admin.cluster_info()).broker_addr_table.get("soak")
            except RocketMQError:
                return True
            return broker is not None and 0 in broker.broker_addrs


async def soak(network: Network, keep: Path | None, *, short: bool) -> int:
    """Run it; returns the exit code."""
    enter("client")
    with data_folder(keep, keep=keep is not None) as folder:
        run = Partitions(folder, network, short=short)
        await run.run()
    print(
        f"acknowledged        {len(run.acknowledged):>9,}   with code 0; {run.unreplicated:,} "
        "were stored without a slave"
    )
    print(f"lost                {run.lost:>9,}   of those")
    print(f"consumed            {len(run.seen):>9,}   {run.received - len(run.seen):,} times again")
    print(f"longest pause       {run.sends.longest_s:>9.2f} s without an acknowledgement")
    for problem in run.problems[:20]:
        print(f"NOT GOOD: {problem}")
    return 1 if run.problems else 0


@click.command(context_settings=HELP)
@KEEP
@click.option("--short", is_flag=True, help="Two cuts of a second and a half.")
def main(keep: Path | None, short: bool) -> None:
    """Links between name server, master, slave and client are cut for a while."""
    logging.getLogger("aiorocketmq").setLevel(logging.CRITICAL)
    network = Network(HOSTS)
    try:
        with network.built():
            sys.exit(run_program("soak_partition", soak(network, keep, short=short)))
    except DemoError as error:
        sys.exit(f"soak_partition: {error}")


if __name__ == "__main__":
    main()
