"""A wrong command line in one line on standard error, as the daemons tell it; exit code 2."""

from __future__ import annotations

from typing import IO, Any

import click

from .version import version_option

__all__ = ["OneLineCommand", "WrongCommandLine"]


class OneLineCommand(click.Command):
    """A program of one command, which has ``--version``."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params.append(version_option())

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            problem = " ".join(error.format_message().split())
            raise WrongCommandLine(
                f"{self.name}: {problem} ({self.name} -h shows the options)"
            ) from None


class WrongCommandLine(click.ClickException):
    """What is wrong with it, in one line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file, err=True)
