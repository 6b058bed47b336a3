"""The broker itself: its configuration, its state, its upkeep: 25, 26, 28, 45, 306, 329 (class
AdminBrokerProcessor; ``headers.md`` part C)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.kv import KVTable
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.admin import TAKES_EFFECT_LATER, GetBrokerConfigResponse
from ...remoting.protocol.wire import NoFields
from ...store.message_store import MessageStore
from ..config.runtime_config import RuntimeConfig
from ..monitoring.runtime_info import RuntimeInfo
from ..registry.name_servers import NameServers
from ..schedule.schedule_offsets import DelayOffsets
from ..state.topics import Topics

log: Final = logging.getLogger(__name__)


class AdminProcessor:
    def __init__(
        self,
        runtime_config: RuntimeConfig,
        runtime_info: RuntimeInfo,
        topics: Topics,
        name_servers: NameServers,
        store: MessageStore,
        delay_offsets: DelayOffsets,
    ) -> None:
        self._runtime_config = runtime_config
        self._runtime_info = runtime_info
        self._topics = topics
        self._name_servers = name_servers
        self._store = store
        self._delay_offsets = delay_offsets
        runtime_config.on_change.append(self._changed)

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self.update_config,
            RequestCode.GET_BROKER_CONFIG: self.get_config,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delay_offsets,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_expired_queues,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_expired_files,
        }

    async def update_config(self, _request: NoFields, body: Body, ctx: Context) -> Reply:
        text = str(body, "utf-8", "replace")
        changed = await self._runtime_config.update(text, ctx.peer)
        unknown = ", ".join(self._runtime_config.unknown_in(text))
        later = ", ".join(self._runtime_config.later_in(changed))
        told = [
            unknown and f"this broker has no property {unknown}: that has changed nothing",
            later and f"{TAKES_EFFECT_LATER}{later}",
        ]
        return Reply(remark="; ".join(filter(None, told)) or None)

    def _changed(self, names: Sequence[str]) -> None:
        if "brokerPermission" in names:
            self._topics.new_version()
            self._name_servers.register_soon()

    def get_config(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        version = encode_body(self._runtime_config.data_version).decode()
        return Reply(
            header=GetBrokerConfigResponse(version=version),
            body=self._runtime_config.text().encode(),
        )

    async def runtime_info(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        return Reply(body=encode_body(KVTable(table=await self._runtime_info.table())))

    def delay_offsets(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        """What slaves ask for: how far each delay level has been delivered."""
        return Reply(body=encode_body(self._delay_offsets.record()))

    async def clean_expired_queues(self, _request: NoFields, _body: Body, ctx: Context) -> Reply:
        """Delete the consume queues whose messages have all expired."""
        log.info(
            "expired queues cleaned by=%s queues=%s",
            ctx.peer,
            await self._store.cleaning.delete_expired_queues(),
        )
        return Reply()

    def delete_expired_files(self, _request: NoFields, _body: Body, ctx: Context) -> Reply:
        """Do not wait for ``deleteWhen``. Answered before anything is deleted, as in the
        original."""
        log.info("expired files of the commit log go now by=%s", ctx.peer)
        self._store.cleaning.clean_at_any_hour()
        return Reply()
