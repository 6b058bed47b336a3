"""What an administrator does, one coroutine per operation (``headers.md`` parts B to D; class
DefaultMQAdminExtImpl).

::

    async with Admin(namesrv="ns1:9876") as admin:
        await admin.create_topic("Order", queues=8)

Every operation raises ``RemotingError`` when a server cannot be asked and ``BrokerError`` (by code)
when it refuses; what else one raises, it says. Addresses are ``host:port``, times milliseconds
since 1970 as everywhere in the cluster, offsets count the entries of a queue. A module per subject,
``Admin`` is all of them. ``mqadmin`` is made of nothing else. Imports ``cluster``, ``consumer`` and
``producer``. Start with ``core.py``.
"""

from __future__ import annotations

from ..consumer.pulling import Pulled, PullStatus
from .accounts import AccountOperations, AclVersion
from .brokers import Member
from .consume_queues import ConsumeQueueOperations
from .core import TOOLS_GROUP
from .messages import Traced
from .name_servers import ORDER_NAMESPACE
from .offset_reset import OffsetMove, ResetOperations
from .raft import LeadershipError, RaftMember, RaftOperations
from .topics import TopicOperations
from .tracks import MessageTrack, TrackOperations, TrackType

__all__ = [
    "ORDER_NAMESPACE",
    "TOOLS_GROUP",
    "AclVersion",
    "Admin",
    "LeadershipError",
    "Member",
    "MessageTrack",
    "OffsetMove",
    "PullStatus",
    "Pulled",
    "RaftMember",
    "Traced",
    "TrackType",
]


class Admin(
    TrackOperations,
    ResetOperations,
    ConsumeQueueOperations,
    RaftOperations,
    TopicOperations,
    AccountOperations,
):
    """Looks after a cluster. ``request_timeout`` (seconds, 5) is for each request; see
    ``ClientOptions`` for the others."""
