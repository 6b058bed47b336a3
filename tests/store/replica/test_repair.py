"""What is put back into a log; most of it is tried where replicas are asked
(``broker/replication``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.store.model.errors import StoreFileError, SyncFailedError
from aiorocketmq.store.model.status import PutStatus

from ...fault.disks import BadSectorDisk, BrokenDisk
from ..world import open_store, put, put_ok


def test_a_record_whose_body_cannot_be_read_is_put_back(tmp_path: Path) -> None:
    """Written as a whole, a bad sector is a good one again."""
    disk = BadSectorDisk()
    store = open_store(tmp_path, disk, mapped_file_size_commit_log=1 << 16)
    put_ok(store)
    place = put_ok(store, body=bytes(range(256)) * 50)
    record = store.read(place.phy_offset, place.size)
    assert record is not None
    disk.bad = {"0" * 20: 4096}
    file = store._log.files.files[0]
    with pytest.raises(StoreFileError, match="Input/output error"):
        file.read_unmapped(place.phy_offset, place.size)
    store.put_record_back(place.phy_offset, record)
    assert disk.bad == {}
    assert file.read_unmapped(place.phy_offset, place.size) == record
    store.close()


@pytest.mark.parametrize("is_written", [True, False])
def test_a_sync_that_fails_then_is_one_of_the_log(tmp_path: Path, is_written: bool) -> None:
    """It may have dropped what was written behind, which no later sync writes. Where nothing was,
    the place is not mended, and that is all."""
    disk = BrokenDisk()
    store = open_store(tmp_path, disk)
    place = put_ok(store)
    record = store.read(place.phy_offset, place.size)
    assert record is not None
    if not is_written:
        while store.max_phy_offset < store.config.mapped_file_size_commit_log:
            put_ok(store, body=bytes(1000))
        assert store.flush.save()
    store._log.files.files[0].put_back(place.phy_offset + 88, b"?")
    disk.broken = True
    with pytest.raises(SyncFailedError):
        store.put_record_back(place.phy_offset, record)
    disk.broken = False
    assert (store.flush.broken is not None) == is_written
    assert (put(store).status is not PutStatus.PUT_OK) == is_written
    assert store.flush.save_log() != is_written
    store.close()
