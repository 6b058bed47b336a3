"""What is put back into a log; most of it is tried where replicas are asked
(``broker/replication``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.store.model.errors import StoreFileError

from ...fault.disks import BadSectorDisk
from ..world import open_store, put_ok


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
