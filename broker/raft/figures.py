"""What a member says of itself among the figures of its broker (request 28), for ``raftStatus`` and
whoever watches."""

from __future__ import annotations

from .node import RaftNode


def figures(node: RaftNode) -> dict[str, str]:
    """The lag is in entries, and told by the leader only."""
    log = node.log
    found = {
        "raftGroup": node.settings.group,
        "raftMember": node.settings.self_id,
        "raftRole": node.role.name.lower(),
        "raftTerm": node.term,
        "raftLeader": node.leader_id or "",
        "raftBeginIndex": log.begin_index,
        "raftEndIndex": log.end_index,
        "raftCommittedIndex": node.committed_index,
        "raftVotes": str(node.votes).lower(),
        "raftElections": node.elections,
        "raftOldLogEnd": "" if log.old_log.end is None else log.old_log.end,
        "raftOldLogDiffers": str(node.has_other_old_log).lower(),
        **{f"raftLag_{peer}": lag for peer, lag in node.lags().items()},
    }
    return {key: str(value) for key, value in found.items()}
