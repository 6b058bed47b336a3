"""Every system call of a store, a slave's store and a broker's tables fails in turn, with every
kind of errno.

What must hold each time: nothing but errors of the store, in words; a put is stored or refused, and
never both; services go on; when it is over everything works again without a restart, but after a
sync that failed; and whatever was acknowledged is there, before and after the next starts, clean
and unclean. By default each kind of call is tried with one errno of four; TEST_SIZE=nightly: every
call with one of each class, EVERY_ERRNO=1: with every errno.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiorocketmq.broker.state.config_files import RETRY_S, ConfigFiles
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.store.model.errors import StoreFileError

from ..sim import ManualClock
from .faults import FORBIDDEN, FULL, PASSING, SYNCING, Call, Faults, can_last
from .lives import Life, SlaveLife

CLASSES = (errno.EMFILE, errno.ENOSPC, errno.EIO, errno.EACCES)
ALL = (*PASSING, *FULL, errno.EIO, *FORBIDDEN)
NIGHTLY = os.environ.get("TEST_SIZE") == "nightly"
EVERY_ERRNO = bool(os.environ.get("EVERY_ERRNO"))

pytestmark = pytest.mark.hypothesis  # ``make fuzz`` does all of it


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that is possible: nothing is lost there, and syncs take no time."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is logged is looked at by other tests."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def kind_of(call: Call) -> tuple[str, str]:
    """Calls that are alike: same function, same sort of file."""
    return call.name, re.sub(r"(?<=/)[A-Z%][^/]*(?=/|$)", "T", re.sub(r"\d+", "N", call.path))


def cases(calls: list[Call]) -> Iterator[tuple[Call, int]]:
    """Which call is to fail in which way."""
    if NIGHTLY or EVERY_ERRNO:
        yield from itertools.product(calls, ALL if EVERY_ERRNO else CLASSES)
        return
    kinds: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        kinds[kind_of(call)].append(call)
    for number, alike in enumerate(kinds.values()):
        yield alike[len(alike) * (number % 3) // 3], CLASSES[number % 4]


def failing(call: Call, number: int) -> Callable[[Call], int]:
    """That call fails; so do, from then on, all that fail on a machine in such a state, if there is
    one."""
    begun = False

    def wanted(asked: Call) -> int:
        nonlocal begun
        begun = begun or asked == call
        return (
            number
            if asked == call
            or (begun and can_last(number, call.name) and can_last(number, asked.name))
            else 0
        )

    return wanted


async def whole(life: Life, *, clean: bool) -> bool:
    """Whether it went on without a restart."""
    await life.live()
    alive = await life.go_on()
    life.restart(clean=clean)
    life.restart(clean=not clean)
    async with life.serving():
        life.some()
        await life.pass_time(3)
    life.check()
    life.store.close()
    return alive


def calls_of(life: Life) -> list[Call]:
    """When nothing fails."""
    asyncio.run(life.live())
    calls = list(life.faults.calls)
    life.store.close()
    return calls


def try_all(folder: Path, kind: type[Life]) -> None:
    with Faults(folder / "none") as faults:
        calls = calls_of(kind(folder / "none", faults))
    outcomes: Counter[tuple[str, bool]] = Counter()
    for number, (call, error) in enumerate(cases(calls)):
        root = folder / str(number)
        with Faults(root) as faults:
            faults.wanted = failing(call, error)
            life = kind(root, faults)
            try:
                alive = asyncio.run(whole(life, clean=number % 2 == 0))
            except BaseException as failure:
                failure.add_note(f"{errno.errorcode[error]} from {call}")
                raise
        assert alive or error not in PASSING or call.name in SYNCING
        outcomes[errno.errorcode[error], bool(life.refused or life.not_opened)] += bool(
            faults.injected
        )
    assert all(outcomes[errno.errorcode[error], True] for error in CLASSES), "faults are felt"
    print(outcomes)


def test_a_store_lives_through_everything(folder: Path) -> None:
    try_all(folder, Life)


def test_the_store_of_a_slave_lives_through_everything(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Faults(folder / "nowhere") as faults:
        master = Life(folder / "master", faults)

        async def fill() -> None:
            master.open()
            async with master.serving():
                for _ in range(6):
                    master.some()
                    await master.pass_time(1)

        asyncio.run(fill())
        monkeypatch.setattr(SlaveLife, "master", master.store, raising=False)
        try_all(folder, SlaveLife)
        master.store.close()


class Numbers(Record):
    """A table."""

    latest: int


class TablesLife:
    """A table that changes some times, and who waits for that."""

    def __init__(self, root: Path, faults: Faults) -> None:
        self.root = root
        self.faults = faults
        self.saved = 0
        self.failures = 0

    async def live(self) -> None:
        clock = ManualClock()
        files = ConfigFiles(self.root / "config", clock)
        latest = 0
        file = files.add("table.json", lambda: Numbers(latest=latest))
        service = asyncio.ensure_future(files.run())
        for latest in (1, 2, 3):
            file.changed()
            try:
                await self.passing(clock, asyncio.ensure_future(file.saved()))
            except StoreFileError:
                self.failures += 1
            else:
                self.saved = latest
            self.check()
        self.faults.heal()
        with contextlib.suppress(StoreFileError):  # of a write that began before
            await self.passing(clock, asyncio.ensure_future(file.saved()))
        await self.passing(clock, asyncio.ensure_future(file.saved()))
        self.saved = latest
        self.check()
        service.cancel()
        await asyncio.wait([service])
        assert service.cancelled()

    async def passing(self, clock: ManualClock, saving: asyncio.Future[None]) -> None:
        """Time passes until it is over, one way or the other."""
        while not saving.done():
            clock.advance(RETRY_S)
            await asyncio.sleep(0.0003)
        await saving

    def check(self) -> None:
        """Whoever starts now has what was promised, or something newer."""
        wanted, self.faults.wanted = self.faults.wanted, lambda _: 0
        found = ConfigFiles(self.root / "config", ManualClock()).load("table.json", Numbers)
        assert (0 if found is None else found.latest) >= self.saved
        self.faults.wanted = wanted


def test_tables_live_through_everything(folder: Path) -> None:
    with Faults(folder / "none") as faults:
        asyncio.run(TablesLife(folder / "none", faults).live())
    failures = 0
    for number, (call, error) in enumerate(
        itertools.product(dict.fromkeys(faults.calls), ALL if NIGHTLY or EVERY_ERRNO else CLASSES)
    ):
        with Faults(folder / str(number)) as faults:
            faults.wanted = failing(call, error)
            life = TablesLife(folder / str(number), faults)
            asyncio.run(life.live())
            failures += life.failures
    assert failures > 50, "faults are felt"
