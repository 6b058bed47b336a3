"""What a consumer makes of each answer to a pull (client.md §4.5), on a scripted broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from msgspec import structs

from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.consumer.owned_queue import CacheLimits, OwnedQueue
from aiorocketmq.client.consumer.pulling import Pulled, PullRequest, PullSettings, PullStatus
from aiorocketmq.client.consumer.subscription import tag_subscription
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.errors import BrokerError, ConnectError, RequestTimeout
from aiorocketmq.remoting.protocol.bodies.route import BrokerData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.commands.pull import (
    PullMessageRequest,
    PullMessageResponse,
    PullSysFlag,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.services import TaskSet

from .messages import HOST
from .scripted_broker import BROKER, NotingOwner, ScriptedBroker, member_of, route_of

PULL = RequestCode.PULL_MESSAGE


def answer(code: int, following: int, *tags: str, queue_id: int = 0) -> Reply:
    records = b"".join(
        encode_record(NewRecord(
            "T", queue_id, b"body", encode_properties({"TAGS": tag}),
            queue_offset=following - len(tags) + index, phy_offset=0,
            sys_flag=0, born_timestamp=1, born_host=HOST, store_timestamp=2, store_host=HOST,
        ))
        for index, tag in enumerate(tags)
    )  # fmt: skip
    header = PullMessageResponse(
        suggest_which_broker_id=0, next_begin_offset=following, min_offset=0, max_offset=100
    )
    return Reply(int(code), header=header, body=records)


class Scene:
    """One queue that is pulled from 5 on; the broker says what ``answers`` says, and then nothing
    more."""

    def __init__(
        self, *answers: Reply, subscribe: str = "*", settings: PullSettings | None = None
    ) -> None:
        self.broker = ScriptedBroker()
        self._answers = list(answers)
        self.broker.answers[PULL] = self._next
        instance = self.broker.instance()
        (self.queue,) = self.broker.know_topic(instance, "T", 1)
        self.member = member_of(instance, NotingOwner(), "T")
        self.member.offsets.update(self.queue, 5)
        self.gate = asyncio.Event()
        self.gate.set()
        self.submitted: list[MessageExt] = []
        self.owned = OwnedQueue(
            PullRequest(
                self.member,
                self.queue,
                tag_subscription("T", subscribe, 1),
                settings or PullSettings(32, 15.0, PullSysFlag.SUSPEND, commits_on_pull=True),
                5,
            ),
            CacheLimits(),
            lambda _owned, messages: self.submitted.extend(messages),
            self.gate,
        )
        self.tasks = TaskSet("test")

    def _next(self, _request: PullMessageRequest) -> Reply:
        if len(self._answers) == 1:
            self.gate.clear()
        return self._answers.pop(0)

    @property
    def pulls(self) -> list[PullMessageRequest]:
        return self.broker.requests(PULL)

    @property
    def committed(self) -> int | None:
        return self.member.offsets.get(self.queue)

    async def play(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds; nobody waits for the clock."""
        self.owned.start(self.tasks)
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)

    async def close(self) -> None:
        await self.tasks.close()
        await self.member.instance.stop()
        await self.member.instance.remoting.close()


@pytest.mark.parametrize(
    ("code", "following", "tags", "expected"),
    [
        (
            ResponseCode.SUCCESS,
            8,
            ("a", "a", "b"),
            (5, [5, 6], 8),
        ),  # committed, submitted, pulled next
        (ResponseCode.SUCCESS, 8, ("b", "b", "b"), (8, [], 8)),  # of other tags: passed
        (ResponseCode.PULL_NOT_FOUND, 7, (), (7, [], 7)),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 9, (), (9, [], 9)),
        (ResponseCode.PULL_NOT_FOUND, 3, (), (5, [], 3)),  # never backwards
    ],
)
def test_an_answer(
    code: int, following: int, tags: tuple[str, ...], expected: tuple[int, list[int], int]
) -> None:
    async def main() -> None:
        scene = Scene(
            answer(code, following, *tags),
            answer(ResponseCode.PULL_NOT_FOUND, following),
            subscribe="a",
        )
        await scene.play(lambda: len(scene.pulls) == 2)
        offsets = [message.queue_offset for message in scene.submitted]
        assert (scene.committed, offsets, scene.pulls[1].queue_offset) == expected
        await scene.close()

    asyncio.run(main())


