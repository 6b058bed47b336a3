"""One producer for the life of a web application: ``python examples/fastapi_lifespan.py`` (``pip
install fastapi``).

In production: ``NAMESRV_ADDR=ns1:9876 uvicorn examples.fastapi_lifespan:app``.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request

from aiorocketmq import Message, Producer, SendFailed, run
from aiorocketmq.local_cluster import LocalCluster


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Producer("shop") as producer:  # the name servers stand in NAMESRV_ADDR
        app.state.producer = producer
        yield  # leaving waits for what is still being sent


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}")
async def order(number: int, request: Request) -> dict[str, str]:
    producer: Producer = request.app.state.producer
    try:
        result = await producer.send(
            Message("Order", await request.body(), keys=[str(number)]), sharding_key=number
        )
    except SendFailed as error:
        raise HTTPException(503, "the order was not taken, try again") from error
    return {"message": result.msg_id, "topic": result.queue.topic}


async def post(path: str, body: bytes) -> tuple[int, Any]:
    """What a server does with a request."""
    events: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(event: dict[str, Any]) -> None:
        events.append(event)

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    await app(scope, receive, send)
    return events[0]["status"], json.loads(b"".join(event.get("body", b"") for event in events))


async def main() -> None:
    async with LocalCluster() as cluster:
        os.environ["NAMESRV_ADDR"] = cluster.namesrv_address
        async with app.router.lifespan_context(app):
            status, answer = await post("/orders/4711", b"a book")
            print(status, answer["topic"], len(answer["message"]))


if __name__ == "__main__":
    run(main())
