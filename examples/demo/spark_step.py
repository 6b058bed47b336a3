"""The last step: Spark aggregates the topic into a second topic, and a consumer shows what is in
that as a table."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from aiorocketmq import Admin, MessageExt, PullConsumer
from aiorocketmq.spark_connector.local import spark_problem

from .errors import DemoError
from .tally import Sent

_MOST_TAGS = 16
_WITHIN_S = 300.0
_LAST_LINES = 20


class Total(NamedTuple):
    """What Spark says of a tag."""

    tag: str
    rows: int
    size_bytes: int


async def spark_step(console: Console, namesrv: str, topic: str, sent: Sent, folder: Path) -> bool:
    """Returns whether Spark counted what was sent; True as well where there is no Spark. Raises
    ``DemoError``."""
    if (problem := spark_problem()) is not None:
        console.print(f"\nThe last step, with Spark, is left out. {problem}", soft_wrap=True)
        return True
    results = f"{topic}-totals"
    console.print(
        f"\nA Spark query counts the rows of {topic} and writes the counts to {results} ...",
        soft_wrap=True,
    )
    started = time.monotonic()
    await _run_query(namesrv, topic, results, folder)
    totals = await _read_totals(namesrv, results)
    console.print(_table(results, totals, sent))
    console.print(f"(with starting Spark: {time.monotonic() - started:.0f} s)")
    counted = Counter({total.tag: total.rows for total in totals})
    good = counted == Counter({tag or "": count for tag, count in sent.confirmed.items()})
    if not good:
        console.print(
            "Not as it should be: Spark counted other rows than were sent", style="bold red"
        )
    return good


async def _run_query(namesrv: str, topic: str, results: str, folder: Path) -> None:
    log = folder / "spark.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "examples.demo.spark_job",
                namesrv,
                topic,
                results,
                str(folder / "spark"),
            ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C in the terminal is for us alone
        )
    try:
        async with asyncio.timeout(_WITHIN_S):
            code = await process.wait()
    except TimeoutError:
        raise DemoError(
            f"the Spark query did not end within {_WITHIN_S:.0f} s; the end of its log:",
            _end_of(log),
        ) from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # Python, and the Java that it has started
            await process.wait()
    if code:
        raise DemoError(
            f"the Spark query ended with exit code {code}; the end of its log:", _end_of(log)
        )


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:])


async def _read_totals(namesrv: str, topic: str) -> list[Total]:
    """All messages of the second topic."""
    async with Admin(namesrv=namesrv) as admin:
        count = sum([await admin.max_offset(queue) for queue in await admin.read_queues(topic)])
    messages: list[MessageExt] = []
    async with PullConsumer(f"{topic}-reader", namesrv=namesrv, suspend=1.0) as consumer:
        await consumer.assign(await consumer.queues(topic))
        await consumer.seek_to_begin(*consumer.assignment())
        while len(messages) < count:
            messages += await consumer.poll()
    rows = (json.loads(message.body) for message in messages)
    return sorted(
        (Total(row.get("tag") or "", row["rows"], row["bytes"]) for row in rows),
        key=lambda total: -total.rows,
    )


def _table(topic: str, totals: list[Total], sent: Sent) -> Table:
    table = Table(title=f"What Spark wrote to {topic}", title_justify="left")
    table.add_column("tag")
    for name in ("rows", "sent", "bytes per row"):
        table.add_column(name, justify="right")
    shown, rest = (
        (totals, [])
        if len(totals) <= _MOST_TAGS
        else (totals[: _MOST_TAGS - 1], totals[_MOST_TAGS - 1 :])
    )
    confirmed = {tag or "": count for tag, count in sent.confirmed.items()}
    groups = [
        *((total.tag or "(none)", [total]) for total in shown),
        *([(f"{len(rest)} others", rest)] if rest else []),
    ]
    for title, group in groups:
        rows = sum(total.rows for total in group)
        size = sum(total.size_bytes for total in group) / max(rows, 1)
        table.add_row(
            title,
            f"{rows:,}",
            f"{sum(confirmed.get(total.tag, 0) for total in group):,}",
            f"{size:,.0f}",
        )
    return table