def test_nothing_new_does_not_pass_what_is_held() -> None:
    async def main() -> None:
        scene = Scene(
            answer(ResponseCode.SUCCESS, 6, "a"), answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 50)
        )
        await scene.play(lambda: len(scene.pulls) == 2)
        assert (scene.committed, scene.owned.pulling.next_offset) == (5, 50)
        await scene.close()

    asyncio.run(main())


def test_a_slave_that_has_less_than_was_read_is_not_asked_without_a_pause() -> None:
    async def main() -> None:
        behind = answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 5)
        scene = Scene(behind, behind, answer(ResponseCode.PULL_NOT_FOUND, 5))
        await scene.play(lambda: len(scene.pulls) == 1)
        for seen in (1, 2):
            scene.broker.clock.advance(0.999)
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(scene.pulls) == seen
            scene.broker.clock.advance(0.002)
            async with asyncio.timeout(10):
                while len(scene.pulls) == seen:
                    await asyncio.sleep(0)
            assert scene.pulls[seen].queue_offset == 5
            for _ in range(5):
                await asyncio.sleep(0)
        await scene.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "trouble", [RequestTimeout("no word"), ConnectError("nobody"), BrokerError(1, "no", "slave:1")]
)
def test_after_a_slave_has_failed_the_master_is_asked(trouble: Exception) -> None:
    """It may be in the route for minutes, and nobody else would suggest another one."""

    async def main() -> None:
        scene = Scene()
        two = [BrokerData(cluster="C", broker_name=BROKER, broker_addrs={0: "m:1", 1: "slave:1"})]
        route = topic_route("T", structs.replace(route_of(1), broker_datas=two))
        scene.member.instance.routes._store(route)
        asked: list[str] = []

        async def ask(address: str, *_: object) -> Pulled:
            asked.append(address)
            if len(asked) == 1:
                return Pulled(PullStatus.NO_NEW_MSG, [], 5, 0, 5, suggested_broker_id=1)
            if len(asked) == 2:
                raise trouble
            scene.gate.clear()
            return Pulled(PullStatus.NO_NEW_MSG, [], 5, 0, 5, suggested_broker_id=0)

        scene.owned.pulling._ask = ask  # type: ignore[assignment]
        scene.owned.start(scene.tasks)
        async with asyncio.timeout(10):
            while len(asked) < 3:
                scene.broker.clock.advance(1.0)
                await asyncio.sleep(0)
        assert asked == ["m:1", "slave:1", "m:1"]
        await scene.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("corrected", "goes_on"),
    [(15, 5), (5, 5), (2, 2)],  # the queue ends in what is held, in front of it, or before that
)
def test_what_is_not_consumed_yet_is_read_again_where_a_queue_ends_earlier(
    corrected: int, goes_on: int
) -> None:
    """A replica that was behind leads now: the rest it has, and what it lacks will be others."""

    async def main() -> None:
        scene = Scene(
            answer(ResponseCode.SUCCESS, 25, *"a" * 20),
            answer(ResponseCode.PULL_OFFSET_MOVED, corrected),
            answer(ResponseCode.PULL_NOT_FOUND, goes_on),
        )
        await scene.play(lambda: len(scene.pulls) == 2)
        before = scene.owned.process_queue
        scene.broker.clock.advance(1.0)
        async with asyncio.timeout(10):
            while len(scene.pulls) < 3:
                await asyncio.sleep(0)
        assert (scene.pulls[2].queue_offset, scene.committed) == (goes_on, goes_on)
        scene.owned.finish(before, scene.submitted)  # held before the correction
        assert scene.committed == goes_on
        await scene.close()

    asyncio.run(main())


