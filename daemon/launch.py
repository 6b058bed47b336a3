"""What the command lines of the daemons share: options made from Records, logging, event loop,
signals, exit codes.

A daemon is described by a ``Daemon``: its Records (every property of them is an option
``--brokerName=...``, so nothing is written twice) and one coroutine that serves until it is
cancelled. ``main`` does the rest:

* a value comes from the command line, else from the file given with ``-c``, else from the Record's
  default;
* an unknown name in the file is logged, a value that its property cannot take refuses to start;
* SIGTERM, SIGINT and SIGHUP (its terminal is gone; not under ``nohup``) cancel the coroutine, which
  cleans up in its ``finally``; a second SIGINT ends the process at once;
* it may have as many files and connections open as the system allows it to (``descriptors``);
* exit code 0 after a clean stop; 1 after one line that says what failed, 2 where that is the
  command line. Only a bug leaves a traceback.

One file: from the command line to the exit code it is one sequence.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import click

from ..remoting.errors import RocketMQError
from ..remoting.file_mode import FileMode, files_are
from ..remoting.protocol.java_properties import (
    Property,
    PropertyError,
    choices,
    enum_type_of,
    parse_properties,
    record_from_properties,
    record_to_properties,
)
from ..remoting.protocol.wire import Field, Record, fields_of
from ..remoting.transport.config import ServerConfig
from ..remoting.transport.tls import TlsSettingsError
from .descriptors import raise_limit
from .event_loop import new_event_loop
from .logs import FORMS, LEVELS, LogFile, set_up_logging
from .persist import read_file
from .pid_files import rocketmq_home
from .programs import folder_not_in_path
from .property_texts import help_text
from .version import version_option

R = TypeVar("R", bound=Record)
log: Final = logging.getLogger(__name__)

COMMAND_LINE = "command line"
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
"""The command line is wrong, or the ``-c`` file that it names."""


class LaunchError(Exception):
    """The daemon cannot start or go on; the text is one line that says why and what to do."""


class SettingsError(LaunchError):
    """It will not start before the command line, or the ``-c`` file, is another one."""


class Settings:
    """The Records of a daemon, filled from the command line and the ``-c`` file."""

    def __init__(
        self,
        record_types: Sequence[type[Record]],
        properties: Iterable[Property] = (),
        *,
        aliases: Mapping[str, str] = MappingProxyType({}),
        config_file: str | None = None,
    ) -> None:
        """Raises ``PropertyError`` for a value that its property cannot take."""
        self.properties: list[Property] = list(properties)
        self.config_file = config_file
        readings = [
            record_from_properties(kind, self.properties, aliases=aliases) for kind in record_types
        ]
        self._records = {type(reading.record): reading.record for reading in readings}
        self.unknown: list[Property] = [
            found for found in self.properties if all(found in r.unknown for r in readings)
        ]
        """What no Record has."""
        self.renamed: list[Property] = [
            found for found in self.properties if any(found in r.renamed for r in readings)
        ]

    def __getitem__(self, record_type: type[R]) -> R:
        record = self._records[record_type]
        assert isinstance(record, record_type)
        return record

    @property
    def file_mode(self) -> FileMode:
        """Of what the daemon writes."""
        servers = [record for record in self._records.values() if isinstance(record, ServerConfig)]
        return servers[0].file_mode if servers else FileMode.OWNER

    def file_properties_beyond(self, record_type: type[Record]) -> dict[str, str]:
        """What stands in the ``-c`` file and is no property of this Record: to be kept when the
        file is written again."""
        own = {field.wire_name for field in fields_of(record_type)}
        return {
            p.name: p.value
            for p in self.properties
            if p.source != COMMAND_LINE and p.name not in own
        }

    def unsaid(self, names: Iterable[str]) -> frozenset[str]:
        """Those of which neither the command line nor the file says anything."""
        return frozenset(names) - {found.name for found in self.properties}

    def as_properties(self) -> dict[str, str]:
        """Every property of every Record."""
        return {
            name: value
            for record in self._records.values()
            for name, value in record_to_properties(record).items()
        }


class Daemon(NamedTuple):
    """What ``main`` needs to know of a daemon."""

    name: str
    """The program, as people type it: ``mqnamesrv``."""
    summary: str
    records: tuple[type[Record], ...]
    serve: Callable[[Settings], Awaitable[None]]
    """Works until it is cancelled and cleans up in ``finally``."""
    aliases: Mapping[str, str] = MappingProxyType({})
    """Other spellings of property names."""
    important: frozenset[str] | None = None
    """The properties that ``-m`` prints; ``None``: there is no ``-m``."""
    operating_errors: tuple[type[Exception], ...] = ()
    """Errors besides our own and ``OSError`` that are no bugs, so that one line is enough."""
    settings_errors: tuple[type[Exception], ...] = ()
    """Those of them that come again until the settings are others."""


def main(daemon: Daemon, arguments: Sequence[str] | None = None) -> int:
    """Run a daemon from its command line; returns the exit code."""
    if sys.platform == "win32":
        return _fail(
            daemon,
            "needs a POSIX system (file locks, reserved disk space); on Windows run it under WSL",
        )
    try:
        command = command_of(daemon)
        with command.make_context(
            daemon.name, list(sys.argv[1:] if arguments is None else arguments)
        ) as ctx:
            settings = _settings_from(daemon, command, ctx.params)
            if ctx.params["print_all"] or ctx.params.get("print_important"):
                _print_settings(settings, None if ctx.params["print_all"] else daemon.important)
                return 0
            params = ctx.params
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        text = f"{error.format_message()} ({daemon.name} -h shows the options)"
        return _fail(daemon, text, EXIT_USAGE)
    except BrokenPipeError:  # whoever reads what is printed has enough
        return 0
    except (SettingsError, PropertyError) as error:
        return _fail(daemon, describe(error), EXIT_USAGE)
    except OSError as error:
        return _fail(daemon, describe(error))
    with files_are(settings.file_mode):
        try:
            _set_up_logging(params)
        except OSError as error:
            return _fail(daemon, describe(error))
        return run(daemon, settings)


def run(daemon: Daemon, settings: Settings) -> int:
    """Serve on a fresh event loop until a signal comes or something fails; returns the exit
    code."""
    raise_limit()
    operating: tuple[type[Exception], ...] = (
        RocketMQError,
        LaunchError,
        PropertyError,
        OSError,
        *daemon.operating_errors,
    )
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve_until_signal(daemon, settings))
    except operating as error:
        is_usage = isinstance(
            error, (SettingsError, PropertyError, TlsSettingsError, *daemon.settings_errors)
        )
        return _fail(daemon, describe(error), EXIT_USAGE if is_usage else EXIT_FAILED)
    except BaseExceptionGroup as group:
        rest = group.split(operating)[1]
        if rest is not None:
            raise rest from None
        return _fail(daemon, "; ".join(describe(error) for error in _leaves(group)))
    return 0


def read_properties_file(path: str) -> list[Property]:
    """The properties of a file. Raises ``SettingsError`` when there is none, ``OSError``,
    ``PropertyError``."""
    try:
        text = read_file(path)
    except IsADirectoryError as error:
        raise SettingsError(describe(error)) from None
    if text is None:
        raise SettingsError(f"there is no configuration file {path}")
    return parse_properties(text, path)


def describe(error: BaseException) -> str:
    """An operating error in one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def command_of(daemon: Daemon) -> click.Command:
    """The command line of a daemon, derived from its Records."""
    options = [
        click.Option(
            ["-c", "--configFile", "config_file"], metavar="FILE", help="Properties to start with."
        ),
        click.Option(
            ["-n", "--namesrvAddr", "namesrv_addr"], metavar="HOST:PORT;...", help="Name servers."
        ),
        click.Option(
            ["-p", "--printConfigItem", "print_all"],
            is_flag=True,
            help="Print all properties and exit.",
        ),
    ]
    if daemon.important is not None:
        text = "Print the important properties and exit."
        options.append(
            click.Option(
                ["-m", "--printImportantConfig", "print_important"], is_flag=True, help=text
            )
        )
    options.append(version_option())
    properties = [
        option for kind in daemon.records for option in _property_options(kind, daemon.aliases)
    ]
    params: list[click.Parameter] = [*options, *_log_options(), *properties]
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
    return _DaemonCommand(
        daemon.name, params=params, help=daemon.summary, context_settings=settings
    )


