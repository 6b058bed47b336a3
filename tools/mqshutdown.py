"""``mqshutdown namesrv|broker``: ask the daemons of this machine to stop, and wait until they have.

They are found by their PID files (``daemon/pid_files.py``); those of another ROCKETMQ_HOME are left
alone. Exit codes: 0 all stopped; 1 nothing runs, or something did not stop in time; 2 a wrong
command line.
"""

from __future__ import annotations

from ..daemon import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import os
import signal
import time
from typing import Final

import click

from ..daemon.command_line import OneLineCommand
from ..daemon.pid_files import RunningDaemon, command_line, rocketmq_home, running_daemons

ROLES: Final = ("namesrv", "broker", "cluster")
_LOOK_AGAIN_S: Final = 0.05


@click.command(
    "mqshutdown", cls=OneLineCommand, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.argument("role", type=click.Choice(ROLES, case_sensitive=False))
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Only the one that listens on this port."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="How long to wait, in seconds.",
)
@click.pass_context
def main(ctx: click.Context, role: str, port: int | None, timeout: float) -> None:
    """Stop the name servers, the brokers, or what mqcluster started, on this machine."""
    found = [
        daemon
        for daemon in running_daemons(role)
        if port in (None, daemon.port) and _is_of_this_home(daemon)
    ]
    if not found:
        click.echo(f"No mq{role} is running" + (f" on port {port}." if port else "."), err=True)
        ctx.exit(1)
    asked = [daemon for daemon in found if _ask(daemon)]
    stopped = [_wait(daemon, time.monotonic() + timeout) for daemon in asked]
    ctx.exit(0 if len(asked) == len(found) and all(stopped) else 1)


def _is_of_this_home(daemon: RunningDaemon) -> bool:
    """With ROCKETMQ_HOME set, daemons of other homes are left alone.

    A daemon that could not write below its home has its PID file in the fallback folder, like all
    those without a home.
    """
    run_folder = rocketmq_home() / "run"
    existing = next(
        folder for folder in (run_folder, *run_folder.resolve().parents) if folder.exists()
    )
    return daemon.path.parent == run_folder or not os.access(existing, os.W_OK)


def _ask(daemon: RunningDaemon) -> bool:
    """Whether SIGTERM could be sent; what keeps it from being sent is said."""
    click.echo(f"The mq{daemon.role}({daemon.pid}) on port {daemon.port} is running...")
    try:
        os.kill(daemon.pid, signal.SIGTERM)
    except ProcessLookupError:
        return True  # it ended by itself just now
    except PermissionError:
        click.echo(
            f"The mq{daemon.role}({daemon.pid}) belongs to another user, it was not asked to stop.",
            err=True,
        )
        return False
    click.echo(f"Asked mq{daemon.role}({daemon.pid}) to stop.")
    return True


def _wait(daemon: RunningDaemon, deadline: float) -> bool:
    """Whether it ended in time."""
    while command_line(daemon.pid) is not None:
        if time.monotonic() >= deadline:
            click.echo(
                f"The mq{daemon.role}({daemon.pid}) has not stopped in time; it may still be "
                "writing.",
                err=True,
            )
            return False
        time.sleep(_LOOK_AGAIN_S)
    click.echo(f"The mq{daemon.role}({daemon.pid}) has stopped.")
    return True


if __name__ == "__main__":
    main()
