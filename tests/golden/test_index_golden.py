"""Index files written by the original: read, searched, continued, recovered, and written again byte
for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message.index_keys import keys_of
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.index.index_file import IndexFile
from aiorocketmq.store.message_store import MessageStore
from tests.stored import StoreDirectory, decode_messages

from ..store.world import folder_contents
from .captured_stores import GOLDEN, Golden, all_stores, lines_of, put_of

SLOTS, ITEMS = 100, 400
FOREVER = (0, (1 << 63) - 1)


def index_files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "index").iterdir())}


def described(name: str, data: bytes) -> dict[str, Any]:
    """An index file as the dumps describe it."""
    index = IndexFile(data, SLOTS, ITEMS)
    return {
        "file": name,
        "fileSize": len(data),
        "beginTimestamp": index.begin_timestamp,
        "endTimestamp": index.end_timestamp,
        "beginPhyOffset": index.begin_phy_offset,
        "endPhyOffset": index.end_phy_offset,
        "hashSlotCount": index.slots_used,
        "indexCount": index.count,
        "entries_hash_phy_timediffsec_prev": [list(item) for item in index.items()],
    }


def dumped(dump: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = (
        {name: line[name] for name in line if name != "type"}
        for line in dump
        if line["type"] == "index"
    )
    return sorted(lines, key=lambda line: line["file"])


def put_again(store: MessageStore, root: Path) -> None:
    """Every message of another store, from its fields."""
    for message in StoreDirectory(root).records():
        store.put_message(put_of(message))


@all_stores
def test_index_files_are_read_as_the_original_reads_them(golden: Golden, tmp_path: Path) -> None:
    files = index_files(golden.extract(tmp_path))
    assert files
    assert [described(name, data) for name, data in files.items()] == dumped(golden.dump())


@all_stores
def test_every_message_is_found_by_its_keys(golden: Golden, tmp_path: Path) -> None:
    store = golden.open(golden.extract(tmp_path))
    sent = [line for line in golden.manifest() if line.get("offsetMsgId")]
    assert len(sent) >= 6
    for line in sent:
        properties = line["properties"]
        # Delayed and half messages are indexed under the topic that they wait in, and under their
        # own later.
        topics = (line["topic"], TopicName.SCHEDULE, TopicName.TRANS_HALF)
        for key in (properties["UNIQ_KEY"], *filter(None, properties.get("KEYS", "").split(" "))):
            found = b"".join(
                at_once(store.query.steps(topic, key, 64, *FOREVER)).records for topic in topics
            )
            messages = list(decode_messages(found, check_crc=True))
            unique_keys = {message.properties["UNIQ_KEY"] for message in messages}
            assert properties["UNIQ_KEY"] in unique_keys or len(messages) >= 64, (
                line["topic"],
                key,
            )
            assert all(key.encode() in keys_of(message.raw_properties) for message in messages)
    store.close()


@all_stores
def test_the_same_messages_put_again_give_the_same_index(golden: Golden, tmp_path: Path) -> None:
    """All but the names, which tell when a file was made."""
    root = golden.extract(tmp_path)
    store = golden.open(tmp_path / "ours")
    put_again(store, root)
    store.close()
    ours = list(index_files(tmp_path / "ours").values())
    original = list(index_files(root).values())
    if golden.name == "sigkill":  # the original was killed before it had indexed its last message
        complete, last = (
            dumped(golden.dump())[:-1],
            dumped(golden.dump())[-1]["entries_hash_phy_timediffsec_prev"],
        )
        assert ours[: len(complete)] == original[: len(complete)]
        assert [list(item) for item in IndexFile(ours[-1], SLOTS, ITEMS).items()][
            : len(last)
        ] == last
    else:
        assert ours == original


@pytest.mark.parametrize("golden", [GOLDEN[0], GOLDEN[2]], ids=lambda golden: golden.name)
def test_after_a_clean_stop_the_index_goes_on(golden: Golden, tmp_path: Path) -> None:
    """What the original wrote and we go on with is what we write alone."""
    root = golden.extract(tmp_path)
    whole = golden.open(tmp_path / "whole")
    put_again(whole, root)
    put_again(whole, root)
    whole.close()
    (tmp_path / "source").mkdir()
    source = golden.extract(tmp_path / "source")
    store = golden.open(root)
    put_again(store, source)
    store.close()
    assert list(index_files(root).values()) == list(index_files(tmp_path / "whole").values())


def test_after_a_kill_the_last_file_is_built_again(tmp_path: Path) -> None:
    """As the original did it, but for one thing: of a message whose items begin in the file before,
    it indexes all again."""
    golden = GOLDEN[1]
    root = golden.extract(tmp_path)
    before = index_files(root)
    store = golden.open(root)
    for line in golden.manifest():
        found = at_once(store.query.steps(line["topic"], line["msgId"], 64, *FOREVER))
        assert len(list(decode_messages(found.records))) == 1
    store.close()
    after = index_files(root)
    assert list(after)[:-1] == list(before)[:-1]
    assert list(after.values())[:-1] == list(before.values())[:-1]
    assert list(after)[-1] not in before
    theirs = dumped(lines_of("store-sigkill-after-recovery.dump"))[-1]
    ours = described(list(after)[-1], list(after.values())[-1])
    items, their_items = (
        ours["entries_hash_phy_timediffsec_prev"],
        theirs["entries_hash_phy_timediffsec_prev"],
    )
    assert [item[:3] for item in items] == [item[:3] for item in their_items[1:]]
    assert their_items[0][0] == before_last_hash(before)
    for name in ("beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset"):
        assert ours[name] == theirs[name]


def before_last_hash(before: dict[str, bytes]) -> int:
    *_, last = IndexFile(list(before.values())[-2], SLOTS, ITEMS).items()
    return last[0]


@all_stores
def test_opening_and_closing_leaves_a_whole_index_as_it_is(golden: Golden, tmp_path: Path) -> None:
    root = golden.extract(tmp_path)
    golden.open(root).close()
    once = {name: data for name, data in folder_contents(root).items() if name.startswith("index/")}
    golden.open(root).close()
    assert {
        name: data for name, data in folder_contents(root).items() if name.startswith("index/")
    } == once
