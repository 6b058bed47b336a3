"""Who is in the group, and its times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..model.errors import StoreConfigError

JAVA_HEARTBEAT_MS = 2000
"""The pace of a leader that does not tell its own."""


class RaftSettings(NamedTuple):
    """Of one member. Times in ms; defaults are for groups of ours, §5.1 has the original's."""

    group: str
    self_id: str
    peers: Mapping[str, str]
    """Id to address of every member, this one too."""
    preferred_leaders: tuple[str, ...] = ()
    """``preferredLeaderId``: who is to lead where it can."""
    heartbeat_ms: int = 300
    """The pace of this member as leader (original: 2000)."""
    max_leak: int = 3
    """So many heartbeats of its leader a follower may miss; so long a leader goes on without a
    quorum."""
    vote_min_ms: int = 100
    vote_max_ms: int = 300
    """Between these lies the random wait before a candidate stands again (original: 300..1000)."""
    vote_round_ms: int = 1000
    """So long it waits for votes (original: 2000)."""
    metadata_round_ms: int = 500
    """So long it waits for what the others know before it stands."""
    push_resend_ms: int = 1000
    """An entry that is not acknowledged after this is pushed again."""
    push_retry_ms: int = 20
    """Wait after a push to one who does not follow yet (405), doubled up to ``push_resend_ms``."""
    push_bytes: int = 64 * 1024
    """Bodies of one push; a longer entry goes alone."""
    window_bytes: int = 4 * 1024 * 1024
    """Bodies under way to one peer."""
    window_requests: int = 16
    """Pushes under way to one peer."""
    commit_idle_ms: int = 50
    """A follower that gets no entries is told so late of what is committed; and once per
    ``push_resend_ms`` in any case."""
    reorder_requests: int = 1024
    """Pushes that wait at a follower for those before them (original: no limit)."""
    reorder_bytes: int = 16 * 1024 * 1024
    """And their bodies."""
    max_lag_entries: int = 1000
    """A transferee may be so far behind (§3.11)."""
    take_leadership_ms: int = 1000
    """So long it may take to catch up."""

    @property
    def quorum(self) -> int:
        return len(self.peers) // 2 + 1

    @property
    def others(self) -> tuple[str, ...]:
        """All but this one, the next one in the order of the peers first."""
        peers = tuple(self.peers)
        at = peers.index(self.self_id)
        return peers[at + 1 :] + peers[:at]

    def check(self) -> None:
        """Raises StoreConfigError."""
        if self.self_id not in self.peers:
            raise StoreConfigError(
                f"dLegerSelfId {self.self_id} is not among dLegerPeers "
                f"({', '.join(self.peers)}): name this node's own id there"
            )
        unknown = [peer for peer in self.preferred_leaders if peer not in self.peers]
        if unknown:
            raise StoreConfigError(
                f"preferredLeaderId {';'.join(unknown)} is not among dLegerPeers "
                f"({', '.join(self.peers)})"
            )
