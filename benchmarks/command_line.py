"""Options that mean the same in every program here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

__all__ = ["HELP", "KEEP", "SEED", "load", "rounds"]

HELP: Final = {"help_option_names": ["-h", "--help"], "show_default": True}
"""For ``context_settings`` of the command."""
SEED: Final = click.option("--seed", type=int, default=1, help="Of the random numbers.")
KEEP: Final = click.option(
    "--keep",
    type=click.Path(path_type=Path),
    default=None,
    help="Keep what it writes (logs, stores, journals) below this folder.",
)

Main = Callable[..., Any]


def rounds(default: int, what: str = "kills") -> Callable[[Main], Main]:
    return click.option(
        "--rounds", type=click.IntRange(1), default=default, help=f"How many {what}."
    )


def load(default_s: float, what: str = "of load before a kill") -> Callable[[Main], Main]:
    return click.option(
        "--load",
        "load_s",
        type=click.FloatRange(0.01),
        default=default_s,
        help=f"Seconds {what}, at most.",
    )
