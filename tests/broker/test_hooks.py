"""Somebody else's code around requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiorocketmq.broker.hooks import HookError, hooked, load_hooks
from aiorocketmq.remoting.dispatch import Body, Context, Reply
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.store.model.config import FlushDiskType, MessageStoreConfig

from .sim_broker import sim_broker

SEEN: list[tuple[str, int, object]] = []


class Audit:
    """Sees everything, refuses what has nothing in it."""

    def before(self, ctx: Context, body: Body) -> Reply | None:
        SEEN.append(("before", ctx.code, len(body)))
        if ctx.code == RequestCode.SEND_MESSAGE and not body:
            return Reply(13, remark="empty")
        if bytes(body) == b"bad":
            raise RequestError(16, "not that")
        return None

    def after(self, ctx: Context, reply: Reply) -> None:
        offset = (reply.ext_fields or {}).get("queueOffset")
        SEEN.append(("after", ctx.code, (int(reply.code), offset)))


class Keeper:
    """Keeps what it has seen."""

    def __init__(self) -> None:
        self.bodies: list[object] = []

    def after(self, _ctx: Context, reply: Reply) -> None:
        self.bodies.append(reply.body)


keeper = Keeper()


class Nothing:
    """No hook."""


class Raising:
    """Of somebody who has made a mistake."""

    def after(self, ctx: Context, _reply: Reply) -> None:
        if ctx.code == RequestCode.SEND_MESSAGE:
            raise ZeroDivisionError


just_before = Audit()
NAME = f"{__name__}:Audit"


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("x", "module:name"),
        ("no.such.module:x", "cannot be loaded"),
        (f"{__name__}:x", "cannot be loaded"),
        (f"{__name__}:Nothing", "neither"),
    ],
)
def test_what_is_no_hook_is_refused(names: str, problem: str) -> None:
    with pytest.raises(HookError, match=problem):
        load_hooks(f"{NAME};{names}")


def test_no_hooks_cost_nothing() -> None:
    def handler(_request: object, _body: Body, _ctx: Context) -> None:
        return None

    table = {RequestCode.SEND_MESSAGE: handler}
    assert hooked(table, load_hooks(" ; "))[RequestCode.SEND_MESSAGE] is handler


def test_every_request_is_shown_before_and_after(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, request_hooks=f"{NAME};{__name__}:just_before") as world:
            client = world.connect()
            await client.send("T", b"ab")
            send = int(RequestCode.SEND_MESSAGE)
            assert SEEN[:2] == [("before", send, 2)] * 2
            assert SEEN[2:] == [("after", send, (0, "0"))] * 2
            SEEN.clear()
            with pytest.raises(Exception, match="empty"):
                await client.send("T", b"")
            assert SEEN[:1] == [("before", send, 0)]
            assert SEEN[1:] == [("after", send, (13, None))] * 2
            with pytest.raises(Exception, match="not that"):
                await client.send("T", b"bad")
            SEEN.clear()
            await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)  # a handler that is a coroutine
            assert [each[0] for each in SEEN] == ["before", "before", "after", "after"]

    asyncio.run(run())


def test_an_answer_that_waits_for_the_disk_is_shown_too(tmp_path: Path) -> None:
    async def run() -> None:
        store = MessageStoreConfig(
            store_path_root_dir=str(tmp_path),
            flush_disk_type=FlushDiskType.SYNC_FLUSH,
            mapped_file_size_commit_log=1 << 20,
        )
        async with sim_broker(tmp_path, store=store, request_hooks=NAME) as world:
            services = asyncio.ensure_future(world.broker.store.run())
            await world.make_topic("T")
            SEEN.clear()
            await world.connect().send("T", b"ab")
            assert [
                ("before", int(RequestCode.SEND_MESSAGE), 2),
                ("after", int(RequestCode.SEND_MESSAGE), (0, "0")),
            ] == SEEN
            services.cancel()
            await asyncio.gather(services, return_exceptions=True)

    asyncio.run(run())


def test_what_a_hook_raises_at_a_late_answer_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All that were synced together are answered together."""

    async def run() -> None:
        store = MessageStoreConfig(
            store_path_root_dir=str(tmp_path),
            flush_disk_type=FlushDiskType.SYNC_FLUSH,
            mapped_file_size_commit_log=1 << 20,
        )
        async with sim_broker(tmp_path, store=store, request_hooks=f"{__name__}:Raising") as world:
            services = asyncio.ensure_future(world.broker.store.run())
            await world.make_topic("T")
            client = world.connect()
            sends = [client.send("T", b"%d" % number) for number in range(5)]
            answers = await asyncio.gather(*sends)
            assert [answer.queue_offset for answer in answers] == list(range(5))
            services.cancel()
            await asyncio.gather(services, return_exceptions=True)

    asyncio.run(run())
    lines = [each for each in caplog.records if "a hook failed" in each.getMessage()]
    assert [each.exc_info is not None for each in lines] == [True]


def test_an_answer_that_comes_later_is_shown_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, request_hooks=NAME) as world:
            client = world.connect()
            await client.send("T", b"x")
            header = PullMessageRequest(
                consumer_group="g", topic="T", queue_id=0, queue_offset=1, max_msg_nums=1,
                sys_flag=6, commit_offset=0,
                suspend_timeout_millis=10_000, sub_version=0, subscription="*",
            )  # fmt: skip
            pulling = asyncio.ensure_future(client.ask(RequestCode.PULL_MESSAGE, header))
            while not world.broker.reads.pull.held_pulls:
                await asyncio.sleep(0)
            SEEN.clear()
            await client.send("T", b"yy")
            assert (await pulling).code == 0
            assert ("after", int(RequestCode.PULL_MESSAGE), (0, None)) in SEEN

    asyncio.run(run())


def test_a_hook_may_keep_what_was_pulled(tmp_path: Path) -> None:
    """Much of it is a view of the log's file otherwise, and that file could not be closed."""

    async def run() -> None:
        async with sim_broker(tmp_path, request_hooks=f"{__name__}:keeper") as world:
            client = world.connect()
            for _ in range(12):
                await client.send("T", bytes(8000))
            header = PullMessageRequest(
                consumer_group="g", topic="T", queue_id=0, queue_offset=0, max_msg_nums=32,
                sys_flag=4, commit_offset=0,
                suspend_timeout_millis=0, sub_version=0, subscription="*",
            )  # fmt: skip
            pulled = await client.ask(RequestCode.PULL_MESSAGE, header)
            assert len(pulled.body) > 12 * 8000
            assert keeper.bodies[-1] == bytes(pulled.body)
            assert isinstance(keeper.bodies[-1], bytes)

    asyncio.run(run())
