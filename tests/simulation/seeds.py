"""One seed: a world, its clients and faults, and the verdict. In a process of its own: what a
killed process of the world left must never run."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import logging
import os
import re
import resource
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.frames.templates import encoder_for
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType

from .faults import Faults
from .habits import habits
from .invariants import Growing, broken, left_behind
from .knobs import settings
from .machine import Machine
from .schedule import Schedule
from .settling import Case, settle
from .tables import TableWatch
from .workload import Clients
from .world import World

log = logging.getLogger(__name__)

SHAPES = ("masters", "pair", "group")
FLUSHES = (FlushDiskType.SYNC_FLUSH, FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH)
MOST_CPU_S = 60


class Verdict(NamedTuple):
    """Of one seed."""

    seed: int
    broken: list[str]
    digest: str
    simulated_s: float
    cpu_s: float
    acknowledged: int
    delivered: int
    faults: int
    timed: bool
    """Promises were looked at when they were due; else all of them at the end only."""
    events: list[str]
    logs: list[str]


def run_seed(seed: int, *, skip: frozenset[int] = frozenset()) -> Verdict:
    """In a child, which may take a minute of CPU."""
    _work_out()
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reads)
            resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
            verdict = _in_this_process(seed, skip)
            with os.fdopen(writes, "w") as out:
                json.dump(verdict._asdict(), out)
            status = 0
        except BaseException:
            log.exception("seed %d", seed)
        finally:
            os._exit(status)
    os.close(writes)
    with os.fdopen(reads) as found:
        text = found.read()
    _, status = os.waitpid(child, 0)
    if not text:
        what = f"no verdict within {MOST_CPU_S} s of CPU: {os.waitstatus_to_exitcode(status)}"
        return Verdict(seed, [what], "", 0.0, float(MOST_CPU_S), 0, 0, 0, False, [], [])
    return Verdict(**json.loads(text))


@functools.cache
def _work_out() -> None:
    """What each child would work out anew, of classes that do not change, for a twentieth of a
    second."""
    for command in COMMANDS.values():
        encoder_for(command.request)
        encoder_for(command.response)
    "".encode("idna")  # imports modules


def _in_this_process(seed: int, skip: frozenset[int]) -> Verdict:
    gc.disable()
    began = time.process_time()
    home = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=home) as folder:
        os.chdir(folder)  # no path that anybody tells of is another one the next time
        world = World(seed, Path())
        shape, flush = _drawn(world.random)
        found: dict[str, Any] = {}
        try:
            world.run(_story(world, shape, flush, skip, found))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the verdict
            found.setdefault("broken", []).append(f"the world ended: {error!r}")
    clients: Clients | None = found.get("clients")
    told = [re.sub(r"\.{3,}", "..", each) for each in found.get("broken", [])]
    return Verdict(
        seed, told, world.digest, world.loop.now - 1000,
        time.process_time() - began,
        0 if clients is None else len(clients.journal.acknowledged),
        0 if clients is None else len(clients.journal.delivered),
        found.get("faults", 0), found.get("timed", False), world.events, world.logs,
    )  # fmt: skip


def _drawn(random: Random) -> tuple[str, FlushDiskType]:
    flush = random.choice(FLUSHES)
    return random.choice(SHAPES), flush


def shape_of(seed: int) -> str:
    """Of its cluster."""
    return _drawn(Random(seed))[0]


async def _story(
    world: World, shape: str, flush: FlushDiskType, skip: frozenset[int], found: dict[str, Any]
) -> None:
    often = habits(world.random)
    world.settings = settings(world.random)
    if often.light:
        world.settings.setdefault("store", {}).update(enable_multi_dispatch=True, enable_lmq=True)
    world.note(f"{shape}, {flush.name}; {often}")
    world.note(f"{world.settings}")
    world.network.usually_s, world.loop.usually_s = often.latency_s, often.thread_s
    world.loop.slower = often.slower
    for machine in world.name_servers():
        machine.start()
    for machine in brokers(world, shape, flush):
        machine.start()
    await asyncio.sleep(3)
    for machine in world.machines.values():
        machine.clock.drift = world.random.choice([0.0, often.drift, -often.drift])
    clients = found["clients"] = Clients(world, often)
    power = shape == "masters" or (flush is FlushDiskType.SYNC_FLUSH and shape == "pair")
    machines = [each.name for each in world.machines.values() if each.broker_name]
    faults = Faults(world, machines, power=power, steps=often.steps, struck=often.struck)
    schedule = Schedule(world, faults, often, skip=skip)
    growing = Growing(world, often)
    tables = TableWatch(world, clients.journal, often)
    watches = [asyncio.ensure_future(each.run()) for each in (growing, tables)]
    striking = asyncio.ensure_future(schedule.run())
    while not clients.journal.done and world.loop.now < 2000:
        await asyncio.sleep(0.5)
    schedule.stop()
    await striking
    found["faults"] = schedule.count
    case = Case(world, clients.journal, set(world.broker_names()), often, {})
    found["timed"] = case.is_timed
    late = await settle(case)
    for watch in watches:
        if watch.done():
            watch.result()  # it has looked, or had nobody to watch
        watch.cancel()
    found["broken"] = (
        growing.broken
        + tables.broken
        + late
        + list(broken(world, clients.journal, often, case.names))
    )
    found["broken"] += await left_behind(world)


def brokers(world: World, shape: str, flush: FlushDiskType) -> list[Machine]:
    """Those of one of ``SHAPES``."""
    match shape:
        case "masters":
            return [
                world.broker(name, f"10.0.1.{number}", name, flush_disk_type=flush)
                for number, name in enumerate("ab", 1)
            ]
        case "pair":
            return [
                world.broker(
                    name, f"10.0.1.{number}", "a", broker_id=number - 1,
                    flush_disk_type=flush, broker_role=role,
                )
                for number, name, role in (
                    (1, "master", BrokerRole.SYNC_MASTER),
                    (2, "slave", BrokerRole.SLAVE),
                )
            ]  # fmt: skip
        case _:
            return world.group("g", [f"10.0.1.{number}" for number in range(1, 4)])
