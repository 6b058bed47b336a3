"""Copies of the log, as the rest of a broker sees them: at slaves (``replication.py``), or at the
other members of a group (``group.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...remoting.services import Service
from ..raft.node import RaftNode
from ..sends.durability import Durability
from ..sends.fast_failure import Waits
from .ports import Listening


class Copies(Protocol):
    """Who copies, and what waits for that."""

    @property
    def durability(self) -> Durability:
        """What answers to stored messages wait for."""

    @property
    def waits(self) -> Sequence[Waits]:
        """What makes senders wait, so that others are refused meanwhile."""

    @property
    def waiting(self) -> int:
        """How many answers wait."""

    @property
    def longest_wait_ms(self) -> int:
        """So long one may wait."""

    def lags(self) -> Mapping[str, int]:
        """How many bytes each slave is behind."""

    @property
    def member(self) -> RaftNode | None:
        """Of a group that elects its master; ``None``: there is none."""

    @property
    def listening(self) -> Sequence[Listening]:
        """Who has ports for it."""

    @property
    def first(self) -> Sequence[Service]:
        """Services that end before all others."""

    @property
    def services(self) -> Sequence[Service]:
        """Those that end with most others."""

    @property
    def last(self) -> Sequence[Service]:
        """Those that answers wait for: they end last."""
