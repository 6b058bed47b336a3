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


def test_the_old_log_of_a_member() -> None:
    told = {"raftOldLogEnd": "4000", "raftOldLogDiffers": "true"}
    for figures, found in (
        (told, (4000, True)),
        ({}, (None, False)),
        (dict.fromkeys(told, ""), (None, False)),
    ):
        member = _from_figures("10.0.0.1:10911", {**FIGURES, **figures})
        assert (member.old_log_end, member.old_log_differs) == found


@pytest.mark.parametrize("name", ["raftTerm", "raftEndIndex", "raftLag_n1", "raftOldLogEnd"])
def test_a_figure_that_is_no_number_is_named(name: str) -> None:
    with pytest.raises(ProtocolError, match=f"10.0.0.1:10911 says {name}='many'"):
        _from_figures("10.0.0.1:10911", {**FIGURES, name: "many"})
