"""Four defects to be planted, all real: the first that an attack on running clusters had found,
before there was a simulator. (Each had been passed over by 6,000 tests and 591 kills.)"""

from __future__ import annotations

from typing import Any

from aiorocketmq.broker.sends.dead_letters import DeadLetters
from aiorocketmq.store.disk.checkpoint import Checkpoint
from aiorocketmq.store.model import errors
from aiorocketmq.store.model.errors import StoreFileError, SyncFailedError
from aiorocketmq.store.model.status import PutResult
from aiorocketmq.store.recovery.recovery import Recovery

from .defect import Defect


def _in_no_doubt(_self: Recovery, _safe: int) -> dict[Any, Any]:
    return {}


def _is_the_end(self: Checkpoint) -> None:
    try:
        _saved(self)
    except StoreFileError as error:
        raise SyncFailedError(error.path, error.problem) from error


def _tried_again(_self: DeadLetters, _message: Any, why: PutResult, *_how: Any) -> PutResult:
    return why


_saved = Checkpoint.save

ATTACKED = (
    Defect("a start believes what consume queues end with", True,
           Recovery, "_doubts", _in_no_doubt),
    Defect("who is short of descriptors has a failed disk", True, errors, "_SHORT", frozenset()),
    Defect("a checkpoint for which there is no space is a failed disk", True,
           Checkpoint, "save", _is_the_end),
    Defect("what is refused for good is tried again for ever", True,
           DeadLetters, "take", _tried_again),
)  # fmt: skip
