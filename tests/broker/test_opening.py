"""Opening and closing a broker while another process has the same store directory, or wants it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aiorocketmq.broker.assembly.access import Access
from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.assembly.storage import Storage
from aiorocketmq.broker.assembly.tables import Tables
from aiorocketmq.broker.config.config import BrokerConfig, BrokerServerConfig
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.broker.opening import open_broker
from aiorocketmq.broker.state.json_file import JsonFile
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.store.disk.lock_file import LockFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.errors import StoreFileError, StoreLockedError

from ..store.world import put_ok


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerSettings:
    """Of a broker that binds no port."""

    async def listen(_broker: Broker) -> None:
        pass

    monkeypatch.setattr(Broker, "listen", listen)
    return BrokerSettings(
        BrokerConfig(
            broker_name="b", broker_cluster_name="C", broker_ip1="127.0.0.1", namesrv_addr=None
        ),
        BrokerServerConfig(listen_port=10911),
        store=MessageStoreConfig(
            store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20
        ),
    )


def test_tables_are_read_only_when_nobody_else_can_write_them(
    settings: BrokerSettings, tmp_path: Path
) -> None:
    """The broker before writes them when it stops: what was read earlier would take back offsets,
    and lose topics."""
    table = tmp_path / "config/topics.json"
    table.parent.mkdir()
    table.write_text("{ not written to the end")
    other = LockFile(tmp_path / "lock")
    other.acquire()

    async def main() -> None:
        with pytest.raises(StoreLockedError):  # it has not looked at the table
            async with open_broker(settings):
                pass

    asyncio.run(main())
    other.release()


def test_messages_of_topics_that_the_table_does_not_have_are_told(
    settings: BrokerSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was lost, or an older one was put in its place."""

    async def main(*sent: str) -> str:
        caplog.clear()
        async with open_broker(settings) as broker:
            for topic in sent:
                broker.state.topics.update(TopicConfig(topic_name=topic))
                put_ok(broker.store, topic)
            broker.tables.topics_file.save_now()
        return caplog.text

    assert "topics.json" not in asyncio.run(main("T", "U"))
    assert "topics.json" not in asyncio.run(main())
    table = tmp_path / "config/topics.json"
    table.write_text(table.read_text().replace('"U"', '"V"'))
    told = asyncio.run(main())
    assert "in topics that are not in topics.json, nobody is given them" in told
    assert told.rstrip().endswith("topics=1 U")


def test_the_last_table_is_written_before_another_broker_may_read_it(
    settings: BrokerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_storage: Storage) -> None:
        with pytest.raises(StoreLockedError):
            LockFile(tmp_path / "lock").acquire()
        written.append(True)

    written: list[bool] = []
    monkeypatch.setattr(Storage, "save_delay_offsets", write)

    async def main() -> None:
        async with open_broker(settings):
            pass

    asyncio.run(main())
    assert written
    other = LockFile(tmp_path / "lock")
    other.acquire()
    other.release()


def test_who_is_cancelled_while_the_store_is_closed_keeps_the_directory_until_it_is(
    settings: BrokerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def main() -> None:
        closing, go_on = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        async def stop() -> None:
            async with open_broker(settings) as broker:
                close = broker.store.close

                def slowly(**how: bool) -> None:
                    loop.call_soon_threadsafe(closing.set)
                    go_on.wait(60)
                    with pytest.raises(StoreLockedError):
                        LockFile(tmp_path / "lock").acquire()
                    seen.append("locked")
                    close(**how)

                monkeypatch.setattr(broker.store, "close", slowly)

        stopping = asyncio.create_task(stop())
        await closing.wait()
        for _ in range(2):
            stopping.cancel()
            await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await stopping

    asyncio.run(main())
    assert seen == ["locked"]


def offset_beyond_the_end(folder: Path, witness: str) -> None:
    """What the consumers' offset file has is more than the log, and this file tells of it."""
    config = folder / "config"
    config.mkdir(exist_ok=True)
    table = {"offsetTable": {"T@g": {"0": 1000}}}
    (config / "consumerOffset.json").write_text(json.dumps(table))
    (folder / witness).write_text("{}")


async def offset_after_a_start(settings: BrokerSettings) -> int:
    async with open_broker(settings) as broker:
        return broker.state.offsets.get("g", "T", 0)


def test_after_a_crash_a_start_that_is_stopped_leaves_the_next_one_to_correct_offsets(
    settings: BrokerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset_beyond_the_end(tmp_path, "abort")

    async def main() -> None:
        opening, go_on = asyncio.Event(), threading.Event()
        loop, load = asyncio.get_running_loop(), MessageStore._load

        def slowly(store: MessageStore, progress: Callable[[int, int], None] | None) -> None:
            loop.call_soon_threadsafe(opening.set)
            go_on.wait(60)
            load(store, progress)

        with monkeypatch.context() as patch:
            patch.setattr(MessageStore, "_load", slowly)
            starting = asyncio.create_task(offset_after_a_start(settings))
            await opening.wait()
            starting.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await starting
        assert (tmp_path / "abort").exists()
        assert await offset_after_a_start(settings) == 0
        assert not (tmp_path / "abort").exists()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("witness", "fails"),
    [
        pytest.param("abort", (Tables, "agree_with"), id="after a crash, before"),
        pytest.param("abort", (Access, "__init__"), id="after a crash, behind"),
        pytest.param("config/slaveOffset.json", (Tables, "agree_with"), id="a slave's, before"),
        pytest.param("config/slaveOffset.json", (Access, "__init__"), id="a slave's, behind"),
    ],
)
def test_a_broker_that_cannot_be_made_leaves_no_offsets_beyond_the_end(
    settings: BrokerSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    witness: str,
    fails: tuple[type, str],
) -> None:
    """Before the correction, or behind it: of a broken file of accounts, say."""
    offset_beyond_the_end(tmp_path, witness)

    def broken(*_: object) -> None:
        raise StoreFileError(tmp_path, "cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(*fails, broken)
        with pytest.raises(StoreFileError):
            asyncio.run(offset_after_a_start(settings))
    assert asyncio.run(offset_after_a_start(settings)) == 0
    assert not (tmp_path / witness).exists()


def test_a_store_stays_a_slaves_until_its_corrected_offsets_are_on_the_disk(
    settings: BrokerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset_beyond_the_end(tmp_path, "config/slaveOffset.json")

    def full(_file: JsonFile, _text: str) -> None:
        raise StoreFileError(tmp_path, "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(JsonFile, "save", full)
        with pytest.raises(StoreFileError):
            asyncio.run(offset_after_a_start(settings))
    assert asyncio.run(offset_after_a_start(settings)) == 0
