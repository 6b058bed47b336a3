"""The offset file of broadcasting consumers (client.md §4.10)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.consumer.pull_consumer import PullConsumer
from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.client.offsets.local_offsets import LocalOffsets
from aiorocketmq.remoting.protocol.bodies.heartbeat import MessageModel
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from tests.sim import ManualClock

FIRST, SECOND = MessageQueue("Orders", "b1", 2), MessageQueue("Orders", "b1", 0)
AS_JAVA_WRITES_IT = """{
	"offsetTable":{{
			"brokerName":"b1",
			"queueId":2,
			"topic":"Orders"
		}:17,{
			"brokerName":"b1",
			"queueId":0,
			"topic":"Orders"
		}:9
	}
}"""


def offsets_in(folder: Path) -> LocalOffsets:
    return LocalOffsets(folder, "10.0.0.1@DEFAULT", "g", ManualClock())


def test_the_file_is_that_of_the_original(tmp_path: Path) -> None:
    async def main() -> None:
        offsets = offsets_in(tmp_path)
        offsets.update(FIRST, 17)
        offsets.update(SECOND, 9)
        await offsets.persist()
        assert offsets.path == tmp_path / "10.0.0.1@DEFAULT" / "g" / "offsets.json"
        assert offsets.path.read_text() == AS_JAVA_WRITES_IT
        assert [await offsets_in(tmp_path).fetch(queue) for queue in (FIRST, SECOND)] == [17, 9]

    asyncio.run(main())


def test_what_others_wrote_stays_and_an_unknown_queue_has_none(tmp_path: Path) -> None:
    async def main() -> None:
        assert await offsets_in(tmp_path).fetch(FIRST) is None
        await offsets_in(tmp_path).commit({FIRST: 3})
        await offsets_in(tmp_path).commit({SECOND: 4})
        assert [await offsets_in(tmp_path).fetch(queue) for queue in (FIRST, SECOND)] == [3, 4]

    asyncio.run(main())


def test_who_is_cancelled_waits_until_the_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end a consumer writes again: two at a time would take the file from each other."""
    begun, go_on = threading.Event(), threading.Event()

    async def main() -> None:
        offsets = offsets_in(tmp_path)
        write = offsets._write

        def slowly(table: dict[MessageQueue, int]) -> None:
            begun.set()
            assert go_on.wait(60)
            write(table)

        monkeypatch.setattr(offsets, "_write", slowly)
        first = asyncio.create_task(offsets.commit({FIRST: 3}))
        await asyncio.to_thread(begun.wait)
        first.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        is_written = first.done()
        second = asyncio.create_task(offsets.commit({FIRST: 4}))
        go_on.set()
        await asyncio.gather(first, second, return_exceptions=True)
        assert not is_written
        assert (first.cancelled(), await offsets.fetch(FIRST)) == (True, 4)

    asyncio.run(main())


