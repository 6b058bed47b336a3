"""Messages that are put together lie where, and as, they would if they were put one after the other."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message import tags_code_of
from aiorocketmq.store.alike_writer import AlikeMessages, AlikeResult
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.status import PutStatus

from .world import BORN_HOST, NOW, folder_contents, messages_of, open_store

numpy = pytest.importorskip("numpy")

KEY_AT = len(b"UNIQ_KEY\x01")
QUEUES = 3


class Sent:
    """One message of a group."""

    def __init__(self, queue_id: int, body: bytes, key: int, born: int) -> None:
        self.queue_id, self.body, self.key, self.born = queue_id, body, b"%08X" % key, NOW - born

    @property
    def properties(self) -> bytes:
        return b"UNIQ_KEY\x01" + self.key + b"\x02TAGS\x01A"


messages = st.builds(
    Sent, st.integers(0, QUEUES - 1), st.binary(max_size=200), st.integers(0, 2**32 - 1), st.integers(0, 9999)
)
groups = st.lists(st.lists(messages, min_size=1, max_size=12), min_size=1, max_size=5)


def alike(group: list[Sent], **changes: Any) -> AlikeMessages:
    fields: dict[str, Any] = {
        "topic": "T",
        "queue_ids": numpy.array([each.queue_id for each in group]),
        "bodies": [each.body for each in group],
        "properties": group[0].properties,
        "key_at": (KEY_AT, KEY_AT + 8),
        "keys": numpy.frombuffer(b"".join(each.key for each in group), numpy.uint8).reshape(len(group), 8),
        "born_hosts": BORN_HOST * len(group),
        "born_timestamps": numpy.array([each.born for each in group]),
        "store_timestamp": NOW,
        "tags_code": tags_code_of(group[0].properties),
        "flag": -7,
        "sys_flag": 2,
        "reconsume_times": 1,
    }
    return AlikeMessages(**{**fields, **changes})


def put_one(store: MessageStore, each: Sent) -> tuple[int, int]:
    result = store.put_message(
        "T", each.queue_id, each.body, each.properties, BORN_HOST, each.born, NOW, tags_code_of(each.properties), -7, 2, 1,
        0, KEY_AT + 8,
    )  # fmt: skip
    assert result.status is PutStatus.PUT_OK
    return result.phy_offset, result.queue_offset


def first_of_every_queue(store: MessageStore) -> None:
    for queue_id in range(QUEUES):
        put_one(store, Sent(queue_id, b"first", queue_id, 0))


@settings(deadline=None, max_examples=60)
@given(groups)
def test_as_one_by_one(sent: list[list[Sent]]) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        together, singly = open_store(Path(one)), open_store(Path(other))
        for store in (together, singly):
            first_of_every_queue(store)
        assert together.put_alike is not None
        for group in sent:
            result = together.put_alike(alike(group))
            places = [put_one(singly, each) for each in group]
            if result is None:  # no room in this file, say
                assert [put_one(together, each) for each in group] == places
                continue
            assert list(zip(result.phy_offsets.tolist(), result.queue_offsets.tolist(), strict=True)) == places
            assert together.max_phy_offset == singly.max_phy_offset == places[0][0] + result.size
        for store in (together, singly):
            store.close()
        assert folder_contents(Path(one)) == folder_contents(Path(other))


@pytest.fixture
def store(tmp_path: Path) -> Any:
    opened = open_store(tmp_path)
    first_of_every_queue(opened)
    yield opened
    opened.close()


GROUP = [Sent(number % QUEUES, b"body %d" % number, number, 0) for number in range(5)]


def test_a_group_is_stored_in_fact(store: MessageStore) -> None:
    assert store.put_alike is not None
    assert isinstance(store.put_alike(alike(GROUP)), AlikeResult)
    assert [message.body for message in messages_of(store, queue_id=0)] == [b"first", b"body 0", b"body 3"]


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "unknown"},
        {"queue_ids": numpy.array([0, 1, 2, 0, QUEUES])},
        {"queue_ids": numpy.array([0, 1, 2, 0, 2**31 - 1])},
        {"bodies": [b"x" * 9000] * 5},
        {"bodies": [b"x" * 2000] * 5},
        {"properties": GROUP[0].properties + b"\x02x\x01" + b"y" * 40_000},
    ],
)
def test_what_is_not_as_usual_is_left_alone(store: MessageStore, changes: dict[str, Any]) -> None:
    end, offsets = store.max_phy_offset, [store.max_offset("T", queue_id) for queue_id in range(QUEUES)]
    assert store.put_alike is not None
    assert store.put_alike(alike(GROUP, **changes)) is None
    assert (store.max_phy_offset, [store.max_offset("T", queue_id) for queue_id in range(QUEUES)]) == (end, offsets)


def test_large_groups_are_left_alone(tmp_path: Path) -> None:
    opened = open_store(tmp_path, mapped_file_size_commit_log=8 << 20)
    first_of_every_queue(opened)
    assert opened.put_alike is not None
    assert opened.put_alike(alike(GROUP, bodies=[bytes(100_000)] * 5)) is not None
    assert opened.put_alike(alike(GROUP, bodies=[bytes(300_000)] * 5)) is None
    opened.close()


def test_nothing_is_taken_by_a_store_that_refuses(store: MessageStore) -> None:
    put_alike = store.put_alike
    assert put_alike is not None
    store.close()
    assert put_alike(alike(GROUP)) is None


def test_who_waits_for_messages_is_told(store: MessageStore) -> None:
    arrivals: list[tuple[str, int, int, int, int]] = []
    store.on_arrival.append(lambda *arrival: arrivals.append(arrival))
    store.watch("T", 1)
    assert store.put_alike is not None
    assert store.put_alike(alike(GROUP)) is not None
    store.notify()
    assert arrivals == [("T", 1, 3, tags_code_of(GROUP[0].properties), NOW)]


@pytest.mark.parametrize("feature", [{"enable_consume_queue_ext": True}, {"enable_multi_dispatch": True}])
def test_stages_see_every_message_on_its_own(tmp_path: Path, feature: dict[str, bool]) -> None:
    opened = open_store(tmp_path, **feature)
    assert opened.put_alike is None
    opened.close()
