"""A server that does nothing: the same framing, the same loop, one constant answer per frame. What
is left is the floor."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header

_FIELDS = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "0"}
_ANSWER = encode_frame(0, encode_header(RemotingCommand(code=0, flag=1, ext_fields=_FIELDS)))


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self._decoder = FrameDecoder()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        frames = self._decoder.feed(data)
        if frames:
            self._transport.write(_ANSWER * len(frames))


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())
