"""Six more defects to be planted, made up, which no other test sees.

Nobody who wrote them has looked at workload, faults, knobs or invariants, and nothing was changed
for them. They come from one list, as they came to mind: of each piece of the product (store, group,
retries, tables, client, sends that are stored once) the first that no other test saw
(``other_tests.py``), before a seed was run with one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiorocketmq.broker.processors import send_back
from aiorocketmq.broker.processors.sequenced_send import Sequenced, SequencedSends
from aiorocketmq.broker.replication.slave_sync import SlaveSync
from aiorocketmq.client.consumer import pulling
from aiorocketmq.client.consumer.pulling import Pulled
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.dledger.raft_store import MemberLog
from aiorocketmq.store.log.entry_log import DledgerLog
from aiorocketmq.store.model.status import PutResult

from .defect import Defect


def _all_names_by_now(self: MappedFileQueue, *above: Path) -> None:
    if self.new_files:
        for directory in (self.directory, *self._others, *above):
            if self.disk.is_directory(directory):
                self.disk.sync_directory(directory)
        self.new_files = False


def _ends_stay_known(self: MemberLog, end_index: int) -> None:
    self._must_be_open(end_index + 1)
    DledgerLog.truncate(self, end_index)


async def _whatever_was_told_meanwhile(self: SlaveSync, step: Any, master: str, code: Any) -> bool:
    version = self._version_of(code)
    self._version_of = lambda _code: version  # type: ignore[method-assign,assignment]
    try:
        return await _tried(self, step, master, code)
    finally:
        del self._version_of


def _goes_on_as_asked(pulled: Pulled, other: Pulled, asked_offset: int) -> Pulled:
    return _together(pulled, other, asked_offset)._replace(next_offset=pulled.next_offset)


def _waits_for_its_begin(
    self: SequencedSends, it: Sequenced, result: PutResult, now_ms: int
) -> None:
    end = result.phy_offset
    self._table.stored(it.key, it.sequence, it.have, it.messages, result.queue_offset, end, now_ms)


_tried, _together = SlaveSync._try, pulling.together

MADE_UP = (
    Defect("what is given back counts as safe though the disk was not in time", False,
           send_back, "_AS_SAFE_AS_SENDS",
           {*send_back._AS_SAFE_AS_SENDS, ResponseCode.FLUSH_DISK_TIMEOUT}),
    Defect("where entries ended that were taken back stays known", False,
           MemberLog, "truncate", _ends_stay_known, ("group",)),
    Defect("names of files that come while their folder is synced count as durable", False,
           MappedFileQueue, "sync_directory", _all_names_by_now),
    Defect("a repeat waits for what lies in front of its message only", False,
           SequencedSends, "stored", _waits_for_its_begin, ("masters", "pair")),
    Defect("what another replica did not have is passed over with the damage", False,
           pulling, "together", _goes_on_as_asked, ("pair", "group")),
    Defect("tables are taken over though the log has told more meanwhile", False,
           SlaveSync, "_try", _whatever_was_told_meanwhile, ("group",)),
)  # fmt: skip
