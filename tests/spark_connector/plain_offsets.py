"""``StreamOffsets`` for tests that say where a query is by its offsets alone."""

from __future__ import annotations

from aiorocketmq.spark_connector.access.checkpoint import Checkpoint
from aiorocketmq.spark_connector.access.offsets import Offsets
from aiorocketmq.spark_connector.source.stream_offsets import StreamOffsets


class PlainOffsets:
    """What else is in a checkpoint is remembered, where a query goes on from the end that it was
    given."""

    def __init__(self, offsets: StreamOffsets) -> None:
        self._inner = offsets
        self.checkpoint = Checkpoint({})
        self.prepare_available_now = offsets.prepare_available_now
        self.seen = offsets.seen

    def initial(self) -> Offsets:
        return self._keep(self._inner.initial())

    def latest(self, start: Offsets, *, everything: bool = False) -> Offsets:
        return self._keep(self._inner.latest(self._with_facts(start), everything=everything))

    def committed(self, end: Offsets) -> None:
        self._inner.committed(self._with_facts(end))

    def _keep(self, checkpoint: Checkpoint) -> Offsets:
        self.checkpoint = checkpoint
        return dict(checkpoint.offsets)

    def _with_facts(self, offsets: Offsets) -> Checkpoint:
        return self.checkpoint if self.checkpoint.offsets == offsets else Checkpoint(offsets)
