"""The broker as a process of its own (class BrokerStartup)."""

from __future__ import annotations

import logging
from collections import defaultdict
from pathlib import Path
from typing import Final

from ..daemon.descriptors import allowed_connections
from ..daemon.kept_memory import keep_memory
from ..daemon.launch import COMMAND_LINE, Daemon, Settings, SettingsError, report
from ..daemon.long_lived import looked_at_once
from ..daemon.pid_files import pid_file
from ..remoting.protocol.leaves import KIND
from ..remoting.protocol.wire import Record, fields_of
from ..remoting.transport.accepting import Seats
from ..remoting.transport.config import ALL_INTERFACES
from ..remoting.transport.flow import Limits
from ..remoting.transport.tls import TlsConfig
from ..store.model.config import MessageStoreConfig
from ..store.model.errors import StoreConfigError, StoreError
from ..store.replica.replication_secret import MIN_SECRET_LENGTH
from .assembly.broker import Broker
from .config.addresses import follow_bind_address, not_listened_on
from .config.config import (
    ALIASES,
    IMPORTANT,
    OF_THIS_MACHINE,
    VIP_PORT_DISTANCE,
    BrokerClientConfig,
    BrokerConfig,
    BrokerServerConfig,
    LaterStoreConfig,
    SecretConfig,
    without_effect,
)
from .config.group_config import GroupConfig
from .config.settings import BrokerSettings
from .opening import open_broker
from .replication.roles import ha_port
from .start_checks import check

log: Final = logging.getLogger(__name__)

RECORDS: Final = (
    BrokerConfig,
    BrokerServerConfig,
    BrokerClientConfig,
    MessageStoreConfig,
    LaterStoreConfig,
    GroupConfig,
    SecretConfig,
    TlsConfig,
    Limits,
)


async def serve(settings: Settings) -> None:
    """Work until cancelled."""
    config = settings[BrokerConfig]
    follow_bind_address(settings)
    check(settings)
    log.info("broker starting leaves=%r", KIND)
    report(settings)
    keep_memory()
    _say_what_has_no_effect(settings)
    async with open_broker(broker_settings(settings)) as broker:
        with pid_file("broker", broker.port, config.rocketmq_home), looked_at_once():
            _say_ready(broker)
            await broker.run()


def broker_settings(settings: Settings) -> BrokerSettings:
    """Raises ``SettingsError``."""
    return BrokerSettings(
        settings[BrokerConfig],
        settings[BrokerServerConfig],
        settings[BrokerClientConfig],
        settings[MessageStoreConfig],
        tls=settings[TlsConfig],
        limits=settings[Limits],
        later=settings[LaterStoreConfig],
        group=settings[GroupConfig],
        ha_secret=_checked(settings[SecretConfig].ha_secret),
        seats=Seats(allowed_connections(settings[Limits].max_connections)),
        config_file=Path(settings.config_file) if settings.config_file else None,
        unknown_properties={found.name: found.value for found in settings.unknown},
        kept_properties=_of_the_file(settings, SecretConfig, TlsConfig, Limits),
        of_this_machine=settings.unsaid(OF_THIS_MACHINE),
    )


def _checked(secret: str) -> str:
    """Raises ``SettingsError``."""
    if 0 < len(secret) < MIN_SECRET_LENGTH:
        raise SettingsError(
            f"haSecret must have at least {MIN_SECRET_LENGTH} characters: who listens can try out "
            "short ones"
        )
    return secret


def _of_the_file(settings: Settings, *records: type[Record]) -> dict[str, str]:
    """The properties of these Records that stand in the ``-c`` file."""
    names = {field.wire_name for record in records for field in fields_of(record)}
    return {
        p.name: p.value for p in settings.properties if p.name in names and p.source != COMMAND_LINE
    }


def _say_ready(broker: Broker) -> None:
    settings = broker.settings
    log.info(
        "broker ready name=%s cluster=%s address=%s port=%d vip_port=%d store=%s commit_log=%s "
        "flush=%s name_servers=%s "
        "role=%s id=%d ha_port=%d",
        settings.broker.broker_name,
        settings.broker.broker_cluster_name,
        broker.identity().broker_addr,
        broker.port,
        broker.port - VIP_PORT_DISTANCE,
        settings.store.root,
        settings.store.dledger_data_paths[0] if broker.group else settings.store.commit_log_path,
        settings.store.flush_disk_type.name,
        ";".join(link.address for link in broker.name_servers.links) or "none",
        settings.store.broker_role.name,
        settings.broker.broker_id,
        ha_port(settings.later, broker.port),
    )
    if settings.server.bind_address in ALL_INTERFACES and not settings.broker.acl_enable:
        log.warning(
            "open to everybody: listening on all interfaces without access control port=%d; set "
            "aclEnable=true or "
            "bindAddress, unless a firewall keeps strangers out",
            broker.port,
        )
    if wrong := not_listened_on(settings.broker, settings.server):
        log.warning(
            "nothing listens at a registered address: %s, but bindAddress=%s; brokerIP1 is for "
            "clients, brokerIP2 for slaves, leave them out or set bindAddress to none",
            " ".join(wrong),
            settings.server.bind_address,
        )


def _say_what_has_no_effect(settings: Settings) -> None:
    """One line per reason. A property that says what holds anyway is not worth one: files written
    at run time have them."""
    reasons = {name: why for record in RECORDS for name, why in without_effect(record).items()}
    unusual = {
        field.wire_name
        for record in RECORDS
        for field in fields_of(record)
        if getattr(settings[record], field.name) != getattr(record(), field.name)
    }
    found = defaultdict(list)
    for name in dict.fromkeys(each.name for each in settings.properties):
        if name in reasons and name in unusual:
            found[reasons[name]].append(name)
    for reason, names in found.items():
        log.info("properties without effect reason=%r names=%s", reason, ",".join(names))


BROKER: Final = Daemon(
    name="mqbroker",
    summary="The broker: takes messages, stores them and hands them out.",
    records=RECORDS,
    serve=serve,
    aliases=ALIASES,
    important=IMPORTANT,
    operating_errors=(StoreError,),
    settings_errors=(StoreConfigError,),
)