@pytest.mark.parametrize("broken", ["", '{"offsetTable":{', None])
def test_the_backup_is_read_when_the_file_cannot(tmp_path: Path, broken: str | None) -> None:
    async def main() -> None:
        offsets = offsets_in(tmp_path)
        await offsets.commit({FIRST: 3})
        await offsets.commit({FIRST: 4})
        if broken is None:
            offsets.path.unlink()
        else:
            offsets.path.write_text(broken)
        assert await offsets.fetch(FIRST) == 3

    asyncio.run(main())


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"", "is empty"),
        (b'{"offsetTable":{', "cannot be used"),
        (bytes(50), "cannot be used"),
        (None, "is missing"),
    ],
)
def test_that_it_is_not_up_to_date_is_told_once(
    tmp_path: Path, broken: bytes | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        offsets = offsets_in(tmp_path)
        await offsets.commit({FIRST: 3})
        await offsets.commit({FIRST: 4})
        assert not caplog.records
        offsets.path.unlink()
        if broken is not None:
            offsets.path.write_bytes(broken)
        offsets = offsets_in(tmp_path)
        await offsets.check()
        for queue in (FIRST, SECOND):
            await offsets.fetch(queue)
        [line] = [record.getMessage() for record in caplog.records]
        assert f"{offsets.path} {why}" in line
        assert "offsets.json.bak, written 20" in line
        assert "what was consumed since comes again" in line

    asyncio.run(main())


def test_what_is_damaged_never_replaces_the_backup(tmp_path: Path) -> None:
    """Else a crash in the middle of the next write would leave neither. It is kept under another
    name."""

    async def main() -> None:
        offsets = offsets_in(tmp_path)
        await offsets.commit({FIRST: 3})
        await offsets.commit({FIRST: 4})
        backup = offsets.path.with_name("offsets.json.bak")
        before = backup.read_bytes()
        offsets.path.write_bytes(b"{garbled")
        await offsets.commit({SECOND: 5})
        assert backup.read_bytes() == before
        assert offsets.path.with_name("offsets.json.damaged").read_bytes() == b"{garbled"
        assert [await offsets_in(tmp_path).fetch(queue) for queue in (FIRST, SECOND)] == [3, 5]
        await offsets.commit({SECOND: 6})  # from now on it is as ever
        backup.replace(offsets.path)
        assert [await offsets_in(tmp_path).fetch(queue) for queue in (FIRST, SECOND)] == [3, 5]

    asyncio.run(main())


def test_when_nothing_can_be_read_the_user_is_told_where(tmp_path: Path) -> None:
    async def main() -> None:
        offsets = offsets_in(tmp_path)
        await offsets.commit({FIRST: 3})
        offsets.path.write_text("no JSON")
        with pytest.raises(ConfigError, match=r"repair or remove .*offsets\.json"):
            await offsets.fetch(FIRST)
        offsets.update(FIRST, 5)
        await offsets.persist()  # logged; what is there is not overwritten
        assert offsets.path.read_text() == "no JSON"

    asyncio.run(main())


def test_a_shared_client_tells_whose_file_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        instance = ClientInstance(namesrv="127.0.0.1:1", client_ip="10.0.0.1", instance_name="ann")
        consumers: list[PushConsumer | PullConsumer] = [
            PushConsumer(
                "g", instance=instance, model=MessageModel.BROADCASTING, offset_folder=tmp_path
            ),
            PullConsumer(
                "g", instance=instance, model=MessageModel.BROADCASTING, offset_folder=tmp_path
            ),
        ]
        for consumer in consumers:
            assert consumer._file is not None
            assert consumer._file.path == tmp_path / "10.0.0.1@ann" / "g" / "offsets.json"

    asyncio.run(main())


Consumer = type[PushConsumer] | type[PullConsumer]


def offsets_of(kind: Consumer, folder: Path, **options: Any) -> LocalOffsets:
    """Those of a broadcasting consumer with a client of its own."""
    options |= {"namesrv": "127.0.0.1:1", "client_ip": "10.0.0.1", "offset_folder": folder}
    file = kind("g", model=MessageModel.BROADCASTING, **options)._file
    assert file is not None
    return file


WHOSE = [
    (PushConsumer, {}, "10.0.0.1@DEFAULT"),
    (PushConsumer, {"instance_name": "ann"}, "10.0.0.1@ann"),
    (PushConsumer, {"instance_name": "ann", "unit_name": "u"}, "10.0.0.1@ann@u"),
    (PullConsumer, {"instance_name": "ann"}, "10.0.0.1@ann@STREAM"),
    (PullConsumer, {"unit_name": "u"}, "10.0.0.1@DEFAULT@u@STREAM"),
]


@pytest.mark.parametrize(("kind", "options", "client_id"), WHOSE)
def test_the_folder_is_the_client_id_of_the_original(
    tmp_path: Path, kind: Consumer, options: dict[str, str], client_id: str
) -> None:
    """So a consumer goes on where a Java one stopped."""

    async def main() -> None:
        path = tmp_path / client_id / "g" / "offsets.json"
        path.parent.mkdir(parents=True)
        path.write_text(AS_JAVA_WRITES_IT)
        offsets = offsets_of(kind, tmp_path, **options)
        assert offsets.path == path
        assert await offsets.fetch(FIRST) == 17

    asyncio.run(main())


EARLIER = [
    (PushConsumer, {"instance_name": "ann", "unit_name": "u"}, "10.0.0.1@ann"),
    (PullConsumer, {}, "10.0.0.1@DEFAULT"),
    (PullConsumer, {"instance_name": "ann@home"}, "10.0.0.1@ann@home"),
]


@pytest.mark.parametrize(("kind", "options", "earlier_id"), EARLIER)
def test_what_earlier_versions_wrote_may_be_another_consumers_and_is_told(
    tmp_path: Path,
    kind: Consumer,
    options: dict[str, str],
    earlier_id: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They left unit and ``STREAM`` out. A push consumer has its file there in any version."""

    async def main() -> None:
        earlier = tmp_path / earlier_id / "g" / "offsets.json"
        name = earlier_id.partition("@")[2]
        await offsets_of(PushConsumer, tmp_path, instance_name=name).commit({FIRST: 5})
        assert earlier.exists()
        offsets = offsets_of(kind, tmp_path, **options)
        await offsets.check()
        assert await offsets.fetch(FIRST) is None
        [line] = caplog.messages
        assert f"file={earlier}" in line
        assert f"move it to {offsets.path}" in line
        await offsets.commit({SECOND: 10})
        offsets = offsets_of(kind, tmp_path, **options)
        await offsets.check()
        assert [await offsets.fetch(queue) for queue in (FIRST, SECOND)] == [None, 10]
        assert caplog.messages == [line]

    asyncio.run(main())


def test_a_damaged_file_of_another_consumer_keeps_nobody_from_starting(tmp_path: Path) -> None:
    async def main() -> None:
        earlier = tmp_path / "10.0.0.1@ann" / "g" / "offsets.json"
        earlier.parent.mkdir(parents=True)
        earlier.write_text("no JSON")
        offsets = offsets_of(PullConsumer, tmp_path, instance_name="ann")
        await offsets.check()
        assert await offsets.fetch(FIRST) is None

    asyncio.run(main())
