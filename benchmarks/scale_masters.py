"""One master and several side by side on this machine, in turn: how many messages a second they
take together, and what a message costs each of them.

``python -m benchmarks.scale_masters --masters 1 2 4``. A master is a process (``mqcluster
--masters``) and uses one core at most; the load comes from this process, a thread for each master,
and needs cores, too: with fewer than two for each master they take from each other, and what it
comes to is told by the CPU time of a message, which has to stay what it is with one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from aiorocketmq.local_brokers import LocalMember
from aiorocketmq.local_cluster import LocalCluster

from .cpu import cpu_ns
from .harness.figures import BenchmarkError
from .harness.frames import TOPIC, sends
from .harness.peer import Peer
from .harness.play import WARM_UP_S, Player, open_player
from .harness.servers import work_folder

CONNECTIONS: Final = 8
WINDOW: Final = 64
QUEUES: Final = 8
PROPERTIES: Final = {"mappedFileSizeCommitLog": str(1 << 30)}
"""As in production, not as for tests."""


class Figures(NamedTuple):
    """Of one round. CPU times are microseconds of a message."""

    masters: int
    rates: tuple[float, ...]
    """Messages a second of each."""
    broker_us: float
    load_us: float

    @property
    def rate(self) -> float:
        """Of all together."""
        return sum(self.rates)

    @property
    def cores(self) -> float:
        """How many were busy with it, those of the load among them."""
        return self.rate * (self.broker_us + self.load_us) / 1e6


class Master(NamedTuple):
    """One of them, and who sends to it."""

    pid: int
    player: Player


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.scale_masters", description="Masters side by side on this machine."
    )
    parser.add_argument("--masters", type=int, nargs="+", default=[1, 2], help="how many, in turn")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where the stores lie; 1 GB a round")
    given = parser.parse_args(arguments)
    with work_folder(given.directory) as folder, started(folder, max(given.masters)) as masters:
        rounds = [
            play(masters[:count], given.seconds)
            for _ in range(given.rounds)
            for count in given.masters
        ]
    print("\n".join(table(rounds)))


@contextmanager
def started(folder: Path, count: int) -> Iterator[list[Master]]:
    """So many masters with the same topic; the frames are as those of ``send 8x64``."""
    with ExitStack() as stack:
        cluster = LocalCluster(data_dir=folder, masters=count, properties=PROPERTIES)
        members = stack.enter_context(cluster).members
        yield [stack.enter_context(_master(member)) for member in members]


@contextmanager
def _master(member: LocalMember) -> Iterator[Master]:
    port = int(member.address.rpartition(":")[2])
    with Peer(port) as peer:
        peer.create_topic(TOPIC, QUEUES)
    with open_player(port, CONNECTIONS, sends()) as player:
        assert member.pid is not None
        yield Master(member.pid, player)


def play(masters: Sequence[Master], seconds: float) -> Figures:
    """To all of them at the same time. Raises ``BenchmarkError`` for a bad answer."""
    with ThreadPoolExecutor(len(masters)) as threads:
        list(threads.map(lambda each: each.player.play(WINDOW, min(WARM_UP_S, seconds)), masters))
        brokers, load = _cpu(masters), time.process_time()
        played = list(threads.map(lambda each: each.player.play(WINDOW, seconds), masters))
        brokers, load = _cpu(masters) - brokers, time.process_time() - load
    for each in played:
        if each.errors or each.problem or not each.messages:
            raise BenchmarkError(f"{each.errors} bad answers; {each.problem}")
    messages = sum(each.messages for each in played)
    return Figures(
        len(masters),
        tuple(each.messages / each.seconds for each in played),
        brokers / 1000 / messages,
        load * 1e6 / messages,
    )


def _cpu(masters: Sequence[Master]) -> int:
    return sum(cpu_ns(each.pid) for each in masters)


def table(rounds: Sequence[Figures]) -> list[str]:
    """The best round of each number of masters: what else goes on here only takes away."""
    lines = [
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; sends of 128 bytes, "
        f"{CONNECTIONS} connections x {WINDOW} on their way to each master; best of "
        f"{sum(each.masters == rounds[0].masters for each in rounds)} rounds in turn",
        "",
        "| masters | messages/s | of each | µs of a broker | µs of the load | cores busy |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for count in dict.fromkeys(each.masters for each in rounds):
        best = max((each for each in rounds if each.masters == count), key=lambda each: each.rate)
        of_each = ", ".join(f"{rate:,.0f}" for rate in best.rates)
        lines.append(
            f"| {count} | {best.rate:,.0f} | {of_each} | {best.broker_us:.2f} | "
            f"{best.load_us:.2f} | {best.cores:.2f} |"
        )
    return lines


if __name__ == "__main__":
    main()
