"""The tables on disk: the original's format, its own files, and writing them when they change."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.state.config_files import PAUSE_S, RETRY_S, ConfigFiles, OffsetPersistence
from aiorocketmq.broker.state.consumer_offsets import ConsumerOffsets
from aiorocketmq.broker.state.subscription_groups import SubscriptionGroups
from aiorocketmq.broker.state.topics import Topics
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.fastjson import reader as fastjson
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.store.model.errors import StoreFileError

from ...golden_files import unpack_golden
from ...sim import ManualClock, turns

TOPICS = """{
	"dataVersion":{
		"counter":3,
		"timestamp":1700000000000
	},
	"topicConfigTable":{
		"TopicTest":{
			"order":false,
			"perm":6,
			"readQueueNums":4,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"TopicTest",
			"topicSysFlag":0,
			"writeQueueNums":4
		}
	}
}"""
OFFSETS = """{
	"offsetTable":{
		"%RETRY%g1@g1":{0:0
		},
		"TopicTest@g1":{0:10,1:5000000000
		},
		"E@g1":{}
	}
}"""
STORES = ("store-clean-master", "store-clean-slave", "store-sigkill-master", "store-ipv6-master")
TABLES: dict[str, type[Record]] = {
    "topics.json": TopicConfigTable,
    "subscriptionGroup.json": SubscriptionGroupTable,
    "consumerOffset.json": ConsumerOffsetTable,
}


def files_in(folder: Path) -> ConfigFiles:
    return ConfigFiles(folder, ManualClock())


def _same(record: Any) -> Any:
    return record


def test_topics_are_written_as_the_original_does(tmp_path: Path) -> None:
    table = TopicConfigTable(
        topic_config_table={
            "TopicTest": TopicConfig(topic_name="TopicTest", read_queue_nums=4, write_queue_nums=4)
        },
        data_version=DataVersion(counter=3, timestamp=1700000000000),
    )
    files_in(tmp_path).add("topics.json", lambda: table).save_now()
    assert (tmp_path / "topics.json").read_text() == TOPICS
    assert files_in(tmp_path).load("topics.json", TopicConfigTable) == table


def test_offsets_are_written_as_the_original_does(tmp_path: Path) -> None:
    offsets = ConsumerOffsets()
    offsets.load(
        ConsumerOffsetTable(
            offset_table={
                "%RETRY%g1@g1": {0: 0},
                "TopicTest@g1": {0: 10, 1: 5000000000},
                "E@g1": {},
            }
        )
    )
    files_in(tmp_path).add("consumerOffset.json", offsets.record).save_now()
    assert (tmp_path / "consumerOffset.json").read_text() == OFFSETS
    others = ConsumerOffsets()
    loaded = files_in(tmp_path).load("consumerOffset.json", ConsumerOffsetTable)
    assert loaded is not None
    others.load(loaded)
    assert others.get("g1", "TopicTest", 1) == 5000000000


@pytest.mark.parametrize("store", STORES)
def test_files_of_the_original_are_loaded_and_written_back(store: str, tmp_path: Path) -> None:
    unpack_golden(f"{store}", tmp_path)
    found = [path for path in tmp_path.rglob("config/*") if path.name in TABLES]
    assert found
    for path in found:
        text = path.read_text()
        record = files_in(path.parent).load(path.name, TABLES[path.name])
        assert record is not None
        again = files_in(tmp_path / "again").add(path.name, partial(_same, record))
        again.save_now()
        assert fastjson.loads((tmp_path / "again" / path.name).read_text()) == fastjson.loads(
            text
        ), path.name


def test_a_broker_takes_over_the_tables_of_the_original(tmp_path: Path) -> None:
    unpack_golden("store-clean-master", tmp_path)
    files = files_in(tmp_path / "master" / "config")
    config, clock = BrokerConfig(broker_name="broker-g"), ManualClock()
    topics, groups, offsets = (
        Topics(config, clock),
        SubscriptionGroups(config, clock),
        ConsumerOffsets(),
    )
    for table, record_type, name in (
        (topics, TopicConfigTable, "topics.json"),
        (groups, SubscriptionGroupTable, "subscriptionGroup.json"),
        (offsets, ConsumerOffsetTable, "consumerOffset.json"),
    ):
        record = files.load(name, record_type)
        assert record is not None
        table.load(record)  # type: ignore[arg-type]
        assert table.record() == record
    order = topics.get("GoldOrder")
    assert order is not None
    assert (order.order, order.write_queue_nums) == (True, 4)
    retry = groups.find("GID_gold_retry")
    assert retry is not None
    assert retry.retry_max_times == 1
    assert offsets.get("GID_gold_lite", "GoldNormal", 2) == 10


def test_a_broken_file_is_replaced_by_its_backup(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text('{"dataVersion":')
    (tmp_path / "topics.json.bak").write_text(TOPICS)
    table = files_in(tmp_path).load("topics.json", TopicConfigTable)
    assert table is not None
    assert list(table.topic_config_table) == ["TopicTest"]
    (tmp_path / "topics.json.bak").write_text("nonsense")
    with pytest.raises(StoreFileError, match="repair or remove"):
        files_in(tmp_path).load("topics.json", TopicConfigTable)


def test_no_file_is_no_table(tmp_path: Path) -> None:
    assert files_in(tmp_path).load("topics.json", TopicConfigTable) is None


def read_offsets(folder: Path) -> dict[str, dict[int, int]]:
    record = files_in(folder).load("consumerOffset.json", ConsumerOffsetTable)
    return {} if record is None else record.offset_table


def test_saved_waits_for_the_write_that_has_the_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        offsets, files = ConsumerOffsets(), files_in(tmp_path)
        file = files.add("consumerOffset.json", offsets.record)
        service = asyncio.create_task(files.run())
        await file.saved()  # nothing has changed
        assert read_offsets(tmp_path) == {}
        offsets.commit("g", "T", 0, 7)
        file.changed()
        await file.saved()
        assert read_offsets(tmp_path) == {"T@g": {0: 7}}
        offsets.commit("g", "T", 0, 8)
        file.changed()
        service.cancel()  # what has changed is written at the end
        with pytest.raises(asyncio.CancelledError):
            await service
        assert read_offsets(tmp_path) == {"T@g": {0: 8}}

    asyncio.run(scenario())


def test_what_nobody_waits_for_is_written_together(tmp_path: Path) -> None:
    """A group that comes up is in two tables, and a hundred groups come up together."""

    async def scenario() -> None:
        clock, offsets, writes = ManualClock(), ConsumerOffsets(), list[int]()
        files = ConfigFiles(tmp_path, clock)
        file = files.add("consumerOffset.json", offsets.record)
        write = file._write

        def counted(number: int, record: Record) -> None:
            writes.append(number)
            write(number, record)

        def change(offset: int) -> None:
            offsets.commit("g", "T", 0, offset)
            file.changed()

        file._write = counted  # type: ignore[method-assign]
        service = asyncio.create_task(files.run())
        change(1)
        while file.dirty:  # at once
            await asyncio.sleep(0.001)
        for number in range(2, 51):
            change(number)
            await asyncio.sleep(0.001)
        assert writes == [1]
        clock.advance(PAUSE_S)
        while file.dirty:
            await asyncio.sleep(0.001)
        assert read_offsets(tmp_path) == {"T@g": {0: 50}}
        change(51)
        await file.saved()  # somebody waits: at once
        assert writes == [1, 50, 51]
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)

    asyncio.run(scenario())


def test_whoever_waits_when_the_end_comes_is_told_too(tmp_path: Path) -> None:
    async def main() -> None:
        offsets = ConsumerOffsets()
        files = files_in(tmp_path)
        file = files.add("consumerOffset.json", offsets.record)
        offsets.commit("g", "T", 0, 5)
        file.changed()
        waiting = asyncio.create_task(file.saved())
        await asyncio.sleep(0)
        files.save_now()
        async with asyncio.timeout(10):
            await waiting
        assert read_offsets(tmp_path) == {"T@g": {0: 5}}

    asyncio.run(main())


def test_a_write_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock, offsets = ManualClock(), ConsumerOffsets()
        folder = tmp_path / "config"
        folder.write_text("in the way")
        files = ConfigFiles(folder, clock)
        file = files.add("consumerOffset.json", offsets.record)
        service = asyncio.create_task(files.run())
        offsets.commit("g", "T", 0, 7)
        file.changed()
        with pytest.raises(StoreFileError):
            await file.saved()
        assert file.dirty
        folder.unlink()
        waiting = asyncio.create_task(file.saved())
        while not waiting.done():
            clock.advance(RETRY_S)
            await asyncio.sleep(0)
        assert not file.dirty
        service.cancel()
        with pytest.raises(asyncio.CancelledError):
            await service

    asyncio.run(scenario())
    assert read_offsets(tmp_path / "config") == {"T@g": {0: 7}}


def test_a_write_that_was_cancelled_does_not_undo_a_later_one(tmp_path: Path) -> None:
    """The thread of a cancelled write goes on, at its own pace."""
    for _ in range(20):
        offsets = ConsumerOffsets()

        async def scenario(offsets: ConsumerOffsets = offsets) -> None:
            files = files_in(tmp_path)
            file = files.add("consumerOffset.json", offsets.record)
            service = asyncio.create_task(files.run())
            for offset in range(3):
                offsets.commit("g", "T", 0, offset)
                file.changed()
                await asyncio.sleep(0)
            service.cancel()
            with pytest.raises(asyncio.CancelledError):
                await service
            assert not file.dirty

        asyncio.run(scenario())
        assert read_offsets(tmp_path) == {"T@g": {0: 2}}


def test_offsets_are_written_only_after_commits(tmp_path: Path) -> None:
    offsets = ConsumerOffsets()
    offsets.load(ConsumerOffsetTable(offset_table={"T@g": {0: 1}}))

    async def scenario() -> None:
        clock = ManualClock()
        file = ConfigFiles(tmp_path, clock).add("consumerOffset.json", offsets.record)
        persistence = OffsetPersistence(offsets, file, lambda: 5000, clock)
        persistence.check()
        assert not file.dirty
        offsets.commit("g", "T", 0, 2)
        persistence.check()
        assert file.dirty
        file.save_now()
        persistence.check()
        assert not file.dirty
        offsets.commit("g", "T", 0, 2)  # it knows that
        persistence.check()
        assert not file.dirty

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("often", "takes_s", "pauses"),
    [(False, 0.0, [5.0, 5.0]), (True, 0.0, [1.0, 1.0]), (True, 0.3, [1.0, 3.0]), (True, 2, [1, 5])],
)
def test_offsets_are_written_in_time(
    tmp_path: Path, often: bool, takes_s: float, pauses: list[float]
) -> None:
    """A member of a group may lead with them in a moment; large tables take their time."""
    offsets, clock = ConsumerOffsets(), ManualClock()

    def record() -> ConsumerOffsetTable:
        clock.advance(takes_s)
        return offsets.record()

    async def scenario() -> None:
        files = ConfigFiles(tmp_path, clock)
        file = files.add("consumerOffset.json", record)
        persistence = OffsetPersistence(offsets, file, lambda: 5000, clock, often=often)
        services = [asyncio.create_task(each.run()) for each in (persistence, files)]
        for offset, pause in enumerate(pauses, 7):
            offsets.commit("g", "T", 0, offset)
            while clock.next_due is None:
                await asyncio.sleep(0.001)
            assert clock.next_due == pytest.approx(clock.monotonic() + pause)
            clock.advance(pause)
            while read_offsets(tmp_path) != {"T@g": {0: offset}}:
                await asyncio.sleep(0.001)
        for service in services:
            service.cancel()
        await asyncio.gather(*services, return_exceptions=True)

    asyncio.run(scenario())


def test_offsets_that_cannot_be_written_are_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.write_text("in the way")
    offsets, clock = ConsumerOffsets(), ManualClock()

    async def scenario() -> None:
        files = ConfigFiles(folder, clock)
        file = files.add("consumerOffset.json", offsets.record)
        persistence = OffsetPersistence(offsets, file, lambda: 5000, clock, often=True)
        services = [asyncio.create_task(each.run()) for each in (persistence, files)]
        offsets.commit("g", "T", 0, 7)
        while not file._failed:
            clock.advance(0.1)
            await asyncio.sleep(0.001)
        folder.unlink()
        while file.dirty:
            clock.advance(0.1)
            await asyncio.sleep(0.001)
        assert not services[0].done()
        for service in services:
            service.cancel()
        await asyncio.gather(*services, return_exceptions=True)

    asyncio.run(scenario())
    assert read_offsets(folder) == {"T@g": {0: 7}}


def test_offsets_are_written_by_a_shorter_interval_before_the_old_one_is_over(
    tmp_path: Path,
) -> None:
    offsets, clock, interval_ms = ConsumerOffsets(), ManualClock(), [3_600_000]

    async def scenario() -> None:
        file = ConfigFiles(tmp_path, clock).add("consumerOffset.json", offsets.record)
        persistence = OffsetPersistence(offsets, file, lambda: interval_ms[0], clock)
        service = asyncio.create_task(persistence.run())
        await turns(3)
        offsets.commit("g", "T", 0, 7)
        interval_ms[0] = 5000
        clock.advance(5.0)
        await turns(3)
        assert file.dirty
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)

    asyncio.run(scenario())
