"""The short way of a pull gives what the long way gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.properties import tags_code
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.read.message_reader import MessageReader
from tests.stored import decode_messages

from ..world import open_store, put_ok


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    """Interleaved and neighbouring records over several files of the log and of the queues."""
    folder: Path = tmp_path_factory.mktemp("reader")
    store = open_store(folder, max_transfer_bytes_on_message_in_memory=3000)
    for number in range(120):
        tags = {"TAGS": "ab"[number // 7 % 2]}
        put_ok(
            store, queue_id=0 if number % 5 else 1, body=b"x" * (number * 37 % 300), properties=tags
        )
        if number % 9 == 0:
            put_ok(store, "Other", body=b"y" * 50)
    yield store
    store.close()


@given(
    offset=st.integers(0, 100),
    queue_id=st.integers(0, 1),
    max_count=st.integers(1, 40),
    tags=st.none() | st.sets(st.sampled_from([tags_code("a"), tags_code("b"), 5])).map(frozenset),
    max_bytes=st.none() | st.integers(0, 4000),
)
def test_both_ways_of_reading_give_the_same(
    store: MessageStore,
    offset: int,
    queue_id: int,
    max_count: int,
    tags: frozenset[int] | None,
    max_bytes: int | None,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        short = store.get("T", queue_id, offset, max_count, tags=tags, max_bytes=max_bytes)
        patch.setattr(MessageReader, "_whole", lambda *_: None)
        assert store.get("T", queue_id, offset, max_count, tags=tags, max_bytes=max_bytes) == short


def test_the_usual_pull_takes_the_short_way(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    whole = MessageReader._whole

    def noted(self: MessageReader, *arguments: Any) -> Any:
        result = whole(self, *arguments)
        taken.append(result is not None)
        return result

    monkeypatch.setattr(MessageReader, "_whole", noted)
    assert store.get("T", 0, 0, 4).count == 4
    assert store.get("T", 0, 0, 4, tags=frozenset({tags_code("a")})).count == 4
    assert 4 < store.get("T", 0, 0, 90, max_bytes=2000).count < 20  # what fits
    assert taken == [True] * 3


def test_many_short_messages_take_the_short_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(
        tmp_path, mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000
    )
    for _ in range(600):
        put_ok(store, body=b"x")
    monkeypatch.setattr(MessageReader, "_scan", None)
    assert store.get("T", 0, 0, 512, max_bytes=1 << 20).count == 512
    store.close()


@pytest.mark.parametrize("tags", [None, frozenset({tags_code("a")})])
def test_a_file_without_records_is_passed_over(tmp_path: Path, tags: frozenset[int] | None) -> None:
    """Somebody put zeros in its place after an orderly stop: the queues still point there."""
    store = open_store(tmp_path)
    while store.max_phy_offset < 3 * 8192:
        put_ok(store, body=b"x" * 500, properties={"TAGS": "a"})
    count = store.max_offset("T", 0)
    store.close()
    path = tmp_path / "commitlog" / f"{8192:020d}"
    path.write_bytes(bytes(8192))
    store = open_store(tmp_path)
    offset, begins = 0, []
    while offset < count:
        result = store.get("T", 0, offset, tags=tags)
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
        begins += [
            message.commit_log_offset for message in decode_messages(result.body, check_crc=True)
        ]
    assert {at // 8192 for at in begins} == {0, 2, 3}
    store.close()