def test_what_is_held_is_consumed_where_a_queue_begins_later() -> None:
    async def main() -> None:
        scene = Scene(
            answer(ResponseCode.SUCCESS, 6, "a"),
            answer(ResponseCode.PULL_OFFSET_MOVED, 50),
            answer(ResponseCode.PULL_NOT_FOUND, 50),
            answer(ResponseCode.PULL_NOT_FOUND, 50),
        )
        await scene.play(lambda: len(scene.pulls) == 2)
        scene.broker.clock.advance(1.0)
        async with asyncio.timeout(10):
            while len(scene.pulls) < 3:
                await asyncio.sleep(0)
        assert (scene.pulls[2].queue_offset, scene.committed) == (50, 5)
        scene.owned.finish(scene.owned.process_queue, scene.submitted)
        async with asyncio.timeout(10):
            while scene.committed != 50:
                await asyncio.sleep(0)
        await scene.close()

    asyncio.run(main())


@pytest.mark.parametrize("known", [0, 3])
def test_a_topic_that_was_deleted_and_made_again_is_read_from_where_its_broker_says(
    known: int,
) -> None:
    """Ours says 0: it has forgotten the groups of the old one, which had more messages."""

    async def main() -> None:
        scene = Scene(
            answer(ResponseCode.SUCCESS, 6, "a"),
            Reply(int(ResponseCode.TOPIC_NOT_EXIST), remark="it is gone"),
            answer(ResponseCode.SUCCESS, 7, "a"),
            answer(ResponseCode.PULL_NOT_FOUND, known),
        )
        scene.broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Reply(
            header=OffsetResponse(offset=known)
        )
        await scene.play(lambda: len(scene.pulls) == 2)
        assert scene.committed is None, "nothing is told of the old one any more"
        scene.broker.clock.advance(1.0)
        async with asyncio.timeout(10):
            while len(scene.pulls) < 4:
                await asyncio.sleep(0)
        assert not scene.pulls[2].sys_flag & PullSysFlag.COMMIT_OFFSET
        assert scene.pulls[3].queue_offset == known
        assert [message.queue_offset for message in scene.submitted] == [5]
        assert scene.committed == known
        await scene.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("code", "pause", "heartbeats"),
    [
        (ResponseCode.FLOW_CONTROL, 0.02, 0),
        (ResponseCode.SYSTEM_ERROR, 1.0, 0),
        (ResponseCode.SUBSCRIPTION_NOT_EXIST, 1.0, 1),
        (ResponseCode.SUBSCRIPTION_NOT_LATEST, 1.0, 1),
    ],
)
def test_an_error_is_tried_again_at_the_same_place(
    code: int, pause: float, heartbeats: int
) -> None:
    async def main() -> None:
        scene = Scene(Reply(int(code), remark="no"), answer(ResponseCode.PULL_NOT_FOUND, 5))
        scene.member.instance._state = "running"
        scene.member.instance._producers.add("p")
        await scene.play(lambda: len(scene.broker.clock._sleepers) == 1)
        scene.broker.clock.advance(pause - 0.001)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(scene.pulls) == 1
        scene.broker.clock.advance(0.002)
        async with asyncio.timeout(10):
            while len(scene.pulls) < 2:
                await asyncio.sleep(0)
        assert scene.pulls[1].queue_offset == 5
        assert len(scene.broker.requests(RequestCode.HEART_BEAT)) == heartbeats
        await scene.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("commits", "flag", "expected"),
    [
        (True, PullSysFlag.SUSPEND, (PullSysFlag.SUSPEND | PullSysFlag.COMMIT_OFFSET, 5, None, 1)),
        (False, PullSysFlag.SUSPEND, (PullSysFlag.SUSPEND, 0, None, 1)),
        (
            False,
            PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL,
            (22, 0, "a", 0),
        ),
    ],
)
def test_what_a_pull_says(
    commits: bool, flag: int, expected: tuple[int, int, str | None, int]
) -> None:
    async def main() -> None:
        settings = PullSettings(17, 15.0, flag, commits_on_pull=commits)
        scene = Scene(answer(ResponseCode.PULL_NOT_FOUND, 5), subscribe="a", settings=settings)
        await scene.play(lambda: len(scene.pulls) == 1)
        (pull,) = scene.pulls
        assert (pull.sys_flag, pull.commit_offset, pull.subscription, pull.sub_version) == expected
        assert (pull.max_msg_nums, pull.suspend_timeout_millis, pull.queue_offset) == (
            17,
            15_000,
            5,
        )
        assert MessageQueue(pull.topic, pull.bname or "", pull.queue_id) == scene.queue
        await scene.close()

    asyncio.run(main())


