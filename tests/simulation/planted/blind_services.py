"""Three more defects to be planted, made up, of the services around the store: tables,
transactions, sends that are stored once. No other test sees them.

Whoever wrote them knew neither workload nor faults, knobs, habits and invariants, and has run no
seed. Of 24 candidates other tests saw 18 (``other_tests.py``). Fourteen were written down, the
gravest first, before the first was tried: one of these is here (tables). Ten came later, when most
of the others had been seen: two are here, the one about transactions in place of a graver one,
which e2e/test_transactions saw now and then. Of the three that are left, which not all tests have
tried, one breaks no promise, one resembles a known one, and one is next to never the case.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from aiorocketmq.broker.assembly.tables import Tables
from aiorocketmq.broker.processors.sequenced_send import Sequenced, SequencedSends
from aiorocketmq.broker.sends.placement import HALF_QUEUE_ID
from aiorocketmq.broker.state.config_files import ConfigFile
from aiorocketmq.broker.transactions.transaction_check import TransactionCheck, log
from aiorocketmq.broker.transactions.transactions import TRANSACTION_GROUP
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.model.status import PutResult

from .defect import Defect


async def _in_its_own_file(_self: Tables, file: ConfigFile) -> None:
    await file.saved()


async def _settled_or_not(self: TransactionCheck) -> bool:
    halves, ops = TopicName.TRANS_HALF, TopicName.TRANS_OP_HALF
    progress = self._halves.progress(self._store.max_offset(ops, HALF_QUEUE_ID))
    if progress == self._saved_progress():
        return True
    is_safe = await self._settled()
    for topic, offset in ((halves, progress.halves), (ops, progress.ops)):
        self._offsets.commit(TRANSACTION_GROUP, topic, HALF_QUEUE_ID, offset, limited=False)
    try:
        await self._save_offsets()
    except StoreFileError as error:
        text = "progress of transactions not saved: %s"
        self._outages.fails(log, ("save",), text, error, level=logging.ERROR)
    else:
        self._outages.works(("save",))
    return is_safe


def _waits_for_nobody(self: SequencedSends, it: Sequenced) -> PutResult:
    result = _as_the_first_time(self, it)
    return replace(result, phy_offset=0) if self._durability.for_all else result


_as_the_first_time = SequencedSends.first_result

IN_SERVICES = (
    Defect("administrators are told of a change before a majority has it", False,
           Tables, "settled", _in_its_own_file, ("group",)),
    Defect("progress of transactions is saved though what it tells of is not safe", False,
           TransactionCheck, "_settle", _settled_or_not),
    Defect("a repeat at a member of a group waits for nobody", False,
           SequencedSends, "first_result", _waits_for_nobody, ("group",)),
)  # fmt: skip
