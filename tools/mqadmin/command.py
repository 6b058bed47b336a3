"""What a command of ``mqadmin`` is made of: its options, and the coroutine that does it.

::

    @command("topicStatus")
    @topic_option
    async def topic_status(shell: Shell, topic: str) -> None:
        async with shell.admin() as admin:
            ...

Options that belong together come as one value, made by ``grouped``::

    @command("updateSubGroup")
    @broker_address_option
    ...                                          # -s, -m, ... under the names of its fields
    @grouped("config", SubscriptionGroupConfig)
    async def update_sub_group(
        shell: Shell, broker_addr: str | None, config: SubscriptionGroupConfig
    ) -> None: ...

``-h``, ``-n``, ``--wait``, ``--compat-exit`` and the options of the log come by themselves,
``--json`` with ``json=True``, ``--watch`` with ``watch=True``. Errors that using RocketMQ can raise
become one line on standard error.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

import click

from ...client.cluster.server_addresses import parse_addresses
from ...daemon.logs import FORMS, LEVELS, set_up_logging
from ...remoting.errors import RocketMQError
from ...remoting.transport.address import split_address
from .java_text import parse_time
from .output import Output
from .patience import WAIT_S
from .shell import Shell, WrongUsage

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
COMPAT_EXIT: Final = "--compat-exit"
COMPAT_EXIT_VARIABLE: Final = "MQADMIN_COMPAT_EXIT"
TLS_CONFIG_VARIABLE: Final = "MQADMIN_TLS_CONFIG"
WAIT_VARIABLE: Final = "MQADMIN_WAIT"
USAGE_WIDTH: Final = 110

Handler = Callable[..., Awaitable[None]]


class Text(click.ParamType[str]):
    """Text without blanks around it; nothing at all is refused."""

    name = "text"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        text = str(value).strip()
        if not text:
            self.fail("it is empty", param, ctx)
        if not text.isascii() and text != text.encode("utf-8", "replace").decode():
            self.fail("it is no UTF-8", param, ctx)
        return text


class Checked(Text):
    """Text that has to look like something, which a function of the client knows."""

    def __init__(self, check: Callable[[str], object]) -> None:
        """``check`` raises ``RocketMQError`` for what does not."""
        self._check = check

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        text = super().convert(value, param, ctx)
        try:
            self._check(text)
        except RocketMQError as error:
            self.fail(str(error), param, ctx)
        return text


class Boolean(click.ParamType[bool]):
    """``true`` or ``false``."""

    name = "boolean"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> bool:
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text not in ("true", "false"):
            self.fail(f"'{value}' is neither true nor false", param, ctx)
        return text == "true"


class Time(click.ParamType[int]):
    """Milliseconds since 1970, or ``yyyy-MM-dd#HH:mm:ss:SSS`` in local time."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            return parse_time(str(value))
        except ValueError:
            self.fail(
                f"'{value}' is neither a number of milliseconds nor yyyy-MM-dd#HH:mm:ss:SSS",
                param,
                ctx,
            )


class Number(click.IntRange):
    """A whole number, perhaps with limits."""

    name = "number"


TEXT: Final = Text()
BOOLEAN: Final = Boolean()
TIME: Final = Time()

topic_option: Final = click.option("-t", "--topic", required=True, type=TEXT, help="The topic")
broker_address_option: Final = click.option(
    "-b",
    "--brokerAddr",
    "broker_addr",
    type=Checked(split_address),
    help="host:port of one broker",
)
cluster_option: Final = click.option(
    "-c", "--clusterName", "cluster", type=TEXT, help="All brokers of this cluster"
)


