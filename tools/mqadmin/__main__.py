"""``mqadmin <command> [options]``, also ``python -m aiorocketmq.tools.mqadmin``.

Exit codes: 0 done; 1 a failure, 2 a wrong command line, with one line on standard error; 130
interrupted. ``--compat-exit`` gives the original's: 0 for a failure, 1 for a wrong command line.

Shell completion: ``eval "$(mqadmin completion bash)"``, or ``zsh``, or ``mqadmin completion fish |
source``.
"""

from __future__ import annotations

from ...daemon import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import atexit
import difflib
import gc
import logging
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import get_completion_class, shell_complete

from ...daemon.version import version_option
from .catalog import CATALOG, Entry, find, load
from .command import COMPAT_EXIT, COMPAT_EXIT_VARIABLE, EXIT_FAILED, EXIT_USAGE
from .shell import one_line

EXIT_INTERRUPTED = 130
COMPLETION_VARIABLE = "_MQADMIN_COMPLETE"
"""Set by the shell when it wants to know how a word may go on."""


class MqAdmin(click.Group):
    """The command line: ``help``, or one of the commands of the catalog."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [entry.name for entry in CATALOG]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in ("help", "completion"):
            return _help if cmd_name == "help" else _completion
        return load(_entry(cmd_name))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (
            BrokenPipeError
        ):  # whoever reads what is printed has enough: click would call that a failure
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - nothing to say at the exit either
            return 0

    def get_help(self, ctx: click.Context) -> str:
        lines = ["mqadmin <command> [options], the commands are:"]
        lines += [f"   {entry.name:<20} {entry.summary}" for entry in CATALOG]
        return "\n".join(
            [
                *lines,
                "",
                "mqadmin help <command> shows the options of a command, mqadmin completion "
                "bash|zsh|fish completes them",
            ]
        )


class UnknownCommand(click.ClickException):
    """No command of that name."""


@click.command("help", add_help_option=False)
@click.argument("name", required=False)
@click.pass_context
def _help(ctx: click.Context, name: str | None) -> None:
    parent = ctx.parent
    assert parent is not None
    if name is None or name == "help":
        click.echo(parent.get_help())
        return
    command = load(_entry(name))
    with command.make_context(command.name, [], parent=parent, resilient_parsing=True) as own:
        click.echo(command.get_help(own))


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def _completion(shell: str) -> None:
    """Print what makes a shell complete names of commands and options."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(_root, {}, "mqadmin", COMPLETION_VARIABLE).source())


@click.group(
    "mqadmin",
    cls=MqAdmin,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.pass_context
def _root(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


_root.params.append(version_option())


def _entry(name: str) -> Entry:
    """Raises ``UnknownCommand``."""
    entry = find(name)
    if entry is None:
        similar = difflib.get_close_matches(
            name.lower(), [known.name.lower() for known in CATALOG], n=1
        )
        hint = f"; did you mean {known.name}?" if similar and (known := find(similar[0])) else ""
        raise UnknownCommand(f"there is no command {name}{hint}")
    return entry


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        return shell_complete(_root, {}, "mqadmin", COMPLETION_VARIABLE, instruction)
    try:
        return int(_root.main(list(arguments), prog_name="mqadmin", standalone_mode=False) or 0)
    except click.ClickException as error:
        return _refuse(error, arguments)
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED


def _refuse(error: click.ClickException, arguments: Sequence[str]) -> int:
    """Say in one line what is wrong with the command line."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    problem = error.format_message()
    known = ctx is not None and ctx.parent is not None
    name = f"mqadmin {ctx.info_name}" if ctx is not None and known else "mqadmin"
    if ctx is not None and known:
        hint = f" (mqadmin help {ctx.info_name} shows the options)"
    elif isinstance(error, click.NoSuchOption):
        problem = error.message  # without a guess: --help and --version are all that there is
        hint = " (options stand behind the command: mqadmin topicList --json)"
    else:
        hint = ""
    print(f"{name}: {one_line(problem)}{hint}", file=sys.stderr)
    if COMPAT_EXIT in arguments or os.environ.get(COMPAT_EXIT_VARIABLE):
        return 0 if isinstance(error, UnknownCommand) else EXIT_FAILED
    return EXIT_USAGE


def main() -> None:
    """Console script ``mqadmin``."""
    atexit.register(
        gc.freeze
    )  # the exit need not look through all that was imported: a fifth of a short command
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    # What goes wrong is printed; the client's warnings on top of that would say it twice.
    logging.getLogger(__package__.partition(".")[0]).setLevel(logging.ERROR)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
