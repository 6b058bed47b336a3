"""Who may do what."""

from __future__ import annotations

from collections.abc import Callable

from ...remoting.clock import Clock
from ...remoting.dispatch import Context, Guard
from ...remoting.peer import Peer
from ...remoting.services import Service
from ...store.message_store import MessageStore
from ..acl.files import AclFiles, open_acl
from ..config.config import BrokerConfig
from ..processors.acl import AclGuard, AclProcessor
from ..registry.registration import Identity


class Access:
    """The accounts, if there are any."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        identity: Callable[[], Identity],
        clock: Clock,
    ) -> None:
        self.acl: AclFiles | None = open_acl(config, clock)
        self._guard: AclGuard | None = (
            None
            if self.acl is None
            else AclGuard(self.acl, store, compatible=config.acl_compatible)
        )
        self.guard: Guard | None = self._guard
        """Looks at every request before its handler does; ``None``: nobody does."""
        self.processor: AclProcessor = AclProcessor(self.acl, identity)

    def account_of(self, ctx: Context) -> str:
        """Whose request it is that the guard has let through; "" where nobody has to sign."""
        return "" if self._guard is None else self._guard.account_of(ctx)

    def may_send(self, client: Peer, topic: str) -> bool:
        """Whether a client may send to a topic, by the last heartbeat over its connection."""
        return self._guard is None or self._guard.may_send(client, topic)

    @property
    def services(self) -> tuple[Service, ...]:
        return () if self.acl is None else (self.acl,)
