"""``mqconsole``, also ``python -m aiorocketmq.console``: prints one address, and serves it until
Ctrl-C.

Exit codes: 0 ended, 1 a failure, 2 a wrong command line, with one line on standard error.
"""

from __future__ import annotations

from ..daemon import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import sys
from typing import Any, Final

import click

from ..client.program import run
from ..daemon.command_line import OneLineCommand
from ..daemon.logs import FORMS, LEVELS, set_up_logging
from ..remoting.errors import RocketMQError
from ..remoting.protocol.extras import install_command
from .starting import forget_accounts, lines_of, settings_of

LEVEL: Final = click.Choice(LEVELS, case_sensitive=False)
NOT_INSTALLED: Final = (
    f"mqconsole: the packages of its pages are missing: {install_command('console')}"
)


@click.command(
    "mqconsole",
    cls=OneLineCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "-n",
    "--namesrvAddr",
    "namesrv",
    help="Name servers, host:port;host:port. Default: the variable NAMESRV_ADDR.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen. Anything but loopback asks everybody for the token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8199,
    show_default=True,
    help="0 for any.",
)
@click.option(
    "--publicHost",
    "public_hosts",
    multiple=True,
    metavar="[https://]NAME[:PORT]",
    help="What else the console is called, as browsers say it, with https:// where a proxy has TLS "
    "for it; repeatable.",
)
@click.option(
    "--allow-changes",
    "allow_changes",
    is_flag=True,
    help="Let people who have signed in change the cluster. Without it the console only reads.",
)
@click.option(
    "--tokenFile",
    "token_file",
    help="A file with the token that everybody needs. Without it one is made where one is needed, "
    "and printed.",
)
@click.option(
    "--aclFile",
    "acl_files",
    multiple=True,
    help="A file of accounts, as a broker on this machine has it, to be shown without its "
    "secrets; repeatable.",
)
@click.option(
    "--auditFile",
    "audit_file",
    help="Where the line of each change goes. Default: standard error.",
)
@click.option(
    "--tlsConfig",
    "tls_config",
    help="Speak TLS with the cluster, as the properties tls.client.* in this file say.",
)
@click.option("--certFile", "certificate", help="A certificate (PEM): serve HTTPS; with --keyFile.")
@click.option("--keyFile", "key", help="The key of the certificate.")
@click.option("--logLevel", "log_level", type=LEVEL, default="WARNING", show_default=True)
@click.option(
    "--logFormat", "log_format", type=click.Choice(FORMS), default="text", show_default=True
)
def main(log_level: str, log_format: str, **options: Any) -> None:
    """Show a cluster to a browser, and let those who may change it."""
    try:
        from .app import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] == __package__.partition(".")[0]:
            raise
        print(NOT_INSTALLED, file=sys.stderr)
        sys.exit(1)
    set_up_logging(log_level, form=log_format)
    forget_accounts()
    try:
        settings, made = settings_of(**options)
    except RocketMQError as error:
        print(f"mqconsole: {error}", file=sys.stderr)
        sys.exit(2)

    def ready(address: str) -> None:
        for line in lines_of(settings, address, token_made=made):
            print(line, flush=True)

    try:
        run(serve(settings, ready))
    except RocketMQError as error:
        print(f"mqconsole: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
