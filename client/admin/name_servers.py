"""Name servers: KV config, their own configuration, keeping producers away from a broker."""

from __future__ import annotations

import contextlib
from typing import Final

from ...remoting.errors import QueryNotFound, RocketMQError
from ...remoting.protocol.bodies.kv import KVTable
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.kv import (
    GetKVListByNamespaceRequest,
    KVConfigRequest,
    PutKVConfigRequest,
)
from ...remoting.protocol.commands.route import BrokerNameRequest
from ...remoting.protocol.java_properties import format_properties, parse_properties
from ..cluster.lost_brokers import LOST_BROKERS, LOST_BROKERS_OF_TOPIC, lost_in
from ..cluster.server_addresses import parse_addresses
from ..errors import ConfigError
from .core import AdminCore

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class NameServerOperations(AdminCore):
    @property
    def name_server_addresses(self) -> list[str]:
        """Sorted."""
        return sorted(self.instance.name_servers.addresses)

    # --- KV config
    # ----------------------------------------------------------------------------------------------

    async def get_kv_config(self, namespace: str, key: str) -> str | None:
        """One value, ``None`` when there is none."""
        header = KVConfigRequest(namespace=namespace, key=key)
        name_servers = self.instance.name_servers
        answer = await name_servers.ask(
            RequestCode.GET_KV_CONFIG, header, timeout=self.instance.request_timeout
        )
        try:
            value: str | None = answer.check(name_servers.current).header.value
        except QueryNotFound:
            return None
        return value

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All values of a namespace. Raises ``QueryNotFound`` for one that does not exist."""
        header = GetKVListByNamespaceRequest(namespace=namespace)
        return (
            await self._ask_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, header, KVTable)
        ).table

    async def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Set one value on every name server; those that failed are named once all were told."""
        header = PutKVConfigRequest(namespace=namespace, key=key, value=value)
        await self._tell_name_servers(RequestCode.PUT_KV_CONFIG, header)

    async def delete_kv_config(self, namespace: str, key: str) -> None:
        """Remove one value from every name server."""
        await self._tell_name_servers(
            RequestCode.DELETE_KV_CONFIG, KVConfigRequest(namespace=namespace, key=key)
        )

    async def lost_brokers(self, topic: str | None = None) -> dict[str, dict[str, str]]:
        """Brokers that died (``topic``: and had this one), as each name server remembers them that
        can be asked: address -> broker name -> last sign of life, ms since 1970. Those of the
        original remember none."""
        found = {}
        for address in self.name_server_addresses:
            with contextlib.suppress(RocketMQError):
                found[address] = await self._lost_at(address, topic)
        return found

    async def _lost_at(self, address: str, topic: str | None) -> dict[str, str]:
        if topic is None:
            all_of_them = GetKVListByNamespaceRequest(namespace=LOST_BROKERS)
            code = RequestCode.GET_KVLIST_BY_NAMESPACE
            return (await self._ask(address, code, all_of_them, KVTable)).table
        one = KVConfigRequest(namespace=LOST_BROKERS_OF_TOPIC, key=topic)
        return lost_in((await self._invoke(address, RequestCode.GET_KV_CONFIG, one)).header.value)

    # --- their own configuration
    # ------------------------------------------------------------------------------------

    async def name_server_config(self, address: str) -> dict[str, str]:
        """Every property of one name server. Raises ``ConfigError`` for what is no address."""
        answer = await self._invoke(_checked(address), RequestCode.GET_NAMESRV_CONFIG)
        return {
            found.name: found.value
            for found in parse_properties(answer.body.decode("utf-8", "replace"))
        }

    async def update_name_server_config(self, address: str, properties: dict[str, str]) -> None:
        """Change properties of one name server; it keeps them in its configuration file."""
        body = format_properties(properties).encode()
        await self._invoke(_checked(address), RequestCode.UPDATE_NAMESRV_CONFIG, body=body)

    # --- who may be written to
    # --------------------------------------------------------------------------------------

    async def wipe_write_perm(self, address: str, broker_name: str) -> int:
        """Make one name server keep producers away from a broker; returns the number of topics. 0:
        it has no such broker."""
        header = BrokerNameRequest(broker_name=broker_name)
        answer = await self._invoke(
            _checked(address), RequestCode.WIPE_WRITE_PERM_OF_BROKER, header
        )
        return int(answer.header.wipe_topic_count)

    async def add_write_perm(self, address: str, broker_name: str) -> int:
        """Take ``wipe_write_perm`` back; returns the number of topics."""
        header = BrokerNameRequest(broker_name=broker_name)
        answer = await self._invoke(_checked(address), RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        return int(answer.header.add_topic_count)


def _checked(address: str) -> str:
    addresses = parse_addresses(address)
    if len(addresses) != 1:
        raise ConfigError(f"one name server at a time: {address!r}")
    return addresses[0]