def test_pulls_that_bring_something_may_be_apart() -> None:
    async def main() -> None:
        settings = PullSettings(32, 15.0, PullSysFlag.SUSPEND, commits_on_pull=True, interval=3.0)
        scene = Scene(
            answer(ResponseCode.PULL_NOT_FOUND, 5),
            answer(ResponseCode.SUCCESS, 6, "a"),
            answer(ResponseCode.PULL_NOT_FOUND, 6),
            settings=settings,
        )
        await scene.play(lambda: len(scene.broker.clock._sleepers) == 1)
        assert len(scene.pulls) == 2
        scene.broker.clock.advance(3.0)
        async with asyncio.timeout(10):
            while len(scene.pulls) < 3:
                await asyncio.sleep(0)
        await scene.close()

    asyncio.run(main())


def damaged(reply: Reply, at: int) -> Reply:
    body = bytes(reply.body)
    return Reply(
        reply.code, header=reply.header, body=body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]
    )


def left_out(reply: Reply) -> Reply:
    """A broker that has found the second of three records damaged."""
    size = len(reply.body) // 3
    assert reply.header is not None
    header = msgspec.structs.replace(reply.header, damaged_msg_nums=1)
    return Reply(
        reply.code, header=header, body=bytes(reply.body[:size]) + bytes(reply.body[2 * size :])
    )


@pytest.mark.parametrize("by_broker", [False, True])
def test_a_damaged_message_is_read_from_the_slave(by_broker: bool) -> None:
    async def main() -> None:
        found = answer(ResponseCode.SUCCESS, 8, "a", "a", "a")
        scene = Scene(
            left_out(found) if by_broker else damaged(found, 90),
            found,
            answer(ResponseCode.PULL_NOT_FOUND, 8),
        )
        scene.member.instance.routes._brokers["broker-a"] = {
            0: "127.0.0.1:10911",
            1: "127.0.0.1:10921",
        }
        await scene.play(lambda: len(scene.pulls) == 3)
        assert [message.queue_offset for message in scene.submitted] == [5, 6, 7]
        assert [(pull.queue_offset,
        bool(pull.sys_flag & PullSysFlag.SUSPEND)) for pull in scene.pulls] == [
            (5, True), (5, False), (8, True),
        ]  # fmt: skip
        assert scene.member.damaged == 0
        await scene.close()

    asyncio.run(main())


@pytest.mark.parametrize("slave", [False, True])
def test_a_message_that_is_damaged_everywhere_does_not_hold_up_its_queue(
    slave: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        found = damaged(answer(ResponseCode.SUCCESS, 8, "a", "a", "a"), 90)
        answers = [found, answer(ResponseCode.SYSTEM_ERROR, 0)] if slave else [found]
        scene = Scene(*answers, answer(ResponseCode.PULL_NOT_FOUND, 8))
        if slave:
            scene.member.instance.routes._brokers["broker-a"] = {
                0: "127.0.0.1:10911",
                1: "127.0.0.1:10921",
            }
        await scene.play(lambda: len(scene.pulls) == len(answers) + 1)
        assert [message.queue_offset for message in scene.submitted] == [6, 7]
        assert (scene.pulls[-1].queue_offset, scene.member.damaged) == (8, 1)
        [line] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert "queue=T/broker-a/0 offset=5" in line
        await scene.close()

    asyncio.run(main())
