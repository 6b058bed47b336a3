"""Which rows a batch has, where each goes and what number it has: decided once, before the first is
sent, and found again by whoever repeats the batch. Pure but for the folder that it is kept in.

Numbers and epochs follow from the batch's number alone: batch ``b`` has the epoch ``b + 1`` and
begins in each queue with the number ``b << 32``. A broker takes the first number of a new epoch
whatever it is, so nothing has to be remembered from batch to batch but the producer's id, which
keeps the broker's table short; it is another one for what goes on from a copy.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.send_sequence import SendSequence
from .chunks import Chunk
from .staging import Folder, StagingError, staged_chunks

__all__ = ["Batches", "Manifest", "Placed", "placed_chunks"]

log: Final = logging.getLogger(__name__)

_NAME: Final = "manifest.json"
_DONE: Final = "done"
_PLACE: Final = "place"
"""Where the decision lies, as it was written: a copy of it lies elsewhere."""
_VERSION: Final = 1
_BATCH_BITS: Final = 32


class Manifest(msgspec.Struct, kw_only=True):
    """What is decided about a batch."""

    version: int = _VERSION
    batch: int
    producer_id: str
    begun_ms: dict[str, int]
    """By the name of a broker, when the batch was new there: by its clock."""
    queues: dict[str, list[tuple[str, int]]]
    """By topic, the queues (broker name, queue id) that take turns for rows that are bound to
    none."""
    files: list[str]
    rows: int
    query: str | None = None
    """In whose ``foreachBatch`` it was written, by the id that its checkpoint keeps; empty: in that
    of none. None: nobody can tell, as an earlier version could not."""
    plan: str | None = None
    """Which rows Spark had planned for it, as a hash. None: nobody can tell, likewise."""


class Placed(msgspec.Struct):
    """A chunk that may be sent any number of times."""

    chunk: Chunk
    queue: MessageQueue
    sequence: SendSequence

    @property
    def rows(self) -> int:
        """Of the chunk."""
        return self.chunk.rows


_decoder: Final = msgspec.json.Decoder(Manifest)


class Batches:
    """The batches of one query, or of one write, in their folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder: Final = folder

    def folder(self, batch: int) -> Folder:
        """Where the rows of a batch are."""
        return self._folder / str(batch)

    def manifest(self, batch: int) -> Manifest | None:
        """What was decided before. Raises ``StagingError``."""
        folder = self.folder(batch)
        data = folder.read(_NAME)
        if data is None:
            return None
        try:
            found = _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise StagingError(f"{folder.path}/{_NAME} cannot be read: {error}") from None
        if found.version != _VERSION:
            raise StagingError(
                f"{folder.path}/{_NAME} has the version {found.version}, {_VERSION} is known here: "
                "finish the batch with the aiorocketmq that began it"
            )
        return found

    def decide(self, manifest: Manifest) -> bool:
        """This, unless somebody was faster: whether nobody was. Raises ``StagingError``."""
        folder = self.folder(manifest.batch)
        folder.make()
        is_first = folder.write_first(_NAME, msgspec.json.encode(manifest))
        if is_first:
            folder.write_first(_PLACE, folder.place_of(_NAME).encode())
        return is_first

    def is_done(self, batch: int) -> bool:
        """All its rows are in their topics. Raises ``StagingError``."""
        return self.folder(batch).read(_DONE) is not None

    def done(self, batch: int, run: str | None = None) -> bool:
        """Its rows are in their topics: they are deleted here, and so are batches before. Whether
        this is the first write of the ``run`` that says so: a query that is started again repeats
        its last batch, but none twice. Raises ``StagingError``."""
        folder, by = self.folder(batch), (run or "").encode()
        first = folder.write_first(_DONE, by) or run is None or self._is_first(folder, run)
        for name in folder.names():
            if name.startswith("part-"):
                folder.delete(name)
        for name in self._folder.names():
            if name.isdecimal() and int(name) < batch:
                self._folder.delete(name)
        return first

    @staticmethod
    def _is_first(folder: Folder, run: str) -> bool:
        return folder.read(_DONE) != run.encode() and folder.write_first(f"{_DONE}-{run}", b"")

    def forget(self, batch: int) -> None:
        """Nothing of it is to be sent. Raises ``StagingError``."""
        self._folder.delete(str(batch))

    def last(self) -> Manifest | None:
        """Of the last batch that is known. Raises ``StagingError``."""
        known = sorted((int(n) for n in self._folder.names() if n.isdecimal()), reverse=True)
        return next(filter(None, map(self.manifest, known)), None)

    def producer_id(self) -> str:
        """That of the last batch, unless this is a copy of what was decided, or was put back: who
        goes on from there has other rows under the same numbers. Else a new one, which nobody can
        guess. Raises ``StagingError``."""
        last = self.last()
        if last is not None:
            folder = self.folder(last.batch)
            if folder.read(_PLACE) == folder.place_of(_NAME).encode():
                return last.producer_id
        return os.urandom(16).hex()


def placed_chunks(folder: Folder, manifest: Manifest) -> Iterator[Placed]:
    """All chunks of a batch with their queues and numbers, the same each time. Raises
    ``StagingError``."""
    numbers: dict[MessageQueue, int] = {}
    turns = 0
    for name in manifest.files:
        for chunk in staged_chunks(folder, name):
            queue = chunk.queue
            if queue is None:
                queues = _queues(manifest, chunk.topic)
                queue = MessageQueue(chunk.topic, *queues[turns % len(queues)])
                turns += 1
            number = numbers.get(queue, manifest.batch << _BATCH_BITS)
            numbers[queue] = number + chunk.rows
            begun_ms = manifest.begun_ms.get(queue.broker_name, 0)
            sequence = SendSequence(manifest.producer_id, manifest.batch + 1, number, begun_ms)
            yield Placed(chunk, queue, sequence)


def _queues(manifest: Manifest, topic: str) -> Sequence[tuple[str, int]]:
    queues = manifest.queues.get(topic)
    if not queues:
        raise StagingError(f"the manifest of batch {manifest.batch} has no queue of {topic}")
    return queues
