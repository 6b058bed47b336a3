"""``mqcluster``: a name server and a broker in one process, to try things out. Not for machines
that others depend on.

Data lies below ``--dataDir`` and is there again next time; without it, in a temporary directory
that goes with the cluster. ``--raft 3`` has a DLedger group in the place of the broker, each member
a process that can be killed; ``--masters 2`` two masters side by side, likewise. ``--console``
shows it to a browser.
"""

from __future__ import annotations

from ..daemon import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import asyncio
import logging
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Final

import click

from ..broker.config.config import HA_PORT_DISTANCE, VIP_PORT_DISTANCE
from ..console.starting import lines_of, settings_of
from ..daemon import launch
from ..daemon.command_line import OneLineCommand, WrongCommandLine
from ..daemon.launch import Daemon, LaunchError, Settings
from ..daemon.logs import FORMS, LEVELS, set_up_logging
from ..daemon.pid_files import pid_file
from ..daemon.programs import folder_not_in_path
from ..local_brokers import LocalMember
from ..local_cluster import LOOPBACK, LocalCluster
from ..local_group import LARGEST
from ..local_masters import LARGEST as MOST_MASTERS
from ..local_properties import checked
from ..remoting.errors import AddressInUseError
from ..remoting.file_mode import FileMode, files_are
from ..remoting.protocol.extras import install_command
from ..remoting.protocol.java_properties import PropertyError
from ..remoting.transport.config import ALL_INTERFACES
from ..store.model.errors import StoreError

log: Final = logging.getLogger(__name__)

NAMESRV_PORT: Final = 9876
BROKER_PORT: Final = 10911
DEFAULT_CLUSTER: Final = "DefaultCluster"
PORT: Final = click.IntRange(0, 65535)
LEVEL: Final = click.Choice(LEVELS, case_sensitive=False)


CONSOLE_PORT: Final = 8199


class NameAndValue(click.ParamType[tuple[str, str]]):
    """``brokerPermission=4``"""

    name = "property"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"'{value}' does not look like NAME=VALUE", param, ctx)
        return name.strip(), text.strip()


@click.command(
    "mqcluster",
    cls=OneLineCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--namesrvPort",
    "namesrv_port",
    type=PORT,
    default=NAMESRV_PORT,
    help="0 for any.",
    show_default=True,
)
@click.option(
    "--brokerPort",
    "broker_port",
    type=PORT,
    default=BROKER_PORT,
    help="0 for any.",
    show_default=True,
)
@click.option(
    "--dataDir",
    "data_dir",
    help="Where the data lies. Default: a temporary directory, removed at the end.",
)
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    help="Where to listen; 0.0.0.0 lets other machines in.",
)
@click.option(
    "--property",
    "properties",
    type=NameAndValue(),
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the broker; repeatable.",
)
@click.option(
    "--raft",
    type=click.IntRange(0, LARGEST),
    default=0,
    help="A group of so many brokers, each a process, their ports 1000 apart; 0: one broker.",
)
@click.option("--console", "console", is_flag=True, help="Show the cluster to a browser, too.")
@click.option(
    "--consolePort",
    "console_port",
    type=PORT,
    default=CONSOLE_PORT,
    help="Where, with --console; 0 for any.",
    show_default=True,
)
@click.option(
    "--masters",
    type=click.IntRange(0, MOST_MASTERS),
    default=0,
    help="So many brokers side by side, each a process, their ports 10 apart; 0: one broker.",
)
@click.option("--logLevel", "level", type=LEVEL, default="WARNING", show_default=True)
@click.option("--logFormat", "form", type=click.Choice(FORMS), default="text", show_default=True)
def main(
    namesrv_port: int,
    broker_port: int,
    data_dir: str | None,
    host: str,
    properties: tuple[tuple[str, str], ...],
    raft: int,
    masters: int,
    **others: Any,
) -> None:
    """Run a name server and a broker, or a group of brokers, or several masters, until Ctrl-C."""
    if raft and masters:
        raise WrongCommandLine("mqcluster: --raft and --masters: one of the two")
    try:
        checked(dict(properties))
    except (LaunchError, PropertyError) as error:
        raise WrongCommandLine(f"mqcluster: {launch.describe(error)}") from None
    cluster = LocalCluster(
        data_dir=data_dir,
        namesrv_port=namesrv_port,
        broker_port=broker_port,
        host=host,
        properties=dict(properties),
        raft=raft,
        masters=masters,
    )
    set_up_logging(others["level"], form=others["form"])
    if host in ALL_INTERFACES:
        log.warning(
            "open to everybody: listening on all interfaces without access control; leave --host "
            "out on a network"
        )

    look = serving(others["console_port"]) if others["console"] else None

    async def serve(_settings: Settings) -> None:
        with ExitStack() as stack:

            def ready() -> None:
                stack.enter_context(
                    pid_file("cluster", int(cluster.namesrv_address.rpartition(":")[2]))
                )
                _say_ready(cluster, temporary=data_dir is None, properties=dict(properties))

            try:
                # not "async with": when it fails, this process ends too
                await (cluster.run(ready) if look is None else look(cluster, ready))
            except (AddressInUseError, StoreError) as error:
                raise LaunchError(_with_our_options(str(error))) from None

    daemon = Daemon("mqcluster", "", (), serve, operating_errors=(StoreError,))
    with files_are(FileMode.OWNER):
        sys.exit(launch.run(daemon, Settings(())))


