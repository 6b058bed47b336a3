"""``python -m examples.demo``: start a cluster, send every row of a file, receive it, say how it went, stop everything."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console

from aiorocketmq import RocketMQError

from .commands import mqadmin
from .daemons import CLUSTER_NAME, Daemons, data_folder
from .errors import DemoError
from .job import Job
from .report import print_report
from .source import FLIGHTS, Source, look_through

QUEUES = 8
_WIDTH_OF_FILES = 100


class Options(NamedTuple):
    """What can be asked for on the command line."""

    source: Path
    tags: str | None
    keys: str | None
    namesrv_port: int | None
    broker_port: int | None
    data: Path | None
    keep: bool


_PORT = click.IntRange(1, 65535)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--input", "source", type=Path, default=FLIGHTS, help="A CSV file with a header, or a file of JSON lines.")
@click.option("--tags", metavar="COLUMN", help="Where tags come from. Default: the first column of few different words.")
@click.option("--keys", metavar="COLUMN", help="Where keys come from. Default: the first column of unique values.")
@click.option("--namesrv-port", type=_PORT, metavar="N", help="Default: a free one.")
@click.option("--broker-port", type=click.IntRange(3, 65535), metavar="N", help="Default: a free one. N-2 is used too.")
@click.option("--data", type=Path, metavar="FOLDER", help="Where the data folder is made. Default: with temporary files.")
@click.option("--keep", is_flag=True, help="Leave the data folder: store, configuration, logs.")
def main(**options: Any) -> None:
    """A name server and a broker take every row of a file through a topic, to three consumers."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH_OF_FILES)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        sys.exit(runner.run(_until_signal(_demo(console, Options(**options)))))


async def _demo(console: Console, options: Options) -> int:
    try:
        return 0 if await _run(console, options) else 1
    except DemoError as error:
        _fail(str(error), error.details)
    except RocketMQError as error:
        _fail(str(error))
    return 1


async def _run(console: Console, options: Options) -> bool:
    """Everything, in order. Returns whether it went well. Raises ``DemoError``, ``RocketMQError``."""
    source = look_through(options.source, tags=options.tags, keys=options.keys)
    _say_source(console, source)
    with data_folder(options.data, keep=options.keep) as folder:
        _log_to(folder / "demo.log")
        async with Daemons.started(folder, options.namesrv_port, options.broker_port) as daemons:
            _say_daemons(console, daemons)
            good = await daemons.watch(_main_job(console, source, daemons.namesrv_address))
        console.print(f"\nName server and broker are stopped{f', the data is in {folder}' if options.keep else ''}.")
    return good


async def _main_job(console: Console, source: Source, namesrv: str) -> bool:
    topic, queues = source.name, str(QUEUES)
    await mqadmin(console, "updateTopic", "-n", namesrv, "-c", CLUSTER_NAME, "-t", topic, "-r", queues, "-w", queues)
    outcome = await Job(namesrv, topic, source).run(console)
    good = print_report(console, source, outcome)
    for group in (outcome.everyone, outcome.filtered):
        await mqadmin(console, "consumerProgress", "-n", namesrv, "-g", group.name)
    return good


def _say_daemons(console: Console, daemons: Daemons) -> None:
    for daemon, address in ((daemons.namesrv, daemons.namesrv_address), (daemons.broker, daemons.broker_address)):
        console.print(f"Started the {daemon.title} on {address}, pid {daemon.pid}.")
    console.print(f"Store, configuration and logs are in {daemons.folder}.", markup=False, soft_wrap=True)


def _say_source(console: Console, source: Source) -> None:
    columns, tags = source.columns, source.tag_counts
    console.print(f"{source.path.name}: {source.rows:,} rows", soft_wrap=True, markup=False)
    if columns.tags:
        console.print(f"Tags come from the column {columns.tags} ({len(tags)} different).", soft_wrap=True, markup=False)
    else:
        console.print("No column suits as tags: rows are tagged odd and even by their number.")
    if columns.keys:
        console.print(f"Keys come from the column {columns.keys}.", soft_wrap=True, markup=False)
    else:
        console.print("No column suits as keys: the key of a row is its line.")
    if source.bad_rows:
        console.print(f"{source.bad_rows:,} rows are left out:", markup=False)
        for bad in source.first_bad_rows:
            console.print(f"  line {bad.line}: {bad.why}", soft_wrap=True, markup=False)
        if source.bad_rows > len(source.first_bad_rows):
            console.print("  ...")


def _log_to(path: Path) -> None:
    """What the client logs goes to a file, the screen is ours."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


async def _until_signal(work: Coroutine[None, None, int]) -> int:
    """The exit code of the work; a signal cancels it, and whatever it has started is stopped on the way out."""
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        _fail(f"interrupted by {received[0].name}, everything is stopped")
        return 128 + received[0]


def _fail(problem: str, details: str = "") -> None:
    print(f"demo: {problem}", *([details] if details else []), sep="\n", file=sys.stderr)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


if __name__ == "__main__":
    main()
