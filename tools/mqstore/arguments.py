"""What commands of ``mqstore`` are given: types of arguments, and options that several share."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from ...remoting.errors import ConnectError
from ...remoting.transport.address import split_address
from ...store.model.config import PATH_SPLITTER
from ...store.model.delay_levels import parse_delay_levels


class Time(click.ParamType[int]):
    """Milliseconds since 1970, or a date and time in local time unless it names its zone."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        text = str(value).strip()
        if text.isdecimal() and len(text) < 19 and text.isascii():
            return int(text)
        try:
            return int(datetime.datetime.fromisoformat(text).astimezone().timestamp() * 1000)
        except (ValueError, OverflowError):
            self.fail(
                f"'{value}' is neither a number of milliseconds nor like 2026-11-20T22:11:21",
                param,
                ctx,
            )


class Paths(click.ParamType[tuple[Path, ...]]):
    """``/disk1/log,/disk2/log``"""

    name = "paths"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Path, ...]:
        if isinstance(value, tuple):
            return value
        paths = tuple(
            Path(part.strip()).expanduser()
            for part in str(value).split(PATH_SPLITTER)
            if part.strip()
        )
        for path in paths:
            if not path.is_dir():
                self.fail(f"'{path}' is not a folder", param, ctx)
        return paths


class Address(click.ParamType[tuple[str, int]]):
    """``host:port``"""

    name = "address"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        try:
            return split_address(str(value))
        except ConnectError as error:
            self.fail(str(error), param, ctx)


class DelayLevels(click.ParamType[str]):
    """``1s 5s 10s``"""

    name = "levels"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        try:
            parse_delay_levels(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def store_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The store directory, the one that holds ``commitlog``."""
    kind = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.argument("directory", type=kind)(function)


def chosen_messages(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that choose messages."""
    for option in (
        click.option("--limit", type=click.IntRange(0), help="At most so many"),
        click.option("--end", type=Time(), help="Stored until then"),
        click.option(
            "--begin", type=Time(), help="Stored from then on: ms, or like 2026-11-20T22:11:21"
        ),
        click.option(
            "--from", "first_offset", type=click.IntRange(0), help="From this queue offset on"
        ),
        click.option(
            "--queue", "queue_id", type=click.IntRange(0), help="Only queues of this number"
        ),
        click.option("--topic", help="Only this topic"),
    ):
        function = option(function)
    return function


levels_option: Final = click.option(
    "--delay-levels", type=DelayLevels(), help="messageDelayLevel of the broker, if it was changed"
)
slots_option: Final = click.option(
    "--slots", type=click.IntRange(1), help="maxHashSlotNum of the broker, if it was changed"
)
log_option: Final = click.option(
    "--commit-log",
    type=Paths(),
    default=(),
    help="storePathCommitLog of the broker, if it was set (several: joined by ,)",
)
json_option: Final = click.option("--json", "as_json", is_flag=True, help="JSON")
