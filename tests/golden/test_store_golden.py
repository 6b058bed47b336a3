"""Store directories written by the original: they open here with everything in them, and stay as
they are."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message.compression import CompressionUnavailable
from aiorocketmq.remoting.protocol.message.message_id import parse_offset_message_id
from aiorocketmq.remoting.protocol.record import NewRecord, decode_record, encode_record
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from tests.stored import EntryKind, StoreDirectory, decode_messages

from ..store.world import folder_contents
from .captured_stores import GOLDEN, Golden, all_stores, dumped_units, lines_of, put_of, queue_units


def described(message: MessageExt) -> dict[str, Any]:
    """A record as the dumps describe it."""
    return {
        "physicalOffset": message.commit_log_offset,
        "storeSize": message.store_size,
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bodyCRC": message.body_crc,
        "bornTimestamp": message.born_timestamp,
        "bornHost": java_host(message.born_host),
        "storeTimestamp": message.store_timestamp,
        "storeHost": java_host(message.store_host),
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "offsetMsgId": message.offset_msg_id,
        "properties": message.properties,
        "rawBodyLen": len(message.stored_body),
        "rawBodySha1": hashlib.sha1(message.stored_body).hexdigest(),
    }


def java_host(host: str) -> str:
    """Java writes the whole of an IPv6 address."""
    return "/" + host.replace("[::1]", "[0:0:0:0:0:0:0:1]")


@all_stores
def test_the_directory_is_read_as_the_original_reads_it(golden: Golden, tmp_path: Path) -> None:
    root = golden.extract(tmp_path)
    dump = golden.dump()
    entries = list(StoreDirectory(root).entries())
    records = [line for line in dump if line["type"] == "msg"]
    found = [described(entry.message) for entry in entries if entry.message is not None]
    assert found == [{key: line[key] for key in found[0]} for line in records]
    assert not [entry for entry in entries if entry.kind is EntryKind.DAMAGED]
    blanks = [(entry.phy_offset, entry.size) for entry in entries if entry.kind is EntryKind.BLANK]
    assert blanks == [
        (line["physicalOffset"], line["size"]) for line in dump if line["type"] == "blank"
    ]
    assert sorted(queue_units(root)) == dumped_units(dump)
    (checkpoint,) = (line for line in dump if line["type"] == "checkpoint")
    read = StoreDirectory(root).checkpoint()
    assert read.physic_msg_timestamp == checkpoint["physicMsgTimestamp"]
    assert read.logics_msg_timestamp == checkpoint["logicsMsgTimestamp"]
    assert read.index_msg_timestamp == checkpoint["indexMsgTimestamp"]
    assert read.safe_phy_offset is None


@all_stores
def test_a_record_is_made_of_its_fields_as_the_original_makes_it(
    golden: Golden, tmp_path: Path
) -> None:
    root = golden.extract(tmp_path)
    for path in sorted((root / "commitlog").iterdir()):
        data = path.read_bytes()
        for message in decode_messages(data):
            head = message.head
            encoded = encode_record(
                NewRecord(
                    message.topic,
                    head.queue_id,
                    message.stored_body,
                    message.raw_properties,
                    queue_offset=head.queue_offset,
                    phy_offset=head.phy_offset,
                    sys_flag=head.sys_flag,
                    born_timestamp=head.born_timestamp,
                    born_host=head.born_host,
                    store_timestamp=head.store_timestamp,
                    store_host=head.store_host,
                    flag=head.flag,
                    reconsume_times=head.reconsume_times,
                    prepared_transaction_offset=head.prepared_transaction_offset,
                )
            )
            at = head.phy_offset - int(path.name)
            assert encoded == data[at : at + head.store_size]


@pytest.mark.parametrize("golden", [GOLDEN[0], GOLDEN[2]], ids=lambda golden: golden.name)
def test_opening_and_closing_a_clean_store_changes_only_checkpoint_and_queueends(
    golden: Golden, tmp_path: Path
) -> None:
    root = golden.extract(tmp_path)
    before = folder_contents(root)
    store = golden.open(root)
    (end,) = (line for line in golden.dump() if line["type"] == "end")
    assert store.max_phy_offset == end["physicalOffset"]
    assert store.recovery is not None
    assert store.recovery.start > 0
    store.close()
    after = folder_contents(root)
    assert before.pop("checkpoint")[:8] == after.pop("checkpoint")[:8]
    assert after.pop("queueends")
    assert after == before


@all_stores
def test_every_acknowledged_message_is_found_by_offset_and_by_id(
    golden: Golden, tmp_path: Path
) -> None:
    store = golden.open(golden.extract(tmp_path))
    acknowledged = [sent for sent in golden.manifest() if sent.get("offsetMsgId")]
    assert len(acknowledged) >= 6
    for sent in acknowledged:
        number = sent["msgId"].split(",").index(sent["properties"]["UNIQ_KEY"])  # in its batch
        message_id = sent["offsetMsgId"].split(",")[number]
        phy_offset = parse_offset_message_id(message_id).phy_offset
        record = store.message_by_offset(phy_offset)
        assert record is not None
        message = decode_record(record, check_crc=True)
        assert message.offset_msg_id == store.message_id(phy_offset) == message_id
        assert message.queue_offset == sent["queueOffset"] + number
        assert_body(message, sent)
        # The broker drops WAIT and puts the highest delay level there is in the place of a higher
        # one.
        properties = {
            name: value
            for name, value in sent["properties"].items()
            if name not in ("WAIT", "DELAY")
        }
        assert properties.items() <= message.properties.items()
        assert message.properties.keys() - sent["properties"].keys() <= {
            "CLUSTER",
            "REAL_TOPIC",
            "REAL_QID",
        }
        assert store.get(message.topic, message.queue_id, message.queue_offset, 1).body == record
    store.close()


def assert_body(message: MessageExt, sent: dict[str, Any]) -> None:
    try:
        body = message.body
    except CompressionUnavailable:
        assert message.sys_flag & 0x301 in (0x101, 0x201)
        return
    assert hashlib.sha1(body).hexdigest() == sent["bodySha1"]


def test_recovery_after_a_kill_comes_to_the_state_the_original_came_to(tmp_path: Path) -> None:
    golden = GOLDEN[1]
    root = golden.extract(tmp_path)
    store = golden.open(root)
    assert store.recovery is not None
    assert not store.recovery.clean
    assert [store.max_offset("GoldKill", queue_id) for queue_id in range(4)] == [386, 385, 385, 386]
    store.close()
    recovered = lines_of("store-sigkill-after-recovery.dump")
    assert sorted(queue_units(root)) == dumped_units(recovered)
    records = [described(message) for message in StoreDirectory(root).records()]
    assert records == [
        {key: line[key] for key in records[0]} for line in recovered if line["type"] == "msg"
    ]
    assert len(records) == 1542
    assert not StoreDirectory(root).has_abort_file
    assert StoreDirectory(root).checkpoint().physic_msg_timestamp == records[-1]["storeTimestamp"]


@pytest.mark.parametrize("lost", ["consumequeue", "checkpoint", "abort"])
@all_stores
def test_the_queues_are_rebuilt_from_the_commit_log_alone(
    golden: Golden, lost: str, tmp_path: Path
) -> None:
    """Tags codes, times of delivery and numbers come out of the records as the original wrote them
    into the queues."""
    root = golden.extract(tmp_path)
    expected = golden.dump()
    if golden.name == "sigkill":
        expected = lines_of("store-sigkill-after-recovery.dump")
    if lost == "consumequeue":
        for path in sorted((root / "consumequeue").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    elif lost == "checkpoint":
        (root / "checkpoint").unlink()
        (root / "abort").touch()
    else:
        (root / "abort").unlink(missing_ok=True)
    golden.open(root).close()
    assert sorted(queue_units(root)) == dumped_units(expected)


@all_stores
def test_the_same_messages_put_again_give_the_same_files(golden: Golden, tmp_path: Path) -> None:
    """From their fields, with the original's clock and hosts: commit log and consume queues are
    equal byte for byte."""
    root = golden.extract(tmp_path)
    ours = tmp_path / "ours"
    store = golden.open(ours)
    units = {
        phy_offset: code
        for file in StoreDirectory(root).queue_files()
        for _, phy_offset, _, code in file.units
    }
    messages = list(StoreDirectory(root).records())
    for message in messages:
        head = message.head
        result = store.put_message(put_of(message, units.get(head.phy_offset)))
        assert (result.phy_offset, result.queue_offset) == (head.phy_offset, head.queue_offset), (
            result
        )
    store.close()
    written, original = folder_contents(ours), folder_contents(root)
    if (
        golden.name == "sigkill"
    ):  # the original was killed: its last unit is missing and its next file is there
        assert sorted(queue_units(ours)) == dumped_units(
            lines_of("store-sigkill-after-recovery.dump")
        )
        original = {name: data for name, data in original.items() if not name.endswith("1048576")}
    folders = ("commitlog/", "consumequeue/") if golden.name != "sigkill" else ("commitlog/",)
    for folder in folders:
        assert {n: d for n, d in written.items() if n.startswith(folder)} == {
            n: d for n, d in original.items() if n.startswith(folder)
        }
