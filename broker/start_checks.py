"""What keeps a broker from starting, looked for at start, and before request 25 writes it into the
file for the next one.

``check`` looks at the values alone, ``check_here`` at this machine: addresses, ports, folders and
what lies in them. A start finds the latter by itself.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from ..client.errors import ConfigError
from ..daemon.launch import LaunchError, Settings, SettingsError
from ..remoting.errors import ConnectError
from ..remoting.protocol.commands.route import MAX_NAME
from ..remoting.transport.accepting import check_bindable
from ..remoting.transport.address import are_two_addresses, is_host, split_address
from ..remoting.transport.tls import TlsConfig, client_context
from ..store.disk.system_disk import PosixDisk
from ..store.files import log_files
from ..store.model.config import BrokerRole, MessageStoreConfig
from ..store.model.delay_levels import parse_delay_levels
from ..store.model.errors import StoreConfigError
from .acl.files import check_acl
from .config.addresses import resolve
from .config.config import (
    HA_PORT_DISTANCE,
    VIP_PORT_DISTANCE,
    BrokerClientConfig,
    BrokerConfig,
    BrokerServerConfig,
    LaterStoreConfig,
)
from .config.group_config import GroupConfig
from .raft.group import own_port
from .raft.member_settings import member_settings
from .registry.address_server import url_of, wants_address_server
from .registry.registration import name_server_addresses

_FILE_NAME_LENGTH: Final = 20


def check(settings: Settings) -> None:
    """Raises ``SettingsError`` for what this broker cannot be (yet): better no broker than one that
    is not what it seems."""
    config, store, port = (
        settings[BrokerConfig],
        settings[MessageStoreConfig],
        settings[BrokerServerConfig].listen_port,
    )
    if store.enable_dledger_commit_log:
        _check_group(config, store, settings[GroupConfig])
    else:
        _check_role(config, store)
    try:
        parse_delay_levels(store.message_delay_level)
    except ValueError as error:
        raise SettingsError(
            f"messageDelayLevel: {error}; it is a list as 1s 5s 10s 1m 2h"
        ) from error
    if 0 < port <= VIP_PORT_DISTANCE:
        raise SettingsError(
            f"listenPort must be 0 or more than {VIP_PORT_DISTANCE}: the VIP port lies "
            f"{VIP_PORT_DISTANCE} below it"
        )
    _check_ports(settings)
    _check_silence(settings[LaterStoreConfig])
    if not store.store_path_root_dir.strip():
        raise SettingsError("storePathRootDir must not be empty")
    _check_names(config)
    _check_name_servers(config)


def _check_names(config: BrokerConfig) -> None:
    """What a name server refuses keeps the broker unknown for ever."""
    names = {"brokerName": config.broker_name, "brokerClusterName": config.broker_cluster_name}
    for name, value in names.items():
        if not value.strip():
            raise SettingsError(f"{name} must not be empty")
        if len(value) > MAX_NAME:
            raise SettingsError(
                f"{name} has {len(value)} characters, a name server takes {MAX_NAME}"
            )
    if config.broker_ip2 and not is_host(config.broker_ip2):
        raise SettingsError(f"brokerIP2={config.broker_ip2[:200]} is no address and no name")


def _check_name_servers(config: BrokerConfig) -> None:
    for address in name_server_addresses(config.namesrv_addr):
        try:
            split_address(address)
        except ConnectError as error:
            raise SettingsError(f"namesrvAddr: {error}") from None
    if wants_address_server(config):
        try:
            url_of(config)
        except ConfigError as error:
            raise SettingsError(f"rocketmq.namesrv.domain: {error}") from None


def _check_role(config: BrokerConfig, store: MessageStoreConfig) -> None:
    if store.broker_role is BrokerRole.SLAVE and config.broker_id <= 0:
        raise SettingsError(
            "brokerRole=SLAVE needs a brokerId above 0 (0 is the master), another one for each "
            "slave"
        )
    if store.broker_role is not BrokerRole.SLAVE and config.broker_id != 0:
        raise SettingsError(
            f"brokerId={config.broker_id} is a slave's, but brokerRole is "
            f"{store.broker_role.name}: set SLAVE"
        )


def _check_group(config: BrokerConfig, store: MessageStoreConfig, group: GroupConfig) -> None:
    """Of a member of a group its role and id say nothing: both come from the election."""
    try:
        member_settings(config, store, group)
    except StoreConfigError as error:
        raise SettingsError(f"enableDLegerCommitLog=true: {error}") from error


def _check_silence(later: LaterStoreConfig) -> None:
    """Whoever has nothing to say would be given up before it says so, again and again."""
    if later.ha_housekeeping_interval <= later.ha_send_heartbeat_interval:
        raise SettingsError(
            f"haHousekeepingInterval={later.ha_housekeeping_interval} must be more than "
            f"haSendHeartbeatInterval={later.ha_send_heartbeat_interval}, several times as much at "
            "best: so long master and slave wait for a sign of life"
        )


def _ports(settings: Settings) -> dict[str, int]:
    """Which are listened on; 0 are not known yet, or none."""
    port, later = settings[BrokerServerConfig].listen_port, settings[LaterStoreConfig]
    return {
        "listenPort": port,
        "the VIP port": max(0, port - VIP_PORT_DISTANCE),
        "haListenPort": later.ha_listen_port or (port and port + HA_PORT_DISTANCE),
        "prometheusPort": settings[BrokerConfig].prometheus_port,
        "the port of this member in dLegerPeers": _member_port(settings),
    }


def _member_port(settings: Settings) -> int:
    store = settings[MessageStoreConfig]
    if not store.enable_dledger_commit_log:
        return 0
    return own_port(member_settings(settings[BrokerConfig], store, settings[GroupConfig]))


def _check_ports(settings: Settings) -> None:
    used: dict[int, str] = {}
    for name, port in _ports(settings).items():
        if port and used.setdefault(port, name) != name:
            raise SettingsError(
                f"{name}={port} is {used[port]} already: each needs a port of its own"
            )
        if port > 65535:
            raise SettingsError(
                f"{name} would be {port}: set a listenPort below {65535 - HA_PORT_DISTANCE}, or "
                "haListenPort"
            )


async def check_here(
    settings: Settings, before: Settings, running: Settings, tls: TlsConfig
) -> None:
    """Raises ``runtime_config.REFUSALS`` for what has changed and would not work on this machine.
    ``before`` has the changes that wait for the next start, ``running`` does not."""
    config, old = settings[BrokerConfig], before[BrokerConfig]
    if config.broker_ip1 != old.broker_ip1:
        await resolve(config.broker_ip1)
    if config.prometheus_port and importlib.util.find_spec("prometheus_client") is None:
        raise LaunchError(
            f"prometheusPort={config.prometheus_port} needs the package prometheus_client, which "
            "is not installed"
        )
    await asyncio.to_thread(_check_system, settings, before, running, tls)


def _check_system(settings: Settings, before: Settings, running: Settings, tls: TlsConfig) -> None:
    if settings[BrokerClientConfig].use_tls:
        client_context(tls)
    host, old_host, own_host = (
        each[BrokerServerConfig].bind_address for each in (settings, before, running)
    )
    if host != old_host:
        check_bindable("bindAddress", host, 0)
    moves = host != old_host and are_two_addresses(host, own_host)
    looked_at_or_own = {*_ports(before).values(), *_ports(running).values()}
    config, old_config = settings[BrokerConfig], before[BrokerConfig]
    if config.prometheus_port and config.prometheus_address != old_config.prometheus_address:
        check_bindable("prometheusAddress", config.prometheus_address, 0)
    if config.acl_enable and not old_config.acl_enable:
        check_acl(config)
    for name, port in _ports(settings).items():
        at = config.prometheus_address if name == "prometheusPort" else host
        if port not in looked_at_or_own or (moves and port and name != "prometheusPort"):
            check_bindable(name, at, port)
    store, old = settings[MessageStoreConfig], before[MessageStoreConfig]
    if store != old:
        _check_store(store)


def _check_store(store: MessageStoreConfig) -> None:
    log_files(store, PosixDisk())
    of_member = store.dledger_data_paths if store.enable_dledger_commit_log else ()
    logs = (*store.commit_log_paths, *store.read_only_paths, *of_member)
    for path in (store.root, *logs):
        there = next(each for each in (path, *path.parents) if each.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise LaunchError(
                f"the store cannot be at {path}: {there} is no folder that this broker may write to"
            )
    sizes = (
        ("mappedFileSizeCommitLog", store.mapped_file_size_commit_log, logs),
        (
            "mappedFileSizeConsumeQueue",
            store.consume_queue_file_size,
            (store.root / "consumequeue",),
        ),
        (
            "mappedFileSizeConsumeQueueExt",
            store.mapped_file_size_consume_queue_ext,
            (store.root / "consumequeue_ext",),
        ),
    )
    for name, size, folders in sizes:
        for file in _first_files(folders):
            if (found := file.stat().st_size) != size:
                raise LaunchError(
                    f"{name}={size}, but {file} has {found} bytes: it must be that of the files "
                    "that are there"
                )


def _first_files(folders: Collection[Path]) -> Iterator[Path]:
    """One of each folder, however deep: all of one kind have one size."""
    for folder in folders:
        for below, _, files in os.walk(folder):
            named = [each for each in files if each.isdecimal() and len(each) == _FILE_NAME_LENGTH]
            if named:
                yield Path(below, named[0])
                break
