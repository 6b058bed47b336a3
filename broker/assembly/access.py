"""Who may do what."""

from __future__ import annotations

from collections.abc import Callable

from ...remoting.clock import Clock
from ...remoting.dispatch import Guard
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
        self.guard: Guard | None = (
            None
            if self.acl is None
            else AclGuard(self.acl, store, compatible=config.acl_compatible)
        )
        """Looks at every request before its handler does; ``None``: nobody does."""
        self.processor: AclProcessor = AclProcessor(self.acl, identity)

    @property
    def services(self) -> tuple[Service, ...]:
        return () if self.acl is None else (self.acl,)
