"""``mqdoctor -n HOST:PORT``, also ``python -m aiorocketmq.doctor``.

Exit codes: 0 nothing is wrong; 1 something is; 2 a wrong command line, with one line on standard
error; 130 interrupted.
"""

from __future__ import annotations

from ...daemon import quiet_interrupt  # noqa: F401  (before all others)

# isort: split
import asyncio
import logging
from pathlib import Path
from typing import Final

import click

from ...client.cluster.server_addresses import ENVIRONMENT_VARIABLE, parse_addresses
from ...client.credentials import credentials_from
from ...client.tls_file import tls_context
from ...daemon.command_line import OneLineCommand, WrongCommandLine
from ...daemon.version import version_text
from ...remoting.errors import RocketMQError
from ...remoting.signature import Credentials
from ..mqadmin.command import TEXT, TLS_CONFIG_VARIABLE
from ..mqadmin.shell import credentials
from .finding import Level
from .findings import findings, what_answers
from .looking import Question, look
from .report import Hider, as_json, as_text

EXIT_INTERRUPTED: Final = 130


@click.command(
    "mqdoctor",
    cls=OneLineCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-n",
    "--namesrvAddr",
    "namesrv",
    type=TEXT,
    envvar=ENVIRONMENT_VARIABLE,
    help="Name servers, host:port;host:port (default: the variable NAMESRV_ADDR).",
)
@click.option("-t", "--topic", type=TEXT, help="Also look who has this topic.")
@click.option("-g", "--groupName", "group", type=TEXT, help="Also look who consumes as this group.")
@click.option(
    "--tlsConfig",
    "tls_config",
    envvar=TLS_CONFIG_VARIABLE,
    help="Speak TLS, as the properties tls.client.* in this file say (also: the variable "
    f"{TLS_CONFIG_VARIABLE}).",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 300),
    default=3.0,
    show_default=True,
    help="How long to wait for each answer, in seconds.",
)
@click.option("--json", "json", is_flag=True, help="Print JSON.")
@click.pass_context
def main(
    ctx: click.Context,
    namesrv: str | None,
    topic: str | None,
    group: str | None,
    tls_config: str | None,
    timeout_s: float,
    json: bool,
) -> None:
    """Tell what is wrong between this machine and a cluster. Reads only; prints no secret."""
    logging.getLogger(__package__.partition(".")[0]).setLevel(logging.CRITICAL)
    home, problems = _home(), list[str]()
    try:
        account = credentials_from(credentials(problems.append))
        question = Question(
            parse_addresses(_given(namesrv)),
            topic,
            group,
            tls_context(tls_config),
            account,
            timeout_s,
        )
    except (RocketMQError, OSError) as error:
        text = Hider((), home)(str(error))
        raise WrongCommandLine(f"mqdoctor: {text}") from None
    try:
        seen = asyncio.run(look(question))
    except KeyboardInterrupt:
        ctx.exit(EXIT_INTERRUPTED)
    seen = seen._replace(trouble_of_account=problems[0] if problems else "")
    found = findings(seen)
    shown = as_json if json else as_text
    hide = Hider(_secrets(account), home)
    click.echo(shown(version_text("mqdoctor"), seen, what_answers(seen), found, hide))
    ctx.exit(1 if any(each.level is Level.WRONG for each in found) else 0)


def _given(namesrv: str | None) -> str:
    if namesrv is None:
        raise WrongCommandLine(
            "mqdoctor: no name server is known: add -n HOST:PORT or set the variable "
            f"{ENVIRONMENT_VARIABLE} (mqdoctor -h shows the options)"
        )
    return namesrv


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _secrets(account: Credentials | None) -> tuple[str, ...]:
    """All of them: an access key is half of one, and no use in an issue."""
    if account is None:
        return ()
    return account.access_key, account.secret_key, account.security_token or ""


if __name__ == "__main__":
    main()
