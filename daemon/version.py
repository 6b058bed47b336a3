"""``--version`` of every program."""

from __future__ import annotations

import click

__all__ = ["version_option", "version_text"]


def version_text(program: str) -> str:
    """``mqbroker 1.0.0, leaves: compiled``, or ``python``: whether the hot path is compiled."""
    from ..remoting.protocol.leaves import KIND  # here: who does not ask does without
    from .package_version import package_version

    return f"{program} {package_version()}, leaves: {KIND}"


def version_option() -> click.Option:
    """Prints the version and ends."""
    return click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print,
        help="Show the version and exit.",
    )


def _print(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(version_text(ctx.find_root().info_name or ""))
        ctx.exit()
