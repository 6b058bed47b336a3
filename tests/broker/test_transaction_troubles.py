"""What a check of transactions does where something fails: nobody is asked about what is not safe,
and nothing ends the checks."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from aiorocketmq.broker.state.consumer_offsets import OffsetTableFullError
from aiorocketmq.broker.transactions.transactions import ENDED
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.store.model.config import FlushDiskType
from aiorocketmq.store.model.errors import BrokenPromiseError, ShortageError, StoreFileError

from ..fault.faults import Faults
from .sim_broker import SimBroker, SimClient, store_config
from .test_damage import ask_others
from .transaction_scenes import (
    COMMIT,
    GROUP,
    HALF,
    OP,
    asked,
    checked,
    end,
    half,
    play,
    stored,
    word,
)


def test_producers_are_asked_when_the_copies_and_the_progress_are_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        events: list[str] = []
        store, check = world.broker.store, world.broker.storage.transaction_check
        sync, save = store.sync, check._save_offsets

        async def synced() -> None:
            await sync()
            assert store.flushed_offset == store.max_phy_offset
            events.append("synced")

        async def saved() -> None:
            await save()
            assert (
                '"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1'
                in offsets_file.read_text().replace("\n", "").replace("\t", "")
            )
            events.append("saved")

        offsets_file = tmp_path / "config" / "consumerOffset.json"
        monkeypatch.setattr(store, "sync", synced)
        monkeypatch.setattr(check, "_save_offsets", saved)
        client.answers[RequestCode.CHECK_TRANSACTION_STATE] = lambda *_: events.append("asked")
        await half(world, client)
        await checked(world)
        assert events == ["synced", "saved", "asked"]

    play(tmp_path, scene)


def test_a_progress_that_cannot_be_saved_does_not_end_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        async def fails() -> None:
            raise StoreFileError(tmp_path, "cannot be written")

        monkeypatch.setattr(world.broker.storage.transaction_check, "_save_offsets", fails)
        await half(world, client)
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)
    assert "progress of transactions not saved" in caplog.text


def test_nobody_is_asked_while_the_copies_cannot_be_synced(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        with Faults(tmp_path) as faults:
            faults.wanted = lambda call: errno.EMFILE if call.name == "open" else 0
            await checked(world)
            assert faults.injected
            assert not asked(client)
            faults.heal()
            await world.broker.store.sync()
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)


def test_what_expires_undecided_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        await half(world, client)
        check = world.broker.storage.transaction_check
        await check.load()
        monkeypatch.setattr(world.broker.store, "min_offset", lambda _topic, _queue_id: 2)
        for _ in range(2):
            await check.check()

    play(tmp_path, scene)
    assert caplog.text.count("transactions have expired undecided count=2") == 1


def test_what_cannot_be_read_just_now_is_checked_in_a_later_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        def fails(*_: object) -> None:
            raise ShortageError(tmp_path, "cannot be used: Too many open files")

        await half(world, client)
        check = world.broker.storage.transaction_check
        await check.load()
        world.clock.advance(60)
        with monkeypatch.context() as patch:
            patch.setattr(world.broker.store.entries, "some", fails)
            assert not await check._works(check.load())
            assert not await check._works(check.check())
        assert await check._works(check.load())
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)
    told = caplog.text.count("transactions not checked, tried again: ")
    assert told == 1, "what fails again within a minute is told once"


def test_what_is_decided_between_two_attempts_to_read_the_queues_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its op is not on the disk yet, so nobody can read it."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        def fails(*_: object, **__: object) -> None:
            raise ShortageError(tmp_path, "cannot be used: Too many open files")

        store, check = world.broker.store, world.broker.storage.transaction_check
        flushing = asyncio.ensure_future(store.run())
        await end(client, await half(world, client, key="B"), COMMIT)
        await store.sync()
        sent = await half(world, client, key="A")
        with monkeypatch.context() as patch:
            patch.setattr(store, "get", fails)
            assert not await check._works(check.load())
        client.connection.invoke_oneway(RequestCode.END_TRANSACTION, word(sent, COMMIT))
        while check._halves.state(1) != ENDED:
            await asyncio.sleep(0)
        assert not store.get(OP, 0, 1, 32).count, "it cannot be read yet"
        assert await check._works(check.load())
        await store.sync()
        await checked(world)
        assert not asked(client)
        assert len(stored(world, "T", 1)) == 2
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    config = store_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    play(tmp_path, scene, store=config)


def test_nothing_stands_for_a_half_message_that_is_decided(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        await end(client, sent, COMMIT)
        [decided] = stored(world, HALF)
        log = world.broker.storage.transaction_check._log
        with pytest.raises(BrokenPromiseError, match="half message 0 is decided"):
            log.put_copy(decided, {}, world.clock.time_ms())
        assert len(stored(world, HALF)) == 1

    play(tmp_path, scene)


def test_a_half_message_that_nobody_can_read_yet_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a member of a group the last ones are in the log, and not committed."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        store = world.broker.store
        await half(world, client)
        with monkeypatch.context() as patch:
            patch.setattr(store, "max_offset", lambda _topic, _queue_id: 0)
            await checked(world)
        assert not asked(client)
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)


def test_a_full_table_of_offsets_does_not_end_the_checks(tmp_path: Path) -> None:
    """Clients have filled it."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        offsets = world.broker.state.offsets
        offsets.frame_budget.take(offsets.frame_budget.budget_bytes)
        with pytest.raises(OffsetTableFullError):
            offsets.commit("g", "T", 0, 1)
        await half(world, client)
        await checked(world)
        assert len(asked(client)) == 1
        assert offsets.get(GROUP, HALF, 0) == 1

    play(tmp_path, scene)


@pytest.mark.parametrize("mended", [True, False])
def test_a_damaged_half_message_is_gone_when_nobody_else_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, mended: bool
) -> None:
    """It may be decided by its producer, and never come, while another replica has it intact (seed
    14113417)."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        store = world.broker.store
        world.broker.storage.transaction_check._log._recent.clear()
        at = bytes(store._log.buffer[:1000]).index(b"body K")
        store._log.buffer[at] ^= 1
        await checked(world)
        assert list(store.damage.places) == [0], "others are asked for it"
        assert "half message is gone" not in caplog.text
        if mended:
            store._log.buffer[at] ^= 1
            store.mended(0, store.max_phy_offset)
        else:
            await ask_others(world)
        await checked(world)
        assert len(asked(client)) == mended
        assert ("half message is gone" in caplog.text) != mended

    play(tmp_path, scene)