def serving(
    port: int,
) -> Callable[[LocalCluster, Callable[[], object]], Coroutine[Any, Any, None]]:
    """Runs a cluster and a console of it, until one of them ends."""
    try:
        from ..console.app import serve
    except ImportError as error:
        raise WrongCommandLine(
            f"mqcluster: --console needs more packages ({error.name}): {install_command('console')}"
        ) from None

    async def run(cluster: LocalCluster, ready: Callable[[], object]) -> None:
        begun = asyncio.Event()

        async def look() -> None:
            await begun.wait()
            settings, made = settings_of(namesrv=cluster.namesrv_address, port=port)
            await serve(
                settings, lambda address: _say(lines_of(settings, address, token_made=made))
            )

        def run_both() -> None:
            ready()
            begun.set()

        tasks = [asyncio.create_task(cluster.run(run_both)), asyncio.create_task(look())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    return run


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
    sys.stdout.flush()


def _with_our_options(text: str) -> str:
    """What to do about an error, said with options of this program in place of properties."""
    ports = "set --namesrvPort or --brokerPort (0: any)"
    return text.replace("set listenPort", ports).replace(
        "another storePathRootDir", "another --dataDir"
    )


def _say_ready(cluster: LocalCluster, *, temporary: bool, properties: Mapping[str, str]) -> None:
    name = properties.get("brokerClusterName", DEFAULT_CLUSTER)
    metrics = _metrics(int(properties.get("prometheusPort", 0)))
    is_group = any(member.peer_address for member in cluster.members)
    brokers = [_member(member, cluster.broker_address) for member in cluster.members]
    folder = folder_not_in_path()
    for line in (
        f"name server  {cluster.namesrv_address}",
        *(brokers or [f"broker       {_with_vip(cluster.broker_address)}{metrics})"]),
        f"data         {cluster.data_dir}"
        + (" (removed at the end; keep it with --dataDir)" if temporary else ""),
        "",
        "Try, in another shell (Ctrl-C here stops everything):",
        *((f"  export PATH={shlex.quote(str(folder))}:$PATH",) if folder else ()),
        f"  export NAMESRV_ADDR={cluster.namesrv_address}",
        *(_for_masters(name) if brokers and not is_group else ()),
        "  mqadmin sendMessage -t Hello -p 'first message'",
        "  mqadmin consumeMessage -t Hello",
        *(_failover(cluster) if is_group else ()),
    ):
        click.echo(line)
    sys.stdout.flush()


def _with_vip(address: str) -> str:
    return f"{address} (VIP {_port(address) - VIP_PORT_DISTANCE}"


def _metrics(port: int) -> str:
    return f", metrics {port}" if port else ""


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _member(member: LocalMember, leader: str) -> str:
    """With each port that it has."""
    own = (
        f"DLedger {_port(member.peer_address)}"
        if member.peer_address
        else f"slaves {_port(member.address) + HA_PORT_DISTANCE}"
    )
    metrics = _metrics(_port(member.metrics_address)) if member.metrics_address else ""
    return (
        f"broker {member.id:5} {_with_vip(member.address)}, {own}{metrics}), process {member.pid}"
        + (", leader" if member.peer_address and member.address == leader else "")
    )


def _for_masters(name: str) -> list[str]:
    return [
        f"  mqadmin updateTopic -c {shlex.quote(name)} -t Hello    # queues on every master",
        "  mqadmin clusterList    # all of them, with their rates",
    ]


def _failover(cluster: LocalCluster) -> list[str]:
    leaders = [each for each in cluster.members if each.address == cluster.broker_address]
    return [
        line
        for leader in leaders
        for line in (
            f"  kill -9 {leader.pid}    # the leader: another member takes over",
            "  mqadmin clusterList",
            f"  mqbroker -c {shlex.quote(str(leader.config_file))}    # it comes back",
        )
    ]


if __name__ == "__main__":
    main()
