"""Make the pictures of ``docs/console``: ``make screenshots``.

A cluster of its own with some orders, a group that falls behind, a message that ends among dead
letters, and Chromium in front of the console.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from aiorocketmq import (
    Admin,
    LocalCluster,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    RetryLater,
    StartFrom,
)

FOLDER: Final = Path(__file__).parent / "console"
PROPERTIES: Final = {"messageDelayLevel": "1s 1s 1s 1s 1s 1s"}
TAGS: Final = ("created", "paid", "sent")
INSTALL: Final = "apt-get install -y chromium; .venv/bin/pip install playwright"


async def main() -> None:
    """Five pictures."""
    path = shutil.which("chromium")
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        path = None
    if path is None:
        raise SystemExit(f"there is no Chromium, or no playwright: {INSTALL}")
    FOLDER.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster(properties=PROPERTIES))
        poisoned = await stack.enter_async_context(_life(cluster.namesrv_address))
        url = await stack.enter_async_context(_console(cluster.namesrv_address))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, address, width, height, dark in (
            ("overview", "/", 1280, 560, False),
            ("group", "/group?name=billing", 1280, 900, False),
            ("message", f"/message?topic=Orders&id={poisoned}", 1280, 900, True),
            ("topic", "/topic?name=Orders", 1280, 820, False),
            ("phone", "/groups", 400, 820, True),
        ):
            page = await browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if dark else "light",
            )
            await page.goto(url + address)
            await page.wait_for_timeout(14_000 if name == "group" else 1500)
            await page.screenshot(path=FOLDER / f"{name}.png")
        await browser.close()


@asynccontextmanager
async def _life(namesrv: str) -> AsyncIterator[str]:
    """Orders come, ``billing`` is slow and cannot do one of them, whose id this gives; two members
    of ``shipping`` disagree."""
    async with Admin(namesrv=namesrv) as admin:
        await admin.create_topic("Orders", queues=4)
        await admin.create_topic("Bills", queues=4)
        await asyncio.sleep(1)
    gone = asyncio.Event()
    attempts = 0

    async def bill(message: MessageExt) -> None:
        nonlocal attempts
        if b"poison" in message.body:
            attempts += 1
            if attempts == 3:
                gone.set()
            raise RetryLater
        await asyncio.sleep(0.15)

    async def ship(_message: MessageExt) -> None: ...

    billing = PushConsumer(
        "billing", namesrv=namesrv, start_from=StartFrom.FIRST, trace=True, concurrency=1,
        max_reconsume_times=2,
    )  # fmt: skip
    shipping = [PushConsumer("shipping", namesrv=namesrv) for _ in range(2)]
    for consumer, handle, tags in (
        (billing, bill, "*"), (shipping[0], ship, "paid"), (shipping[1], ship, "paid || sent"),
    ):  # fmt: skip
        consumer.subscribe("Orders", tags)
        consumer.on_message(handle)
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(Producer("shop", namesrv=namesrv, trace=True))
        for consumer in (billing, *shipping):
            await stack.enter_async_context(consumer)
        body = {"order": 4711, "state": "poison", "items": [{"id": 1, "pieces": 2}]}
        poison = await producer.send(
            Message("Orders", json.dumps(body).encode(), tags="created", keys=("order-4711",))
        )
        await asyncio.wait_for(gone.wait(), 60)
        orders = asyncio.create_task(_orders(producer))
        stack.callback(orders.cancel)
        await asyncio.sleep(12)
        yield poison.msg_id
        orders.cancel()
        await asyncio.wait((orders,))


async def _orders(producer: Producer) -> None:
    """A little faster than they are billed."""
    number = 0
    while True:
        for _ in range(12):
            number += 1
            body = json.dumps({"order": number}).encode()
            await producer.send(
                Message("Orders", body, tags=TAGS[number % 3], keys=(f"order-{number}",))
            )
        await asyncio.sleep(1)


@asynccontextmanager
async def _console(namesrv: str) -> AsyncIterator[str]:
    """Its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aiorocketmq.console", "-n", namesrv, "--port", "0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    try:
        yield line.split()[1].rstrip("/")
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(main())
