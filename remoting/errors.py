"""Errors of the remoting layer and the tree that all of ours hang on.

Operating errors are typed and handled where something can be done about them; their text says what
to do. A bug is no ``RocketMQError`` and stops whoever has it.
"""

from __future__ import annotations

from .protocol.codes import ResponseCode


class RocketMQError(Exception):
    """Base of every error that using RocketMQ can raise."""


class RemotingError(RocketMQError):
    """The exchange with a peer failed; whether the peer acted on the request is unknown unless the
    subclass says so."""


class ConnectError(RemotingError):
    """No connection could be made: the request was not sent."""


class NothingListensError(ConnectError):
    """The connection was refused: what should listen there is stopped, or just starting."""


class ClientClosedError(ConnectError):
    """The client itself was closed: no address can be reached any more."""


class ConnectionLostError(RemotingError):
    """The connection ended while the request was on its way."""


class RequestTimeout(RemotingError, TimeoutError):
    """No answer in time."""


class TooManyRequestsError(RemotingError):
    """More requests in flight than the limit allows: the request was not sent."""


class AddressInUseError(RemotingError):
    """The port to listen on is taken, or not ours to take."""


class ProtocolError(RemotingError):
    """The peer sent bytes that are no frame of this protocol."""


class RequestError(RocketMQError):
    """Raised by a handler: answer the request with this code and remark."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


class BrokerError(RocketMQError):
    """A broker or name server answered with a code other than success.

    Attributes: ``code`` (see ``ResponseCode``), ``remark`` (the server's text), ``address``
    (``host:port`` asked).
    """

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        name = ResponseCode(code).name if code in ResponseCode._value2member_map_ else "UNKNOWN"
        where = f" from {address}" if address else ""
        super().__init__(f"{name} ({code}){where}: {remark or 'no remark'}")
        self.code = code
        self.remark = remark
        self.address = address


class SystemBusy(BrokerError):
    """Code 2: flow control; try again later or elsewhere."""


class RequestNotSupported(BrokerError):
    """Code 3: the server does not know this request."""


class NoPermission(BrokerError):
    """Code 16."""


class TopicNotExist(BrokerError):
    """Code 17: create the topic (``mqadmin updateTopic``) or allow automatic creation."""


class QueryNotFound(BrokerError):
    """Code 22: nothing under that key."""


class SubscriptionNotExist(BrokerError):
    """Code 24: the broker has no heartbeat of this group with this topic."""


class SubscriptionNotLatest(BrokerError):
    """Code 25: the broker's subscription is older than the one of the request; a heartbeat mends
    it."""


class SubscriptionGroupNotExist(BrokerError):
    """Code 26: create the group (``mqadmin updateSubGroup``) or allow automatic creation."""


class ConsumerNotOnline(BrokerError):
    """Code 206: no consumer of the group is connected."""


_BY_CODE: dict[int, type[BrokerError]] = {
    ResponseCode.SYSTEM_BUSY: SystemBusy,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: RequestNotSupported,
    ResponseCode.NO_PERMISSION: NoPermission,
    ResponseCode.TOPIC_NOT_EXIST: TopicNotExist,
    ResponseCode.QUERY_NOT_FOUND: QueryNotFound,
    ResponseCode.SUBSCRIPTION_NOT_EXIST: SubscriptionNotExist,
    ResponseCode.SUBSCRIPTION_NOT_LATEST: SubscriptionNotLatest,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: SubscriptionGroupNotExist,
    ResponseCode.CONSUMER_NOT_ONLINE: ConsumerNotOnline,
}


def broker_error(code: int, remark: str | None, address: str = "") -> BrokerError:
    """The error for a response code: the subclass that callers branch on, or ``BrokerError``
    itself."""
    return _BY_CODE.get(code, BrokerError)(code, remark, address)
