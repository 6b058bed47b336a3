"""What a member of a group says of itself, in words."""

from __future__ import annotations

import pytest

from aiorocketmq.client.admin.raft import _from_figures
from aiorocketmq.remoting.errors import ProtocolError

FIGURES = {
    "raftGroup": "G", "raftMember": "n0", "raftRole": "leader", "raftTerm": "3",
    "raftLeader": "n0", "raftVotes": "true", "raftLag_n1": "7",
}  # fmt: skip


def test_figures_of_a_member() -> None:
    member = _from_figures("10.0.0.1:10911", FIGURES)
    assert (member.group, member.term, member.votes, member.lags) == ("G", 3, True, {"n1": 7})


@pytest.mark.parametrize("name", ["raftTerm", "raftEndIndex", "raftLag_n1"])
def test_a_figure_that_is_no_number_is_named(name: str) -> None:
    with pytest.raises(ProtocolError, match=f"10.0.0.1:10911 says {name}='many'"):
        _from_figures("10.0.0.1:10911", {**FIGURES, name: "many"})