def _log_options() -> list[click.Option]:
    levels, forms = (
        click.Choice(LEVELS, case_sensitive=False),
        click.Choice(FORMS, case_sensitive=False),
    )
    default = LogFile("")
    return [
        click.Option(
            ["--logLevel", "log_level"],
            type=levels,
            default="INFO",
            help="What to log.",
            show_default=True,
        ),
        click.Option(
            ["--logFormat", "log_format"],
            type=forms,
            default="text",
            help="Lines to read, or JSON.",
            show_default=True,
        ),
        click.Option(
            ["--logFile", "log_file"],
            metavar="FILE",
            help="Log into this file instead of standard error.",
        ),
        click.Option(
            ["--logFileMaxBytes", "log_max_bytes"],
            type=click.IntRange(0),
            default=default.max_bytes,
            help="Size at which it is rotated; 0: never.",
            show_default=True,
        ),
        click.Option(
            ["--logFileBackups", "log_backups"],
            type=click.IntRange(1),
            default=default.backups,
            help="Older log files to keep.",
            show_default=True,
        ),
    ]


def _set_up_logging(params: Mapping[str, Any]) -> None:
    path = params["log_file"]
    file = LogFile(path, params["log_max_bytes"], params["log_backups"]) if path else None
    set_up_logging(params["log_level"], form=params["log_format"], file=file)


