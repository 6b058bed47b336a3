"""A client, a name server and a group of brokers of one name whose master is another one now and
then. Brokers are functions of the time, connections are none of this world's business."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.remoting.errors import ClientClosedError, ConnectError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.responses import Response

from ..sim import ManualClock

NAME_SERVER = "ns:1"
ONE, TWO, THREE = "h:10911", "h:20911", "h:30911"
GROUP = "group"
TOPIC = "T"
STEP_S = 0.01
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
FIELDS = {
    "msgId": "OFFSET",
    "queueId": "0",
    "queueOffset": "17",
    "offset": "5",
    "nextBeginOffset": "5",
    "minOffset": "0",
    "maxOffset": "5",
    "suggestWhichBrokerId": "0",
}
"""Of any answer."""


class Says(NamedTuple):
    """What a broker answers to everything."""

    code: int = 0
    remark: str = ""


GONE = Says(-1)
"""Nothing listens there."""
SLAVE = Says(ResponseCode.SERVICE_NOT_AVAILABLE, "messages are put to the slave")
ELECTING = Says(ResponseCode.SYSTEM_ERROR, "[PC_SYNCHRONIZED]broker busy, start flow control")


class MovingMaster:
    """``ids`` is what the name server tells of the group, ``brokers`` what its members answer."""

    def __init__(self, ids: dict[int, str], brokers: dict[str, Says]) -> None:
        self.clock = ManualClock()
        self.ids = ids
        self.brokers = brokers
        self.name_server_answers = True
        self.closed = False
        self.asked: list[tuple[float, str, RequestCode]] = []
        """When who was asked what."""
        self.headers: list[object] = []
        """Of those, but for what name servers were asked."""
        self._not_before: dict[str, tuple[float, float]] = {}
        self.instance: ClientInstance = ClientInstance(namesrv=NAME_SERVER, clock=self.clock)
        self.instance.remoting = self  # type: ignore[assignment]
        self.instance.name_servers._remoting = self  # type: ignore[assignment]

    def asked_of(self, address: str) -> list[float]:
        """When, in seconds since the beginning."""
        return [when for when, whom, _ in self.asked if whom == address]

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - 1000

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.clock.advance(STEP_S)
            for _ in range(10):
                await asyncio.sleep(0)

    # --- as a RemotingClient
    # ----------------------------------------------------------------------------------------------

    async def invoke(
        self,
        address: str,
        code: RequestCode,
        header: object = None,
        _body: bytes = b"",
        *,
        timeout: float,
        ext_fields: dict[str, str] | None = None,
    ) -> Response:
        assert timeout > 0
        assert ext_fields is None
        if code is ROUTE:
            return self._route(code)
        says = self._knock(address, code)
        self.headers.append(header)
        return _response(code, says, FIELDS)

    async def invoke_oneway(
        self, address: str, code: RequestCode, *_: object, timeout: float, remark: object = None
    ) -> None:
        assert timeout > 0
        self._knock(address, code)

    def back_off(self, address: str) -> float:
        return max(0.0, self._not_before.get(address, (0.0, 0.0))[0] - self.clock.monotonic())

    def connected_to(self, _address: str) -> None:
        return None

    def _knock(self, address: str, code: RequestCode) -> Says:
        if self.closed:
            raise ClientClosedError("closed")
        if self.back_off(address) > 0:
            raise ConnectError(f"{address} has just refused")
        self.asked.append((self.seconds, address, code))
        says = self.brokers[address]
        if says is GONE:
            _, gap = self._not_before.get(address, (0.0, 0.025))
            gap = min(0.5, 2 * gap)
            self._not_before[address] = self.clock.monotonic() + gap, gap
            raise ConnectError(f"{address} refuses")
        return says

    def _route(self, code: RequestCode) -> Response:
        self.asked.append((self.seconds, NAME_SERVER, code))
        if not self.name_server_answers:
            raise ConnectError("no name server")
        if not self.ids:
            return _response(code, Says(ResponseCode.TOPIC_NOT_EXIST))
        queues = [QueueData(broker_name=GROUP, read_queue_nums=2, write_queue_nums=2, perm=6)]
        brokers = [BrokerData(cluster="C", broker_name=GROUP, broker_addrs=self.ids)]
        route = TopicRouteData(queue_datas=queues, broker_datas=brokers)
        return _response(code, Says(), body=encode_body(route))


def _response(
    code: RequestCode, says: Says, fields: dict[str, str] | None = None, body: bytes = b""
) -> Response:
    command = RemotingCommand(
        code=says.code, opaque=1, flag=1, remark=says.remark, ext_fields=fields or {}
    )
    return Response.of(command, body, code)
