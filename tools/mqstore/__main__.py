"""``mqstore <command> DIR``, also ``python -m aiorocketmq.tools.mqstore``.

Exit codes: 0 done, and nothing is wrong; 1 damage was found; 2 the directory, the command line or
the machine does not allow it, with one line on standard error; 130 interrupted.
"""

from __future__ import annotations

from ...daemon import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import atexit
import gc
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from ...daemon.launch import LaunchError
from ...daemon.printable import printable, printable_json
from ...daemon.version import version_option
from ...remoting.file_mode import files_are_as_open_as
from ...remoting.protocol.java_properties import PropertyError
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.transport.tls import TlsError
from ...store.inspect import StoreDirectory
from ...store.model.config import MessageStoreConfig
from ...store.model.errors import StoreError
from ..fitted_table import print_fitted
from . import parquet, selection, summary, verify
from .arguments import (
    Address,
    chosen_messages,
    json_option,
    levels_option,
    log_option,
    slots_option,
    store_argument,
)
from .mend import mend
from .rebuild import RebuildSettings, copy_store, rebuild, report_lines
from .repair import repair, replica_at

EXIT_DAMAGED: Final = 1
EXIT_UNUSABLE: Final = 2
EXIT_INTERRUPTED: Final = 130
_ROWS_ON_TERMINAL: Final = 100
_BODY_ON_TERMINAL: Final = 60


class MqStore(click.Group):
    """Whoever reads what is printed may have enough before the end: click would call that a failure
    (1: damage)."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - nothing to say at the exit either
            return 0


@click.group(
    "mqstore",
    cls=MqStore,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.pass_context
def _root(ctx: click.Context) -> None:
    """Look into a store directory of RocketMQ 4.9 or aiorocketmq. Only rebuild, mend, repair and
    export write anything."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


_root.params.append(version_option())


@_root.command()
@store_argument
@log_option
@json_option
def info(directory: Path, commit_log: tuple[Path, ...], as_json: bool) -> int:
    """Files, topics and queues with their offsets, checkpoint."""
    _warn_of_entries(StoreDirectory(directory, commit_log))
    found = summary.summary(directory, commit_log)
    for line in [printable_json(found)] if as_json else summary.as_text(found):
        click.echo(line)
    return EXIT_DAMAGED if found["problems"] else 0


@_root.command()
@store_argument
@log_option
@chosen_messages
@json_option
def cat(directory: Path, commit_log: tuple[Path, ...], as_json: bool, **chosen: Any) -> int:
    """Messages in the order of the commit log: a table on a terminal, else a line of JSON each."""
    warnings = _Warnings()
    _warn(directory, commit_log)
    terminal = sys.stdout.isatty() and not as_json
    limited = terminal and chosen["limit"] is None
    if limited:
        chosen["limit"] = _ROWS_ON_TERMINAL + 1
    messages = selection.select(directory, selection.Selection(**chosen), warnings, commit_log)
    if terminal:
        _print_table(itertools.islice(messages, _ROWS_ON_TERMINAL) if limited else messages)
        if limited and next(messages, None) is not None:
            click.echo(f"the first {_ROWS_ON_TERMINAL}; --limit shows more", err=True)
    else:
        for message in messages:
            click.echo(printable_json(selection.described(message)))
    return EXIT_DAMAGED if warnings.count else 0


@_root.command("verify")
@store_argument
@log_option
@levels_option
@slots_option
def verify_command(
    directory: Path, commit_log: tuple[Path, ...], delay_levels: str | None, slots: int | None
) -> int:
    """Every record, every consume queue entry and every index item against each other."""
    _warn(directory, commit_log)
    with _progress("verifying") as (advance, tell):
        verdict = verify.verify(
            directory,
            tell,
            delay_levels=delay_levels,
            slots=slots,
            commit_log=commit_log,
            progress=advance,
        )
    click.echo(str(verdict))
    return EXIT_DAMAGED if verdict.findings else 0


@_root.command("rebuild")
@store_argument
@log_option
@click.option(
    "--to", "copy", type=click.Path(path_type=Path), help="Leave DIRECTORY alone, rebuild a copy"
)
@levels_option
@slots_option
@click.option(
    "--items", type=click.IntRange(2), help="maxIndexNum of the broker, if it was changed"
)
@click.option(
    "--queue-file-size",
    type=click.IntRange(20),
    help="mappedFileSizeConsumeQueue of the broker, if it was changed",
)
@click.option(
    "--index/--no-index",
    "with_index",
    default=True,
    help="Rebuild the index too (it is by default)",
)
def rebuild_command(
    directory: Path,
    commit_log: tuple[Path, ...],
    copy: Path | None,
    delay_levels: str | None,
    **sizes: Any,
) -> int:
    """Make consume queues and index anew from the commit log. Stop the broker first."""
    settings = RebuildSettings(delay_levels=delay_levels or verify.DELAY_LEVELS, **sizes)
    if settings.queue_file_size is not None and settings.queue_file_size % 20:
        raise click.UsageError("--queue-file-size must be a multiple of 20")
    with files_are_as_open_as(directory):
        if copy is not None:
            StoreDirectory(directory, commit_log).log_files()  # the error when there is none
            _warn(directory, commit_log)
            settings = settings.as_in(directory)
            copy_store(directory, copy, commit_log)
            commit_log = ()
        with _progress("rebuilding") as (advance, _):
            rebuilt = rebuild(copy or directory, settings, advance, commit_log, directory)
    for line in report_lines(rebuilt):
        click.echo(line)
    return EXIT_DAMAGED if rebuilt.damaged else 0