class _PropertyOption(click.Option):
    """One property of a Record; ``property_name`` is its name in files."""

    def __init__(
        self, property_name: str, shown: str, *, text: Callable[[], str] = str, **more: Any
    ) -> None:
        """``text``: what ``--help`` says; every start does without it."""
        super().__init__([f"--{shown}", f"property_{shown.replace('.', '_')}"], **more)
        self.property_name = property_name
        self._text = text

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = self._text()
        return super().get_help_record(ctx)


class _DaemonCommand(click.Command):
    """Help with the properties in a section of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        params = self.get_params(ctx)
        properties = [p.get_help_record(ctx) for p in params if isinstance(p, _PropertyOption)]
        options = [p.get_help_record(ctx) for p in params if not isinstance(p, _PropertyOption)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in options if record])
        with formatter.section("Properties, also names in the file given with -c"):
            formatter.write_dl([record for record in properties if record])


def _property_options(
    record_type: type[Record], aliases: Mapping[str, str]
) -> Iterator[click.Option]:
    defaults = record_to_properties(record_type())
    for field in fields_of(record_type):
        if field.wire_name == "namesrvAddr":  # has -n
            continue
        default = defaults.get(field.wire_name, "")
        text = functools.partial(_help_text, record_type, field, default)
        yield _PropertyOption(field.wire_name, field.wire_name, metavar=_metavar(field), text=text)
        for alias in (alias for alias, name in aliases.items() if name == field.wire_name):
            yield _PropertyOption(alias, alias, hidden=True)


def _help_text(record_type: type[Record], field: Field, default: str) -> str:
    return " ".join(
        filter(None, (help_text(record_type, field), f"[{default}]" if default else ""))
    )


def _metavar(field: Field) -> str:
    enum = enum_type_of(field)
    if enum is not None:
        return "|".join(choices(enum))
    return {bool: "true|false", int: "N", float: "X"}.get(field.kind, "TEXT")


def _settings_from(daemon: Daemon, command: click.Command, params: Mapping[str, Any]) -> Settings:
    properties = read_properties_file(params["config_file"]) if params["config_file"] else []
    for option in command.params:
        value = params.get(option.name or "")
        if isinstance(option, _PropertyOption) and value is not None:
            properties.append(Property(option.property_name, value, COMMAND_LINE))
    if params["namesrv_addr"] is not None and _has(daemon.records, "namesrvAddr"):
        properties.append(Property("namesrvAddr", params["namesrv_addr"], COMMAND_LINE))
    return Settings(
        daemon.records, properties, aliases=daemon.aliases, config_file=params["config_file"]
    )


def _has(record_types: Iterable[type[Record]], name: str) -> bool:
    return any(field.wire_name == name for kind in record_types for field in fields_of(kind))


def _print_settings(settings: Settings, names: frozenset[str] | None) -> None:
    for name, value in settings.as_properties().items():
        if names is None or name in names:
            click.echo(f"{name}={value}")


def report(settings: Settings) -> None:
    """Log what a user may not expect of the settings: a daemon does it behind its first line."""
    if "ROCKETMQ_HOME" not in os.environ and all(
        p.name != "rocketmqHome" for p in settings.properties
    ):
        log.info("ROCKETMQ_HOME is not set, going on with home=%s", rocketmq_home())
    if folder := folder_not_in_path():
        log.info("mqadmin, mqstore and the others are not in PATH but in folder=%s", folder)
    for found in settings.renamed:
        log.info(
            "property taken under another spelling of its name name=%s place=%s",
            found.name,
            found.place,
        )
    for found in settings.unknown:
        log.warning("unknown property ignored name=%s place=%s", found.name, found.place)


async def _serve_until_signal(daemon: Daemon, settings: Settings) -> None:
    received: list[signal.Signals] = []
    task = asyncio.current_task()
    assert task is not None

    def stop(number: signal.Signals) -> None:
        if not received:
            log.info("stopping signal=%s", number.name)
            task.cancel()
        elif number is signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        received.append(number)

    with _signals_go_to(stop):
        try:
            await daemon.serve(settings)
        except asyncio.CancelledError:
            if not received:
                raise
    log.info("stopped")


@contextmanager
def _signals_go_to(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Those that ask to stop, on the event loop; on Windows, whose loops cannot, from the
    interpreter's handler."""
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    try:
        for number in numbers:
            loop.add_signal_handler(number, stop, number)
    except NotImplementedError:
        for number in numbers:
            signal.signal(
                number,
                lambda n, _frame: loop.call_soon_threadsafe(stop, signal.Signals(n)) and None,
            )
        yield
        return
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _fail(daemon: Daemon, problem: str, code: int = EXIT_FAILED) -> int:
    click.echo(f"{daemon.name}: {problem}", err=True)
    return code
