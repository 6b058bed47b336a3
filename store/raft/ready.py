"""What a member wants done."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from ...remoting.protocol.bodies.dledger import DledgerBody


class Role(Enum):
    """Of a member."""

    LEADER = "LEADER"
    FOLLOWER = "FOLLOWER"
    CANDIDATE = "CANDIDATE"


class HardState(NamedTuple):
    """What a member must never forget (``currterm``, §3.2)."""

    term: int = 0
    vote: str | None = None
    """Whom it voted for in ``term``."""


class RoleChange(NamedTuple):
    """What a member is from now on."""

    role: Role
    term: int
    leader_id: str | None


class Outgoing(NamedTuple):
    """A request to a peer. Its end is told by ``Member.answered`` with the same request object."""

    peer: str
    request: DledgerBody


class Answer(NamedTuple):
    """The answer to a request that ``Member.receive`` got with this token."""

    token: Any
    body: DledgerBody


class Ready(NamedTuple):
    """To be done in the order of the fields. Nothing behind ``hard_state`` may be sent, answered or
    told before it is durable; meanwhile the member may be given more, and what is taken then comes
    after this."""

    hard_state: HardState | None
    """To be made durable, synced."""
    answers: list[Answer]
    requests: list[Outgoing]
    committed: int | None
    """The commit index, where it rose."""
    role: RoleChange | None
    append_noop: bool
    """Leader of a new term, and the end of its log is not committed: append one small valid record,
    to queue 0 of SELF_TEST_TOPIC, so that it can be."""
    votes: bool | None
    """Changed: it has (or has not) all that it ever acknowledged. To be kept apart from the log:
    what ``Member`` is given at the next start."""
