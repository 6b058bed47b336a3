"""The scrub finds every damaged record of a log, wherever the pieces are cut that it reads."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record import blank_record
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import translated
from aiorocketmq.store.services import scrub
from aiorocketmq.store.services.scrub import look

from ...fault.damage import flip
from ..log.test_damage import filled, record
from ..world import open_store, put_ok


def log_of(sizes: list[int]) -> tuple[bytes, list[int]]:
    """Records from 1000 on; where they begin."""
    data, begins = b"", []
    for number, size in enumerate(sizes):
        begins.append(1000 + len(data))
        data += record(number % 250, size, phy_offset=begins[-1])
    return data, begins


@given(
    st.lists(st.integers(0, 300), min_size=3, max_size=12),
    st.integers(1, 700),
    st.booleans(),
    st.data(),
)
@settings(deadline=None)
def test_each_damaged_record_is_found_and_no_other(
    sizes: list[int], step: int, blank: bool, data: st.DataObject
) -> None:
    log, begins = log_of(sizes)
    number = data.draw(st.integers(0, len(sizes) - 1))
    begin = begins[number] - 1000
    at = begin + data.draw(st.integers(0, 91 + sizes[number] - 1))
    whole = bytearray(log + (blank_record(500) + b"rubbish" * 71)[:500] * blank)
    whole[at] ^= data.draw(st.integers(1, 255))
    found, done, wanted = [], 0, step
    while done < len(whole):
        seen = look(bytes(whole[done : done + wanted]), 1000 + done, len(whole) - done)
        found += seen.damaged
        wanted = step if seen.size else 2 * wanted
        done += seen.size
        if seen.last:
            break
    assert {place for place, _, _ in found} <= {1000 + begin}
    field = at - begin
    if field < 12 or 28 <= field < 36 or field in range(84, 88 + sizes[number]):
        assert [place for place, _, _ in found] == [1000 + begin]


def in_a_loop(store: MessageStore, slept: list[float] | None = None) -> None:
    """One pass that does not wait."""

    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.scrub._clock, "sleep", sleep)
        asyncio.run(store.scrub.scrub())


@pytest.mark.parametrize("at", [3, 5, 10, 30, 87, 90])
def test_a_pass_over_a_store(tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture) -> None:
    store, place = filled(tmp_path, "apart of many sizes")
    for _ in range(20):
        put_ok(store, "More", body=b"z" * 900)
    store.flush.close()
    in_a_loop(store)
    assert store.damage.found == 0
    flip(tmp_path, place + at)
    with caplog.at_level("INFO"):
        in_a_loop(store)
        in_a_loop(store)
    assert list(store.damage.places) == [place]
    lines = [each.getMessage() for each in caplog.records]
    assert sum(f"phy_offset={place} " in line and "seen=scrub" in line for line in lines) == 1
    assert f"the commit log was read and checked up_to={store.max_phy_offset}" in lines[-1]
    store.close()


def test_it_reads_slowly_and_only_what_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "PIECE", 4096)
    store = open_store(tmp_path, scrub_bytes_per_second=1 << 20)
    for _ in range(60):
        put_ok(store, body=b"z" * 900)
    slept: list[float] = []
    in_a_loop(store, slept)
    assert slept == []
    store.flush.close()
    in_a_loop(store, slept)
    assert store.max_phy_offset <= sum(slept) * (1 << 20) <= 1.5 * store.max_phy_offset
    assert max(slept) < 0.02
    store.close()


@pytest.mark.parametrize(("hours", "passes"), [(168, 1), (1, 3), (0, 0)])
def test_passes_are_hours_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int, passes: int
) -> None:
    store = open_store(tmp_path, scrub_interval_hours=hours)
    clock, begun = store.scrub._clock, []

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)  # type: ignore[attr-defined]
        if clock.monotonic() - start > 3600 * 3.5:
            raise Enough

    async def one_pass() -> None:
        begun.append(clock.monotonic())

    start = clock.monotonic()
    monkeypatch.setattr(clock, "sleep", sleep)
    monkeypatch.setattr(store.scrub, "scrub", one_pass)
    with pytest.raises(Enough):
        asyncio.run(store.scrub.run())
    assert len(begun) == passes
    store.close()


def test_behind_damage_that_is_longer_than_any_record_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "PIECE", 256)
    monkeypatch.setattr(scrub, "_LONGEST", 1024)
    store = open_store(tmp_path)
    places = [put_ok(store, body=b"%d" % number) for number in range(60)]
    begin, end, behind = places[5].phy_offset, places[35].phy_offset, places[40].phy_offset
    store.flush.close()
    file = store._log.files.files[0]
    file.put_back(begin, bytes(end - begin))
    flip(tmp_path, behind + 88)
    in_a_loop(store)
    found = store.damage.places
    assert behind in found
    assert min(found) == begin
    assert sum(size for at, size in found.items() if at < end) == end - begin
    store.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
@pytest.mark.parametrize("call", ["read_unmapped", "is_in_memory"])
def test_what_cannot_be_read_now_is_no_damage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    call: str,
    number: int,
) -> None:
    """Readers would wait for what is "damaged", and replicas be asked for it."""
    store, place = filled(tmp_path, "apart of many sizes")
    store.flush.close()
    real, failures = getattr(MappedFile, call), [3]

    def short(file: MappedFile, *arguments: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            with translated(file.path, "cannot be read"):
                raise OSError(number, os.strerror(number))
        return real(file, *arguments)

    flip(tmp_path, place + 90)
    monkeypatch.setattr(MappedFile, call, short)
    in_a_loop(store)
    assert list(store.damage.places) == [place], "and nothing is left out for it"
    assert "the commit log is not checked now, tried again" in caplog.text
    store.close()


def test_no_thread_reads_when_the_store_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    store.flush.close()
    reads, may_read, done = threading.Event(), threading.Event(), []
    shutdown, close_files = store.scrub._threads.shutdown, store._close_files

    def read(*_: object) -> bytes:
        reads.set()
        may_read.wait()
        done.append("read")
        return b""

    def ends(*, wait: bool) -> None:
        may_read.set()
        shutdown(wait=wait)

    def closed() -> None:
        done.append("closed")
        may_read.set()
        close_files()

    async def cancelled_while_it_reads() -> None:
        task = asyncio.create_task(store.scrub.scrub())
        await asyncio.to_thread(reads.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(MappedFile, "read_unmapped", read)
    monkeypatch.setattr(store.scrub._threads, "shutdown", ends)
    monkeypatch.setattr(store, "_close_files", closed)
    asyncio.run(cancelled_while_it_reads())
    store.close()
    assert done == ["read", "closed"]
