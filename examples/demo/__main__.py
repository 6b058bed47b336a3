"""``python -m examples.demo``: start a cluster, send every row of a file, receive it, say how it
went, stop everything."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console

from .commands import mqadmin, until_known
from .console_step import console_step
from .daemons import CLUSTER_NAME, Daemons, data_folder
from .job import Job
from .program import run_program
from .report import print_report
from .source import FLIGHTS, Source, look_through
from .spark_step import spark_step

QUEUES = 8
_SHOWN_BAD_ROWS = 3
_WIDTH_OF_FILES = 100
_ABOUT_DIFF = (
    "(This difference is no backlog: rows behind the last one that a filter wants are passed over "
    "with the answer to the\n"
    "next pull, which waits up to 15 s for messages.)"
)


class Options(NamedTuple):
    """What can be asked for on the command line."""

    source: Path
    tags: str | None
    keys: str | None
    namesrv_port: int | None
    broker_port: int | None
    data: Path | None
    keep: bool
    spark: bool
    look: bool


_PORT = click.IntRange(1, 65535)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--input",
    "source",
    type=Path,
    default=FLIGHTS,
    help="A CSV file with a header, or a file of JSON lines.",
)
@click.option(
    "--tags",
    metavar="COLUMN",
    help="Where tags come from. Default: the first column of few different words.",
)
@click.option(
    "--keys",
    metavar="COLUMN",
    help="Where keys come from. Default: the first column of unique values.",
)
@click.option("--namesrv-port", type=_PORT, metavar="N", help="Default: a free one.")
@click.option(
    "--broker-port",
    type=click.IntRange(3, 65535),
    metavar="N",
    help="Default: a free one. N-2 is used too.",
)
@click.option(
    "--data",
    type=Path,
    metavar="FOLDER",
    help="Where the data folder is made. Default: with temporary files.",
)
@click.option("--keep", is_flag=True, help="Leave the data folder: store, configuration, logs.")
@click.option(
    "--spark/--no-spark", default=True, help="Count the rows with Spark, too (where it can run)."
)
@click.option(
    "--look/--no-look",
    default=None,
    help="End with the cluster in a browser, until Ctrl-C. Default: on a terminal.",
)
def main(**options: Any) -> None:
    """A name server and a broker take every row of a file through a topic, to three consumers and
    to Spark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a file may have names that this terminal cannot show
    width = None if sys.stdout.isatty() else _WIDTH_OF_FILES
    console = Console(markup=False, highlight=False, width=width)
    if options["look"] is None:
        options["look"] = sys.stdout.isatty()
    sys.exit(run_program("demo", _demo(console, Options(**options))))


async def _demo(console: Console, options: Options) -> int:
    """Everything, in order; returns the exit code. Raises ``DemoError``, ``RocketMQError``."""
    source = look_through(options.source, tags=options.tags, keys=options.keys)
    _say_source(console, source)
    with data_folder(options.data, keep=options.keep) as folder:
        _log_to(folder / "demo.log")
        async with Daemons.started(folder, options.namesrv_port, options.broker_port) as daemons:
            _say_daemons(console, daemons)
            good = await daemons.watch(
                _main_job(console, source, daemons.namesrv_address, folder, spark=options.spark)
            )
            if options.look:
                await daemons.watch(console_step(console, daemons.namesrv_address))
        where = f", the data is in {folder}" if options.keep else ""
        console.print(f"\nName server and broker are stopped{where}.", soft_wrap=True)
    if options.source == FLIGHTS:
        console.print("With your own data: make demo INPUT=file.csv (or .jsonl)")
    return 0 if good else 1


async def _main_job(
    console: Console, source: Source, namesrv: str, folder: Path, *, spark: bool
) -> bool:
    topic, queues = source.name, str(QUEUES)
    await mqadmin(
        console,
        "updateTopic",
        "-n",
        namesrv,
        "-c",
        CLUSTER_NAME,
        "-t",
        topic,
        "-r",
        queues,
        "-w",
        queues,
    )
    outcome = await Job(namesrv, topic, source).run(console)
    good = print_report(console, source, outcome)
    await until_known(namesrv, outcome.everyone.name, outcome.filtered.name)
    await mqadmin(console, "consumerProgress", "-n", namesrv, "-g", outcome.everyone.name)
    progress = await mqadmin(
        console, "consumerProgress", "-n", namesrv, "-g", outcome.filtered.name
    )
    if "Diff Total: 0" not in progress:
        console.print(_ABOUT_DIFF, soft_wrap=True)
    if spark:
        good &= await spark_step(console, namesrv, topic, outcome.sent, folder)
    return good


def _say_daemons(console: Console, daemons: Daemons) -> None:
    for daemon, address in (
        (daemons.namesrv, daemons.namesrv_address),
        (daemons.broker, daemons.broker_address),
    ):
        console.print(f"Started the {daemon.title} on {address}, pid {daemon.pid}.")
    console.print(f"Store, configuration and logs are in {daemons.folder}.", soft_wrap=True)


def _say_source(console: Console, source: Source) -> None:
    columns, tags = source.columns, source.tag_counts
    console.print(f"{source.path.name}: {source.rows:,} rows", soft_wrap=True)
    if columns.tags:
        console.print(
            f"Tags come from the column {columns.tags} ({len(tags)} different).", soft_wrap=True
        )
    else:
        console.print("No column suits as tags: rows are tagged odd and even by their number.")
    if columns.keys:
        console.print(f"Keys come from the column {columns.keys}.", soft_wrap=True)
    else:
        console.print("No column suits as keys: the key of a row is its line.")
    if source.bad_rows:
        console.print(f"{len(source.bad_rows):,} rows are left out:")
        for bad in source.bad_rows[:_SHOWN_BAD_ROWS]:
            console.print(f"  line {bad.line}: {bad.why}", soft_wrap=True)
        if len(source.bad_rows) > _SHOWN_BAD_ROWS:
            console.print("  ...")


def _log_to(path: Path) -> None:
    """What the client logs goes to a file, the screen is ours."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


if __name__ == "__main__":
    main()
