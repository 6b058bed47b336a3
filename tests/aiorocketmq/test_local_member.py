"""Members of a group of LocalCluster as processes: here one that is a broker without a group."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from aiorocketmq.broker.config.addresses import free_port
from aiorocketmq.daemon.launch import LaunchError
from aiorocketmq.local_brokers import LocalMember, until
from aiorocketmq.local_properties import DEFAULTS
from aiorocketmq.remoting.protocol.java_properties import format_properties

HOST = "127.0.0.1"
PATIENCE_S = 60.0


@pytest.fixture
def member(tmp_path: Path) -> LocalMember:
    member = LocalMember("n0", tmp_path)
    member.address = f"{HOST}:{free_port(HOST)}"
    configure(member)
    return member


def configure(member: LocalMember, **more: str) -> None:
    table = {
        **DEFAULTS,
        "listenPort": member.address.rpartition(":")[2],
        "bindAddress": HOST,
        "brokerIP1": HOST,
        "storePathRootDir": str(member.folder / "store"),
        **more,
    }
    member.config_file.write_text(format_properties(table))


def connects(member: LocalMember) -> bool:
    host, _, port = member.address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_it_stops_in_good_order_and_starts_again(member: LocalMember) -> None:
    async def use() -> None:
        for _ in range(2):
            await member.start()
            assert member.serves
            assert connects(member)
            await member.start()  # nothing happens
            await member.stop()
            assert (member.pid, member.serves, connects(member)) == (None, False, False)
            assert not (member.folder / "store" / "abort").exists(), "that was a clean end"

    asyncio.run(use())


def test_one_that_is_killed_is_dead(member: LocalMember) -> None:
    async def use() -> None:
        await member.start()
        await member.kill()
        assert (member.pid, connects(member)) == (None, False)
        assert (member.folder / "store" / "abort").exists(), "that was none"
        await member.kill()  # nothing happens

    asyncio.run(use())


def test_one_that_is_paused_can_be_ended(member: LocalMember) -> None:
    async def use() -> None:
        await member.start()
        await member.pause()
        assert (member.pid is not None, member.serves) == (True, False)
        await member.resume()
        assert member.serves
        await member.pause()
        await member.stop()
        assert member.pid is None

    asyncio.run(use())


def test_its_last_words_say_why_it_does_not_start(member: LocalMember) -> None:
    configure(member, brokerId="x")
    with pytest.raises(LaunchError, match=r"member n0 does not start: .*brokerId must be a whole"):
        asyncio.run(member.start())


def test_it_ends_with_its_owner(member: LocalMember) -> None:
    program = f"""
        import asyncio
        from pathlib import Path
        from aiorocketmq.local_brokers import LocalMember

        async def main():
            member = LocalMember("n0", Path({str(member.folder)!r}))
            member.address = {member.address!r}
            await member.start()
            print("started", flush=True)
            await asyncio.Event().wait()

        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        assert connects(member)
        os.kill(owner.pid, signal.SIGKILL)
    asyncio.run(until(lambda: not connects(member), "it is gone", PATIENCE_S))