class AdminCommand(click.Command):
    """One command: prints its usage in the original's form and turns errors into one line and an
    exit code."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        *,
        params: list[click.Parameter],
        one_of: tuple[str, ...] = (),
        json: bool = False,
        watch: bool = False,
        log_level: str | None = None,
    ) -> None:
        more = [*([_json_option()] if json else []), *([_watch_option()] if watch else [])]
        super().__init__(name, params=[*params, *more, *_common_options()], callback=None)
        self.context_settings: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
        self._handler = handler
        self._one_of = one_of
        self._log_level = log_level

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # some come without saying which command is meant
            raise

    def invoke(self, ctx: click.Context) -> int:
        params = dict(ctx.params)
        compat_exit = params.pop("compat_exit")
        namesrv = params.pop("namesrv_addr")
        log_level, log_format = params.pop("log_level") or self._log_level, params.pop("log_format")
        if log_level is not None:
            set_up_logging(log_level, form=log_format)
        output = Output(
            sys.stdout, terminal=sys.stdout.isatty(), as_json=params.pop("as_json", False)
        )
        watch_s = params.pop("watch_s", None)
        self._check_exclusive(ctx)
        by_option = (
            ctx.get_parameter_source("namesrv_addr") is click.core.ParameterSource.COMMANDLINE
        )
        tls_config = params.pop("tls_config")
        shell = Shell(
            self.name or "",
            namesrv,
            output,
            namesrv_by_option=by_option,
            tls_config=tls_config,
            wait_s=params.pop("wait_s"),
            broker_addr=params.get("broker_addr"),
        )
        exit_code = asyncio.run(_run(shell, self._handler, params, watch_s))
        return 0 if compat_exit else exit_code

    def _check_exclusive(self, ctx: click.Context) -> None:
        given = [name for name in self._one_of if ctx.params[name] is not None]
        if self._one_of and len(given) != 1:
            names = [
                " / ".join(f"'{opt}'" for opt in param.opts)
                for param in self.params
                if param.name in self._one_of
            ]
            problem = (
                "Only one option of these can be given:"
                if given
                else "Missing option, one of these is needed:"
            )
            raise click.UsageError(f"{problem} {' or '.join(names)}.", ctx)

    def get_help(self, ctx: click.Context) -> str:
        """Usage as the original's command line library lays it out: options sorted, exclusive ones
        joined by a bar."""
        params = [
            param
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not param.hidden
        ]
        params.sort(key=lambda param: (_is_ours(param), min(param.opts, key=len).lower()))
        return "\n".join([*self._usage_lines(params), *_option_lines(params)])

    def _usage_lines(self, params: Iterable[click.Option]) -> list[str]:
        exclusive = [param for param in params if param.name in self._one_of]
        parts = [f"usage: mqadmin {self.name}"]
        for param in params:
            if param not in exclusive:
                parts.append(_short_form(param) if param.required else f"[{_short_form(param)}]")
            elif param is exclusive[0]:
                parts.append(" | ".join(_short_form(one) for one in exclusive) + " ")
        return textwrap.wrap(" ".join(parts), USAGE_WIDTH, subsequent_indent=" " * 7)


async def _run(
    shell: Shell, handler: Handler, options: dict[str, Any], watch_s: float | None
) -> int:
    """The exit code; what failed was said then. With ``watch_s`` again and again, whatever
    fails."""
    while True:
        wrong_usage = False
        try:
            await handler(shell, **options)
        except RocketMQError as error:
            wrong_usage = isinstance(error, WrongUsage)
            shell.warn(error)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            shell.warn(f"{error.filename or 'a file'}: {error.strerror or error}")
        if not (shell.out.as_json and shell.failed and shell.out.is_empty):
            shell.out.close()
        if watch_s is None or wrong_usage:
            return EXIT_USAGE if wrong_usage else EXIT_FAILED if shell.failed else 0
        await asyncio.sleep(watch_s)
        shell.out.clear()


def grouped(name: str, make: Callable[..., object]) -> Callable[[Handler], Handler]:
    """Hand over the options that ``make`` (a NamedTuple or a Struct) has parameters for as one
    value of it, ``name``."""
    fields = tuple(inspect.signature(make).parameters)

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        async def call(shell: Shell, **options: Any) -> None:
            values = {field: options.pop(field) for field in fields if field in options}
            await handler(shell, **options, **{name: make(**values)})

        return call

    return decorate


def _is_ours(option: click.Option) -> bool:
    """An option that the original does not have: it has only a long name."""
    return all(name.startswith("--") for name in option.opts)


def _short_form(option: click.Option) -> str:
    name = min(option.opts, key=len)
    return name if option.is_flag else f"{name} <arg>"


def _option_lines(options: Iterable[click.Option]) -> Iterator[str]:
    names = [
        " " + ",".join(sorted(option.opts, key=len)) + ("" if option.is_flag else " <arg>")
        for option in options
    ]
    width = max(map(len, names)) + 3
    for name, option in zip(names, options, strict=True):
        lines = textwrap.wrap(option.help or "", USAGE_WIDTH - width)
        yield name.ljust(width) + (lines[0] if lines else "")
        yield from (" " * width + line for line in lines[1:])


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["-n", "--namesrvAddr", "namesrv_addr"],
            type=Checked(parse_addresses),
            envvar="NAMESRV_ADDR",
            help="Name servers, host:port;host:port (default: the variable NAMESRV_ADDR)",
        ),
        click.Option(
            [COMPAT_EXIT, "compat_exit"],
            is_flag=True,
            envvar=COMPAT_EXIT_VARIABLE,
            help="Exit with 0 even when the command fails, as the original does (also: the "
            "variable "
            f"{COMPAT_EXIT_VARIABLE})",
        ),
        click.Option(
            ["--wait", "wait_s"],
            type=click.FloatRange(0),
            default=WAIT_S,
            envvar=WAIT_VARIABLE,
            help="Wait so many seconds for what is just starting: a name server or the broker of "
            f"-b where nothing listens yet, the first broker of a cluster; {WAIT_S:g}, 0: not at "
            f"all (also: the variable {WAIT_VARIABLE})",
        ),
        click.Option(
            ["--tlsConfig", "tls_config"],
            envvar=TLS_CONFIG_VARIABLE,
            help="Speak TLS, as the properties tls.client.* in this file say (also: the variable "
            f"{TLS_CONFIG_VARIABLE})",
        ),
        click.Option(
            ["--logLevel", "log_level"],
            type=click.Choice(LEVELS, case_sensitive=False),
            help="Log what the client does, on standard error (default: nothing)",
        ),
        click.Option(
            ["--logFormat", "log_format"],
            type=click.Choice(FORMS, case_sensitive=False),
            default="text",
            help="text (key=value) or json",
        ),
    ]


def _json_option() -> click.Option:
    return click.Option(["--json", "as_json"], is_flag=True, help="Print JSON")


def _watch_option() -> click.Option:
    return click.Option(
        ["--watch", "watch_s"],
        type=click.FloatRange(0.1),
        help="Print it again every so many seconds, until interrupted",
    )


def command(
    name: str,
    *,
    one_of: tuple[str, ...] = (),
    json: bool = False,
    watch: bool = False,
    log_level: str | None = None,
) -> Callable[[Handler], AdminCommand]:
    """Make a command of a coroutine ``handler(shell, **options)``; exactly one option of ``one_of``
    must be given.

    ``json``: it prints a table or pairs, and takes ``--json``. ``watch``: it can be repeated by
    ``--watch``. ``log_level``: it tells what it finds in the log.
    """

    def decorate(handler: Handler) -> AdminCommand:
        params = list(reversed(getattr(handler, "__click_params__", [])))
        made = SERVED[name] = AdminCommand(
            name, handler, params=params, one_of=one_of, json=json, watch=watch, log_level=log_level
        )
        return made

    return decorate


SERVED: Final[dict[str, AdminCommand]] = {}
"""Every command whose module was imported."""
