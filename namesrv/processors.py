"""What the name server answers (class DefaultRequestProcessor; ``headers.md`` part D,
``namesrv.md``). Its four processors are one file: together they are the whole table."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from ..remoting.clock import Clock, steady_ms
from ..remoting.dispatch import Body, Context, Handler, ProcessorTable, Reply
from ..remoting.errors import AddressInUseError, RequestError
from ..remoting.outages import Outages
from ..remoting.peer import Peer
from ..remoting.protocol.bodies.codec import decode_request_body, encode_body, encode_in_slices
from ..remoting.protocol.bodies.kv import KVTable
from ..remoting.protocol.bodies.lists import TopicList
from ..remoting.protocol.bodies.topic_config import DataVersion
from ..remoting.protocol.codes import V4_9_4, RequestCode, ResponseCode
from ..remoting.protocol.commands.kv import (
    GetKVConfigResponse,
    GetKVListByNamespaceRequest,
    KVConfigRequest,
    PutKVConfigRequest,
)
from ..remoting.protocol.commands.route import (
    AddWritePermResponse,
    BrokerNameRequest,
    BrokerRequest,
    DeleteTopicFromNamesrvRequest,
    GetRouteInfoRequest,
    GetTopicsByClusterRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    WipeWritePermResponse,
)
from ..remoting.protocol.java_properties import (
    PropertyError,
    format_properties,
    parse_properties,
    record_to_properties,
    update_record,
)
from ..remoting.protocol.wire import NoFields
from ..remoting.sliced_requests import SlicedRequests
from ..remoting.slices import Steps
from ..remoting.transport.accepting import check_bindable
from ..remoting.transport.address import are_two_addresses
from ..remoting.transport.flow import Limits
from .config import HOME, NamesrvConfig
from .kv_config import ORDER_TOPIC_CONFIG, KvConfig
from .lost_brokers import LostBrokers, is_of_lost_brokers
from .registration_body import CrcError, read_registration
from .route_limits import RouteTableFullError
from .route_table import BrokerGoneError, Registered, Removed, RouteTable
from .saved_file import SavedFile

log: Final = logging.getLogger(__name__)

NO_ROUTE = (
    "No topic route info in name server for the topic: %s\nSee "
    "http://rocketmq.apache.org/docs/faq/ for further details."
)

_MOST_LOGGED: Final = 100
"""Lines of log about brokers, or names of topics, that went together."""


class BrokerProcessor:
    """Brokers that come, stay and go."""

    def __init__(
        self, routes: RouteTable, kv_config: KvConfig, limits: Limits, clock: Clock
    ) -> None:
        self._routes = routes
        self._clock = clock
        self._outages = Outages(clock)
        self._kv_config = kv_config
        self._limits = limits
        self._sliced = SlicedRequests()

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.REGISTER_BROKER: self._sliced.handler(self.register),
            RequestCode.UNREGISTER_BROKER: self._sliced.handler(self.unregister, behind_own=True),
            RequestCode.QUERY_DATA_VERSION: self.query_data_version,
        }

    def register(self, request: RegisterBrokerRequest, body: Body, ctx: Context) -> Steps[Reply]:
        limits = self._limits
        try:
            registration = yield from read_registration(
                request,
                ctx.version,
                body,
                max_bytes=limits.max_inflated_bytes,
                max_topics=limits.max_topics_per_registration,
            )
        except CrcError as error:
            self._log_refusal(request, error)
            return Reply(
                ResponseCode.SYSTEM_ERROR, header=RegisterBrokerResponse(), remark=str(error)
            )

        version, filter_servers, _ = registration
        try:
            done = yield from self._routes.register_in_slices(
                request,
                version,
                filter_servers,
                registration.topics,
                ctx.connection,
                steady_ms(self._clock),
                partial(_still_there, ctx),
            )
        except RouteTableFullError as error:
            self._log_refusal(request, error)
            raise
        except BrokerGoneError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        _log_registered(request, done)
        order_conf = self._kv_config.namespace(ORDER_TOPIC_CONFIG)
        remark = None if done.rival is None else self._log_rival(request, done.rival)
        return Reply(
            header=RegisterBrokerResponse(
                ha_server_addr=done.master_ha_addr, master_addr=done.master_addr
            ),
            body=b"" if order_conf is None else encode_body(KVTable(table=dict(order_conf))),
            remark=remark,
        )

    def unregister(self, request: BrokerRequest, _body: Body, ctx: Context) -> Steps[Reply]:
        """In one slice, and behind the registrations that its peer sent before. By then that may be
        gone, and a successor be at its address: who has left is only not missed any more."""
        if ctx.connection.closed:
            self.connection_closed(ctx.connection)
            self._routes.miss_no_more(request.broker_name)
        else:
            self._routes.unregister(request)
        log.info(
            "broker unregistered broker=%s id=%d addr=%s",
            request.broker_name,
            request.broker_id,
            request.broker_addr,
        )
        return Reply()
        yield

    def query_data_version(self, request: BrokerRequest, body: Body, _ctx: Context) -> Reply:
        sent = decode_request_body(DataVersion, body)
        changed, known = self._routes.query_data_version(request, sent, steady_ms(self._clock))
        return Reply(
            header=QueryDataVersionResponse(changed=changed),
            body=b"" if known is None else encode_body(known),
        )

    def _log_refusal(self, request: RegisterBrokerRequest, error: Exception) -> None:
        """It registers again and again."""
        self._outages.occurs(
            log,
            (request.broker_addr,),
            "registration refused broker=%s addr=%s error=%s",
            request.broker_name,
            request.broker_addr,
            error,
        )

    def _log_rival(self, request: RegisterBrokerRequest, rival: str) -> str:
        """What the broker is told, too."""
        text = (
            f"two brokers have the name {request.broker_name} and the id {request.broker_id}, "
            f"{request.broker_addr} and {rival}, and take turns: messages seem lost and come "
            "twice; stop one of them, or give it another brokerName or brokerId"
        )
        cause = ("rivals", request.broker_name, request.broker_id)
        self._outages.occurs(log, cause, "%s", text, level=logging.ERROR)
        return text

    def connection_closed(self, connection: Peer) -> None:
        """Whoever registered last over this connection is gone."""
        log_removed(self._routes.disconnect(connection), "connection closed")


def _still_there(ctx: Context) -> None:
    """Or nobody would unregister the broker."""
    if ctx.connection.closed:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, "the connection was closed before the registration was read"
        )


def _log_registered(request: RegisterBrokerRequest, done: Registered) -> None:
    if done.instead_of is not None:
        log.warning(
            "broker removed, another one has its address broker=%s addr=%s other=%s",
            done.instead_of,
            request.broker_addr,
            request.broker_name,
        )
    if done.is_new:
        log.info(
            "broker registered cluster=%s broker=%s id=%d addr=%s topics=%d",
            request.cluster_name,
            request.broker_name,
            request.broker_id,
            request.broker_addr,
            done.topics_taken,
        )
    elif done.topics_taken:
        log.info(
            "topics changed broker=%s addr=%s topics=%d",
            request.broker_name,
            request.broker_addr,
            done.topics_taken,
        )
    if done.forgotten:
        log.info(
            "topics forgotten, their master does not have them broker=%s addr=%s topics=%d %s",
            request.broker_name,
            request.broker_addr,
            len(done.forgotten),
            done.forgotten[:_MOST_LOGGED],
        )


def log_removed(removed: Sequence[Removed], reason: str) -> None:
    for broker in removed[:_MOST_LOGGED]:
        log.warning("broker removed addr=%s reason=%s", broker.address, reason)
    if len(removed) > _MOST_LOGGED:
        log.warning("brokers removed more=%d reason=%s", len(removed) - _MOST_LOGGED, reason)


class RouteProcessor:
    """Where topics, brokers and clusters are."""

    def __init__(self, routes: RouteTable, kv_config: KvConfig, config: NamesrvConfig) -> None:
        self._routes = routes
        self._kv_config = kv_config
        self._config = config
        self._sliced = SlicedRequests()

    @property
    def table(self) -> ProcessorTable:
        routes = self._routes
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_perm,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._sliced.handler(self.topics_of_cluster),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics(routes.topics),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._topics(
                lambda: routes.topics_with_flags(unit=True)
            ),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._topics(
                lambda: routes.topics_with_flags(unit_sub=True)
            ),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._topics(
                lambda: routes.topics_with_flags(unit=False, unit_sub=True)
            ),
        }

    def route(self, request: GetRouteInfoRequest, _body: Body, ctx: Context) -> Reply:
        order_conf = None
        if self._config.order_message_enable or self._config.cluster_test:
            order_conf = self._kv_config.get(ORDER_TOPIC_CONFIG, request.topic)
        body = self._routes.encoded_route(
            request.topic, standard=wants_standard_json(request, ctx), order_conf=order_conf
        )
        if body is None:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, remark=NO_ROUTE % request.topic)
        return Reply(body=body)

    def cluster_info(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        return Reply(body=encode_body(self._routes.cluster_info()))

    async def wipe_write_perm(self, request: BrokerNameRequest, _body: Body, ctx: Context) -> Reply:
        count = await self._sliced.alone(
            self._routes.wipe_write_perm(request.broker_name), ctx.connection
        )
        log.info(
            "write permission wiped broker=%s topics=%d peer=%s",
            request.broker_name,
            count,
            ctx.peer,
        )
        return Reply(header=WipeWritePermResponse(wipe_topic_count=count))

    async def add_write_perm(self, request: BrokerNameRequest, _body: Body, ctx: Context) -> Reply:
        count = await self._sliced.alone(
            self._routes.add_write_perm(request.broker_name), ctx.connection
        )
        log.info(
            "write permission added broker=%s topics=%d peer=%s",
            request.broker_name,
            count,
            ctx.peer,
        )
        return Reply(header=AddWritePermResponse(add_topic_count=count))

    def delete_topic(
        self, request: DeleteTopicFromNamesrvRequest, _body: Body, ctx: Context
    ) -> Reply:
        self._routes.delete_topic(request.topic, request.cluster_name)
        log.info(
            "topic deleted topic=%s cluster=%s peer=%s",
            request.topic,
            request.cluster_name or "all",
            ctx.peer,
        )
        return Reply()

    def topics_of_cluster(
        self, request: GetTopicsByClusterRequest, _body: Body, _ctx: Context
    ) -> Steps[Reply]:
        return _topic_list(self._routes.topics_of_cluster(request.cluster))

    def _topics(self, found: Callable[[], Steps[list[str]]]) -> Handler:
        return self._sliced.handler(lambda _request, _body, _ctx: _topic_list(found()))

    def system_topics(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        return Reply(body=encode_body(self._routes.system_topics()))


def wants_standard_json(request: GetRouteInfoRequest, ctx: Context) -> bool:
    """Whether the body of a route has quoted numeric keys, which older Java clients do not
    expect."""
    return ctx.version >= V4_9_4 or bool(request.accept_standard_json_only)


def _topic_list(found: Steps[list[str]]) -> Steps[Reply]:
    topics = yield from found
    return Reply(body=(yield from encode_in_slices(TopicList(topic_list=tuple(topics)))))


class KvConfigProcessor:
    """Key-value configuration; every change is on the disk before it is answered. Brokers that were
    lost are shown, and forgotten, as if they were of it (in memory only)."""

    def __init__(
        self, kv_config: KvConfig, file: SavedFile, lost: LostBrokers | None = None
    ) -> None:
        self._kv_config = kv_config
        self._file = file
        self._lost = lost or LostBrokers()

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.PUT_KV_CONFIG: self.put,
            RequestCode.GET_KV_CONFIG: self.get,
            RequestCode.DELETE_KV_CONFIG: self.delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.list_namespace,
        }

    async def put(self, request: PutKVConfigRequest, _body: Body, ctx: Context) -> Reply:
        if is_of_lost_brokers(request.namespace):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the namespace {request.namespace} is the name server's own: it can be read, and "
                "its keys deleted",
            )
        self._kv_config.put(request.namespace, request.key, request.value)
        log.info(
            "kv config set namespace=%s key=%s peer=%s", request.namespace, request.key, ctx.peer
        )
        return await _saved(self._file)

    def get(self, request: KVConfigRequest, _body: Body, _ctx: Context) -> Reply:
        value = self._lost.value(request.namespace, request.key)
        if value is None:
            value = self._kv_config.get(request.namespace, request.key)
        if value is None:
            remark = f"No config item, Namespace: {request.namespace} Key: {request.key}"
            return Reply(ResponseCode.QUERY_NOT_FOUND, header=GetKVConfigResponse(), remark=remark)
        return Reply(header=GetKVConfigResponse(value=value))

    async def delete(self, request: KVConfigRequest, _body: Body, ctx: Context) -> Reply:
        if is_of_lost_brokers(request.namespace):
            self._lost.forget(request.key)
            log.info("lost broker forgotten broker=%s peer=%s", request.key, ctx.peer)
            return Reply()
        self._kv_config.delete(request.namespace, request.key)
        log.info(
            "kv config deleted namespace=%s key=%s peer=%s",
            request.namespace,
            request.key,
            ctx.peer,
        )
        return await _saved(self._file)

    def list_namespace(
        self, request: GetKVListByNamespaceRequest, _body: Body, _ctx: Context
    ) -> Reply:
        entries = self._lost.table(request.namespace) or self._kv_config.namespace(
            request.namespace
        )
        if entries is None:
            return Reply(
                ResponseCode.QUERY_NOT_FOUND,
                remark=f"No config item, Namespace: {request.namespace}",
            )
        return Reply(body=encode_body(KVTable(table=dict(entries))))


class ConfigProcessor:
    """The name server's own configuration, read and changed while it runs (class Configuration;
    ``namesrv.md`` §5.10)."""

    def __init__(
        self, config: NamesrvConfig, extra: Mapping[str, str], own_port: Callable[[], int]
    ) -> None:
        """``extra``: what the file keeps beside ``config``, properties that this does not have
        (shown, but for passwords) and the home, where somebody has set it: the original looks for
        files of its own there, and not in ours. ``own_port``: which is listened on."""
        self._config = config
        self._own_port = own_port
        self._own_address = config.bind_address
        self._lock = asyncio.Lock()
        self._extra = dict(extra)
        self._file = SavedFile(config.config_store_path, self._file_text)

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update,
            RequestCode.GET_NAMESRV_CONFIG: self.show,
            RequestCode.HEALTH: self.health,
        }

    def health(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        """Whoever hears this is being answered: there is nothing else that could be wrong."""
        return Reply()

    def show(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        shown = {
            name: value for name, value in self._extra.items() if "password" not in name.lower()
        }
        return Reply(
            body=format_properties({**record_to_properties(self._config), **shown}).encode()
        )

    async def update(self, _request: NoFields, body: Body, ctx: Context) -> Reply:
        """All changes or none; a value that its property cannot take, or the next start, is
        answered with code 1 (the original skips the one and takes the other)."""
        if not body:
            return Reply()
        async with self._lock:
            return await self._update(body, ctx)

    async def _update(self, body: Body, ctx: Context) -> Reply:
        try:
            changes = parse_properties(bytes(body).decode())
            if any(self._config.is_black_listed(change.name) for change in changes):
                return Reply(
                    ResponseCode.NO_PERMISSION, remark="Can not update config in black list."
                )
            known = record_to_properties(self._config)
            wanted = {each.name: each.value for each in changes if each.name in known}
            parse_properties(format_properties({**known, **self._extra, **wanted}))
            after = structs.replace(self._config)
            update_record(after, changes)
            await self._check_here(after)
        except (PropertyError, UnicodeDecodeError, AddressInUseError) as error:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        changed = update_record(self._config, changes)
        log.info(
            "configuration changed properties=%s peer=%s", ",".join(changed) or "none", ctx.peer
        )
        return await _saved(self._file)

    async def _check_here(self, after: NamesrvConfig) -> None:
        """Raises ``AddressInUseError`` for what has changed and cannot be listened on."""
        host, port = after.bind_address, after.listen_port
        if host != self._config.bind_address:
            await asyncio.to_thread(check_bindable, "bindAddress", host, 0)
        elif port == self._config.listen_port:
            return
        if port != self._own_port() or are_two_addresses(host, self._own_address):
            await asyncio.to_thread(check_bindable, "listenPort", host, port)

    def _file_text(self) -> str:
        own = record_to_properties(self._config)
        del own[HOME]
        return format_properties({**own, **self._extra})


async def _saved(file: SavedFile) -> Reply:
    """Success once the file is written; otherwise the peer is told that the change will not outlive
    this process."""
    try:
        await file.save()
    except OSError as error:
        log.error("cannot write path=%s error=%s", file.path, error)
        problem = error.strerror or str(error)
        return Reply(
            ResponseCode.SYSTEM_ERROR,
            remark=f"changed in memory, but {file.path} cannot be written: {problem}",
        )
    return Reply()
