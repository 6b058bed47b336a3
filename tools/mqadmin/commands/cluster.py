"""Clusters: clusterList (``admin-cli.md`` §3.7)."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

import click

from ....client.admin import Admin, Member
from ....remoting.errors import RocketMQError
from ..command import command
from ..java_text import fixed
from ..output import Layout
from ..shell import Shell
from ..targets import lost_brokers

BASE: Final = Layout(
    (
        "#Cluster Name",
        "#Broker Name",
        "#BID",
        "#Addr",
        "#Version",
        "#InTPS(LOAD)",
        "#OutTPS(LOAD)",
        "#PCWait(ms)",
        "#Hour",
        "#SPACE",
    ),
    row="%-16s  %-22s  %-4s  %-22s %-16s %19s %19s %10s %5s %6s",
)
MORE: Final = Layout(
    (
        "#Cluster Name",
        "#Broker Name",
        "#InTotalYest",
        "#OutTotalYest",
        "#InTotalToday",
        "#OutTotalToday",
    ),
    row="%-16s  %-32s %14s %14s %14s %14s",
)


@command("clusterList", json=True, watch=True)
@click.option(
    "-m", "--moreStats", "more", is_flag=True, help="Messages in and out, yesterday and today"
)
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(0, min_open=True),
    help="Print again every so many seconds",
)
async def cluster_list(shell: Shell, more: bool, interval: float | None) -> None:
    async with shell.admin() as admin:
        while True:
            members = await admin.members()
            await (_print_totals if more else _print_base)(shell, admin, members)
            _tell_of_those_without_a_master(shell, members)
            for name, since in (await lost_brokers(admin)).items():
                shell.tell(f"the broker {name} is lost: {since}")
            if interval is None:
                return
            await asyncio.sleep(interval)


def _tell_of_those_without_a_master(shell: Shell, members: list[Member]) -> None:
    """On standard error as well: a row that is not there is easily overlooked."""
    having = {member.broker_name for member in members if member.is_master}
    for name in sorted({member.broker_name for member in members} - having):
        shell.tell(
            f"the broker {name} has no master at present: its queues can be read and not written"
        )


async def _print_base(shell: Shell, admin: Admin, members: list[Member]) -> None:
    with shell.out.table(BASE) as table:
        for member in members:
            figures = await _runtime_info(shell, admin, member.address)
            table.row(*member, *base_cells(figures, now_ms=time.time_ns() // 1_000_000))


async def _print_totals(shell: Shell, admin: Admin, members: list[Member]) -> None:
    with shell.out.table(MORE) as table:
        for member in members:
            figures = await _runtime_info(shell, admin, member.address)
            table.row(member.cluster, member.broker_name, *total_cells(figures))


async def _runtime_info(shell: Shell, admin: Admin, address: str) -> dict[str, str]:
    """Nothing for a broker that does not answer; its row is printed all the same."""
    try:
        return await admin.broker_runtime_info(address)
    except RocketMQError as error:
        shell.warn(error)
        return {}


def base_cells(figures: dict[str, str], *, now_ms: int) -> tuple[str, ...]:
    """Version, load in and out, page cache lock, age of the oldest message in hours, used part of
    the disk."""
    oldest = figures.get("earliestMessageTimeStamp", "")
    hours = (now_ms - number_of(oldest)) / 3_600_000 if oldest else 0.0
    return (
        figures.get("brokerVersionDesc", ""),
        _load(figures, "putTps", "sendThreadPoolQueue"),
        _load(figures, "getTransferedTps", "pullThreadPoolQueue"),
        figures.get("pageCacheLockTimeMills", ""),
        fixed(hours, 2),
        fixed(number_of(figures.get("commitLogDiskRatio", "")), 4),
    )


def total_cells(figures: dict[str, str]) -> tuple[int, ...]:
    """Messages in and out yesterday, in and out today."""
    put = [int(number_of(figures.get(f"msgPutTotal{when}", ""))) for when in _MOMENTS]
    got = [int(number_of(figures.get(f"msgGetTotal{when}", ""))) for when in _MOMENTS]
    return put[1] - put[0], got[1] - got[0], put[2] - put[1], got[2] - got[1]


_MOMENTS: Final = ("YesterdayMorning", "TodayMorning", "TodayNow")


def _load(figures: dict[str, str], rate: str, queue: str) -> str:
    per_second = number_of(
        figures.get(rate, "").partition(" ")[0]
    )  # the averages of the last 10 s, 1 min, 10 min
    waiting, head_wait = (
        figures.get(f"{queue}Size", ""),
        figures.get(f"{queue}HeadWaitTimeMills", ""),
    )
    return f"{fixed(per_second, 2):>9}({waiting},{head_wait}ms)"


def number_of(text: str) -> float:
    """0 for what is no number, or none to count with."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0
