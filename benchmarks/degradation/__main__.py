"""``python -m benchmarks.degradation``: the steps, a row for each; the exit code is 1 where
something acknowledged is lost, or where the broker does not come back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from aiorocketmq import Admin
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from examples.demo.daemons import Daemons, data_folder
from examples.demo.program import run_program

from ..command_line import HELP
from ..harness import machine, native
from . import peers
from .load import QUEUES, TOPIC, Load, Phase
from .steps import RELAY, STEPS, Notes, RelayedBroker, RelayedNameServer, Step, World, set_clock

BACK_TO: Final = 0.5
"""Such a share of the throughput before has to be there afterwards."""
_SETTLES_S: Final = 3.0
_DIRECT: Final = "127.0.0.1"


class Options(NamedTuple):
    """What can be asked for on the command line."""

    seconds: float
    small: bool


class Row(NamedTuple):
    """What came of a step."""

    step: Step
    before: Phase
    during: Phase
    after: Phase
    acknowledged: int
    lost: int
    notes: Notes

    @property
    def problems(self) -> list[str]:
        found = []
        if self.lost:
            found.append(f"{self.lost} acknowledged messages are lost")
        if not self.before.per_second:
            found.append("nothing was acknowledged even before")
        if self.after.per_second < BACK_TO * self.before.per_second:
            found.append("the broker has not come back to what it did before")
        return found

    def json(self) -> dict[str, Any]:
        phases = {"before": self.before, "during": self.during, "after": self.after}
        shown = {
            name: {key: round(value, 1) for key, value in phase._asdict().items()}
            for name, phase in phases.items()
        }
        return {
            "what": self.step.what, **shown, "acknowledged": self.acknowledged, "lost": self.lost,
            "notes": self.notes,
        }  # fmt: skip


async def run_step(step: Step, options: Options) -> Row:
    """All of it, with daemons of its own. Raises ``DemoError``."""
    with data_folder(None) as folder, _clock(step, folder):
        async with step.daemons.started(folder) as daemons:
            with _relay(step, daemons) as relay:
                return await daemons.watch(_measured(step, daemons, folder, relay, options))


async def _measured(
    step: Step, daemons: Daemons, folder: Path, relay: Any, options: Options
) -> Row:
    namesrv = daemons.namesrv_address
    async with Admin(namesrv=namesrv) as admin:
        config = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        await admin.create_topic_on(daemons.broker_address, config)
    if isinstance(daemons, RelayedNameServer):
        namesrv = daemons.relay
    async with Load(namesrv, daemons.broker.pid) as load:
        await asyncio.sleep(_SETTLES_S)
        before = await load.phase(options.seconds)
        world = World(daemons, load, folder, relay, options.small)
        async with step.trouble(world) as notes:
            during = await load.phase(min(step.during_s, 5.0) if options.small else step.during_s)
        await asyncio.sleep(_SETTLES_S)
        after = await load.phase(options.seconds)
    lost = await load.lost()
    if load.went_back_s > 1:
        notes["store times went back by s"] = round(load.went_back_s)
    return Row(step, before, during, after, len(load.acknowledged), lost, notes)


@contextlib.contextmanager
def _relay(step: Step, daemons: Daemons) -> Iterator[Any]:
    """The number that it goes by."""
    value = peers.shared()
    if step.relay is None:
        yield value
        return
    broker = isinstance(daemons, RelayedBroker)
    port = int((daemons.broker_address if broker else daemons.namesrv_address).rpartition(":")[2])
    with peers.running(step.relay, (RELAY, port), (_DIRECT, port), value):
        yield value


@contextlib.contextmanager
def _clock(step: Step, folder: Path) -> Iterator[None]:
    """Daemons that are started here have a clock that can be moved."""
    if not step.preloads_clock:
        yield
        return
    library = native.clock()
    if library is None:
        raise click.ClickException("the clock can only be moved where there is a C compiler")
    ours = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(set_clock(folder, 0))}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _print(row: Row) -> None:
    print(f"{row.step.name}: {row.step.what}")
    for name, phase in (("before", row.before), ("during", row.during), ("after", row.after)):
        print(
            f"  {name:6} {phase.per_second:8,.0f} a second, p99 {phase.p99_ms:7.1f} ms, worst "
            f"{phase.worst_ms:8.1f}, refused {phase.refused}, memory {phase.memory_mib} MiB"
        )
    notes = "; ".join(f"{name} {value:,.6g}" for name, value in row.notes.items())
    print(f"  {row.acknowledged:,} acknowledged, lost {row.lost}; {notes}", flush=True)
    for problem in row.problems:
        print(f"  NOT GOOD: {problem}", flush=True)


def _write(path: Path, rows: list[Row]) -> None:
    """Rows of steps that were not run stay."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    steps = known.get("steps", {})
    for row in rows:
        date = time.strftime("%Y-%m-%d", time.gmtime())
        steps[row.step.name] = {"date": date, "commit": commit.stdout.strip(), **row.json()}
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine.describe(), "steps": steps}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


async def degradation(steps: list[Step], options: Options, figures: Path | None) -> int:
    """One step after the other; returns the exit code."""
    problems = 0
    for step in steps:
        row = await run_step(step, options)
        _print(row)
        problems += len(row.problems)
        if figures is not None:
            _write(figures, [row])
    return 1 if problems else 0


@click.command(context_settings=HELP)
@click.option("--only", multiple=True, help="The name of a step; may be given again.")
@click.option("--seconds", type=click.FloatRange(1), default=10.0, help="Before and after.")
@click.option("--small", is_flag=True, help="A hundredth of the size, to try it out.")
@click.option("--figures", type=click.Path(path_type=Path), help="JSON to put the figures into.")
def main(only: tuple[str, ...], seconds: float, small: bool, figures: Path | None) -> None:
    """How a broker degrades under seven troubles, and that it comes back."""
    logging.disable(logging.CRITICAL)
    names = {step.name: step for step in STEPS}
    if unknown := [name for name in only if name not in names]:
        raise click.UsageError(f"there is no step {unknown[0]}; there are {', '.join(names)}")
    chosen = [names[name] for name in only] or list(STEPS)
    work = degradation(chosen, Options(seconds, small), figures)
    sys.exit(run_program("degradation", work))


if __name__ == "__main__":
    main()
