"""What a member of a group that elects its master can be told besides (class DLedgerConfig;
dledger.md §5.1).

The original has no property of ``broker.conf`` for these; here they have the names of its class.
The defaults are for groups of ours, which elect a new master in a second; in a group with members
of the original all need the original's times.
"""

from __future__ import annotations

import logging
from typing import Annotated, Final

from msgspec import Meta, field

from ...remoting.protocol.wire import Record
from ...store.model.config import BrokerRole, FlushDiskType, MessageStoreConfig
from ...store.model.errors import StoreConfigError
from .config import BrokerConfig

log: Final = logging.getLogger(__name__)

UNDECIDED_ID: Final = -1
"""``brokerId`` before the first election."""
_interval = Annotated[int, Meta(ge=10, le=600_000)]


class GroupConfig(Record, kw_only=True):
    """Times in ms. Take effect at the next start."""

    heart_beat_time_interval_ms: _interval = 300
    """A leader's (original: 2000)."""
    max_heart_beat_leak: Annotated[int, Meta(ge=1, le=100)] = 3
    """After so many heartbeats that did not come a follower looks for another leader, and a leader
    that so long no majority answers is none any more."""
    min_vote_interval_ms: _interval = 100
    """A candidate waits at random before it stands again, so long at least (original: 300)."""
    max_vote_interval_ms: _interval = 300
    """And so long at most (original: 1000)."""
    max_wait_ack_time_ms: _interval = 2500
    """So long a message waits for a majority."""
    max_push_time_out_ms: _interval = 1000
    """An entry that a follower has not acknowledged is pushed again."""
    max_pending_requests_num: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Messages that wait for a majority; then others are refused."""
    d_leger_allowed_addresses: str = field(name="dLegerAllowedAddresses", default="")
    """Ours: besides those of ``dLegerPeers`` members come from these IP addresses, ``;`` between
    them."""

    def check(self) -> None:
        """Raises ``StoreConfigError``."""
        if self.min_vote_interval_ms > self.max_vote_interval_ms:
            raise StoreConfigError(
                f"minVoteIntervalMs={self.min_vote_interval_ms} is more than "
                f"maxVoteIntervalMs={self.max_vote_interval_ms}"
            )


def forget_role(broker: BrokerConfig, store: MessageStoreConfig) -> None:
    """What a member is comes from the election, and how safe a message is from the majority: what
    the properties say about it has no effect, as in the original. Says so in one line."""
    said = {
        "brokerRole": store.broker_role.name,
        "brokerId": str(broker.broker_id),
        "flushDiskType": store.flush_disk_type.name,
    }
    if store.broker_role is BrokerRole.ASYNC_MASTER:
        del said["brokerRole"]
    if broker.broker_id in (0, UNDECIDED_ID):
        del said["brokerId"]
    if store.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
        del said["flushDiskType"]
    if said:
        log.info(
            "without effect in a group that elects its master: %s",
            " ".join(f"{name}={value}" for name, value in said.items()),
        )
    store.dledger_group = store.dledger_group or broker.broker_name
    broker.broker_id = UNDECIDED_ID
    store.broker_role = BrokerRole.ASYNC_MASTER
    store.flush_disk_type = FlushDiskType.ASYNC_FLUSH