@_root.command()
@store_argument
@log_option
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@chosen_messages
def export(directory: Path, commit_log: tuple[Path, ...], file: Path, **chosen: Any) -> int:
    """Messages into a Parquet file."""
    warnings = _Warnings()
    _warn(directory, commit_log)
    count = parquet.export(
        selection.select(directory, selection.Selection(**chosen), warnings, commit_log), file
    )
    click.echo(f"{count} messages in {printable(str(file))}")
    return EXIT_DAMAGED if warnings.count else 0


@_root.command("mend")
@store_argument
@log_option
@click.option(
    "--file-size", type=click.IntRange(1), default=MessageStoreConfig().mapped_file_size_commit_log,
    help="mappedFileSizeCommitLog of the broker, if it was changed (only asked when no file is "
         "left)",
)  # fmt: skip
def mend_command(directory: Path, commit_log: tuple[Path, ...], file_size: int) -> int:
    """Have a broker start again where files of the commit log are lost for good: with what is left.
    Deletes nothing."""
    with files_are_as_open_as(directory):
        lines = mend(directory, commit_log, file_size=file_size)
    for line in lines or ["no file of the commit log is missing"]:
        click.echo(line)
    return 0


@_root.command("repair")
@store_argument
@log_option
@click.option(
    "--from", "address", type=Address(), required=True, metavar="HOST:PORT",
    help="Of another replica's port for slaves (haListenPort), also of a Java broker",
)  # fmt: skip
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False),
    help="The broker's, if it says haSecret or tls.server.mode",
)
def repair_command(
    directory: Path, commit_log: tuple[Path, ...], address: tuple[str, int], config_file: str | None
) -> int:
    """Fetch what is damaged in the commit log from another replica. Stop this broker first."""
    try:
        replica = replica_at(address, config_file)
    except (LaunchError, PropertyError, TlsError) as error:
        raise click.ClickException(str(error)) from error
    with _progress("looking") as (advance, tell):
        repaired = repair(directory, replica, tell, commit_log, advance)
    click.echo(str(repaired))
    return EXIT_DAMAGED if repaired.left else 0


class _Warnings:
    """Damage that ``cat`` and ``export`` come across."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, text: str) -> None:
        self.count += 1
        click.echo(f"mqstore: {text}", err=True)


def _warn(directory: Path, commit_log: tuple[Path, ...]) -> None:
    """Of what makes the rest look odd."""
    store = StoreDirectory(directory, commit_log)
    _warn_of_entries(store)
    if store.is_locked:
        click.echo(
            "mqstore: a broker has this store open: what it is writing right now may look "
            "unfinished",
            err=True,
        )


def _warn_of_entries(store: StoreDirectory) -> None:
    folder = store.member_folder
    if folder is not None and store.lacks_entries:
        text = (
            f"the entries of {folder.name} are not here: name their folder with --commit-log "
            "(storePathDLedgerCommitLog), and that of an older log beside it"
        )
        click.echo(f"mqstore: {printable(text)}", err=True)


def _print_table(messages: Iterator[MessageExt]) -> None:
    rows = []
    for message in messages:
        row = selection.described(message)
        body = row["body"] if "body" in row else f"base64:{row['bodyBase64']}"
        cells = (
            message.topic,
            str(message.queue_id),
            str(message.queue_offset),
            summary.time_text(message.store_timestamp),
            message.tags or "",
            " ".join(message.keys),
            body
            if len(body) <= _BODY_ON_TERMINAL
            else f"{body[:_BODY_ON_TERMINAL]}… ({len(body)})",
        )
        rows.append([*map(printable, cells)])
    print_fitted(sys.stdout, ("topic", "queue", "offset", "stored", "tags", "keys", "body"), rows)


@contextmanager
def _progress(title: str) -> Iterator[tuple[Callable[[int, int], None], Callable[[str], None]]]:
    """How far it is, and a way to print lines meanwhile; without a terminal only the lines."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        yield lambda done, total: None, click.echo
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        "{task.description}",
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
    )
    with Progress(*columns, TimeRemainingColumn(), transient=True) as progress:
        task = progress.add_task(title)
        yield (
            lambda done, total: progress.update(task, completed=done, total=total),
            lambda line: progress.console.print(
                line, markup=False, highlight=False, soft_wrap=True
            ),
        )


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    try:
        return int(_root.main(list(arguments), prog_name="mqstore", standalone_mode=False) or 0)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "mqstore"
        return _refuse(
            f"{error.format_message()} ({command} -h shows "
            f"{'the options' if ' ' in command else 'the commands'})"
        )
    except click.ClickException as error:
        return _refuse(error.format_message())
    except (StoreError, parquet.PyarrowMissing) as error:
        return _refuse(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = "; is this a store directory?" if isinstance(error, FileNotFoundError) else ""
        return _refuse(f"{where}{error.strerror or error}{hint}")
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED


def _refuse(problem: str) -> int:
    print(printable(f"mqstore: {' '.join(problem.split())}"), file=sys.stderr)
    return EXIT_UNUSABLE


def main() -> None:
    """Console script ``mqstore``."""
    atexit.register(
        gc.freeze
    )  # the exit need not look through all that was imported: a fifth of a short command
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    logging.getLogger(__package__.partition(".")[0]).setLevel(
        logging.CRITICAL
    )  # what goes wrong is printed
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
