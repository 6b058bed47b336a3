"""Messages that a broker took once and cannot store where they belong: they stop nobody, and are
found again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.state import topics as broker_topics
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import ViewMessageRequest
from aiorocketmq.remoting.protocol.commands.send import (
    ConsumerSendMsgBackRequest,
    SendMessageRequest,
)
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import PutResult, PutStatus
from aiorocketmq.store.put.multi_dispatch import MAX_TARGETS

from ..schedule_scenes import PEER, SCHEDULE, bodies, deliver, messages, play, put_scheduled
from ..sim_broker import SimBroker, SimClient
from ..transaction_scenes import COMMIT, GIVEN_UP, HALF, asked, checked, end, half, stored, word
from ..transaction_scenes import play as play_transactions

DELAYED = "%DLQ%SCHEDULE_CONSUMER"
LIGHT: dict[str, Any] = {"enable_multi_dispatch": True, "enable_lmq": True}
TO_T = "REAL_TOPIC\x01T\x02REAL_QID\x010"

Setup = Callable[[SimBroker], None]


def lower_limit(sim: SimBroker, size: int) -> None:
    sim.broker.store.config.max_message_size = size
    sim.broker.store.reconfigure()


def too_many_queues(sim: SimBroker) -> None:
    put_scheduled(
        sim,
        f"{TO_T}\x02INNER_MULTI_DISPATCH\x01{','.join(f't{n}' for n in range(MAX_TARGETS + 1))}",
        1,
    )


def too_many_light_queues(sim: SimBroker) -> None:
    put_scheduled(sim, f"{TO_T}\x02INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b,%LMQ%c", 1)


def names_no_topic(sim: SimBroker) -> None:
    put_scheduled(sim, f"{TO_T}\x02INNER_MULTI_DISPATCH\x01no topic", 1)


def too_long_with_numbers(sim: SimBroker) -> None:
    names = ",".join(f"t{n}" for n in range(100))
    put_scheduled(
        sim, f"{TO_T}\x02INNER_MULTI_DISPATCH\x01{names}\x02P\x01{'p' * (32_700 - len(names))}", 1
    )


def too_large(sim: SimBroker) -> None:
    sim.broker.store.put_message(
        PutMessage(SCHEDULE, 0, b"x" * 5_000, TO_T.encode(), PEER, 1, sim.clock.time_ms(), 1)
    )
    lower_limit(sim, 4_999)


def no_place(sim: SimBroker) -> None:
    put_scheduled(sim, "REAL_TOPIC\x01../T\x02REAL_QID\x010", 1)


def dead_letters(sim: SimBroker) -> int:
    return sim.broker.monitoring.stats.dead_letters


REFUSED = [
    too_many_queues,
    too_many_light_queues,
    names_no_topic,
    too_long_with_numbers,
    too_large,
    no_place,
]


@pytest.mark.parametrize("bad", REFUSED)
def test_what_is_refused_for_good_goes_to_the_dead_letters_and_its_level_goes_on(
    tmp_path: Path, bad: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(sim: SimBroker, _client: SimClient) -> None:
        put_scheduled(sim, TO_T, 1)
        bad(sim)
        [*_, entry] = sim.broker.store.entries.some(SCHEDULE, 0, 0, 9) or []
        put_scheduled(sim, TO_T, 1)
        deliver(sim)
        assert len(bodies(sim)) == 2
        [dead] = messages(sim, DELAYED)
        record = sim.broker.store.message_by_offset(entry[0])
        assert record is not None
        waited = decode_record(record)
        assert (dead.body, dead.properties, dead.born_timestamp) == (
            waited.body,
            waited.properties,
            1,
        )
        assert dead_letters(sim) == 1
        assert f"phy_offset={entry[0]}" in caplog.text

    play(tmp_path, scene, max_lmq_consume_queue_num=2, **LIGHT)


def test_a_retry_goes_to_the_dead_letters_of_its_group(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        for body in (b"long" * 100, b"short"):
            sent = await client.send("T", body)
            offset = int(sent.msg_id[16:], 16)
            back = ConsumerSendMsgBackRequest(offset=offset, group="g", delay_level=1)
            (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
        lower_limit(sim, 100)
        sim.clock.advance(1)
        deliver(sim)
        assert (bodies(sim, "%RETRY%g"), bodies(sim, "%DLQ%g")) == ([b"short"], [b"long" * 100])
        topic = sim.broker.state.topics.get("%DLQ%g")
        assert topic is not None
        assert topic.put_nums == 1

    play(tmp_path, scene)


def test_what_not_even_the_dead_letters_can_take_stays_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A record longer than a file. The line tells where an administrator finds it."""

    async def before(sim: SimBroker, _client: SimClient) -> None:
        sim.broker.store.put_message(
            PutMessage(
                SCHEDULE,
                0,
                b"x" * 30_000,
                TO_T.encode(),
                PEER,
                1,
                sim.clock.time_ms(),
                sim.clock.time_ms() + 500,
            )
        )
        put_scheduled(sim, TO_T, sim.clock.time_ms() + 500)

    async def after(sim: SimBroker, client: SimClient) -> None:
        sim.broker.store._writer._max_record = 20_000  # type: ignore[misc]  # as with smaller files
        sim.broker.store.reconfigure()
        sim.clock.advance(1)
        deliver(sim)
        assert (bodies(sim), bodies(sim, DELAYED)) == ([b"x"], [])
        assert (dead_letters(sim), sim.broker.monitoring.stats.skipped_messages) == (0, 1)
        assert f"mqadmin queryMsgById -i {sim.broker.store.message_id(0)}" in caplog.text
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=0))
        assert decode_record(answer.check().body).body == b"x" * 30_000

    play(tmp_path, before, after)


def test_a_refusal_that_passes_keeps_the_order_also_in_front_of_the_dead_letters(
    tmp_path: Path,
) -> None:
    async def scene(sim: SimBroker, _client: SimClient) -> None:
        store = sim.broker.store
        no_place(sim)
        put_scheduled(sim, TO_T, 1)
        store._writer.refusal = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark="full")
        deliver(sim)
        assert (sim.broker.tables.delay_offsets.get(1), dead_letters(sim)) == (0, 0)
        store._writer.refusal = None
        sim.clock.advance(0.1)
        deliver(sim)
        assert (
            len(bodies(sim)),
            len(bodies(sim, DELAYED)),
            sim.broker.tables.delay_offsets.get(1),
        ) == (
            1,
            1,
            2,
        )

    play(tmp_path, scene)


def test_statuses_are_refusals_for_good_or_pass() -> None:
    for_good = {status for status in PutStatus if status.is_for_good}
    assert for_good == {
        PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED,
        PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED,
    }  # fmt: skip


# -- said when the message is sent
# ------------------------------------------------------------------------------------


async def refusal(client: SimClient, properties: str, body: bytes = b"x") -> tuple[int, str]:
    header = SendMessageRequest(
        producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0, born_timestamp=1, flag=0, properties=properties,
    )  # fmt: skip
    answer = await client.ask(RequestCode.SEND_MESSAGE, header, body)
    return answer.code, answer.remark or ""


@pytest.mark.parametrize("waits_for", ["DELAY\x011", "TRAN_MSG\x01true\x02PGROUP\x01pg"])
@pytest.mark.parametrize(
    ("names", "padding", "code"),
    [
        (",".join(f"t{n}" for n in range(MAX_TARGETS + 1)), 0, ResponseCode.MESSAGE_ILLEGAL),
        ("%LMQ%a,%LMQ%b,%LMQ%c", 0, ResponseCode.SYSTEM_ERROR),
        ("no topic", 0, ResponseCode.MESSAGE_ILLEGAL),
        (",".join(f"t{n}" for n in range(100)), 31_000, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_queues_that_a_waiting_message_cannot_go_to_are_told_its_producer(
    tmp_path: Path, waits_for: str, names: str, padding: int, code: int
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        properties = f"{waits_for}\x02INNER_MULTI_DISPATCH\x01{names}\x02P\x01{'p' * padding}"
        assert (await refusal(client, properties))[0] == code
        assert sim.broker.store.max_phy_offset == 0
        assert (await refusal(client, f"{waits_for}\x02INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b"))[
            0
        ] == 0

    play(tmp_path, scene, max_lmq_consume_queue_num=2, **LIGHT)


def test_a_message_that_is_given_back_may_name_what_it_likes(tmp_path: Path) -> None:
    """Retries go to one group only: the limits of those queues do not concern them."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"x", properties="INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b")
        at_once(sim.broker.store.delete_topic_in_slices("%LMQ%a"))
        dispatch = sim.broker.store._dispatch
        assert dispatch is not None
        dispatch._rules = dispatch._rules._replace(max_light_queues=1)  # type: ignore[misc]
        back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=1)
        (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
        sim.clock.advance(1)
        deliver(sim)
        assert bodies(sim, "%RETRY%g") == [b"x"]

    play(tmp_path, scene, **LIGHT)


# -- others that store again what was taken once
# ----------------------------------------------------------------------


def test_a_message_given_back_that_is_too_large_now_goes_to_the_dead_letters(
    tmp_path: Path,
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"x" * 100, properties="TAGS\x01a")
        lower_limit(sim, 99)
        back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=0)
        (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
        [dead] = messages(sim, "%DLQ%g")
        assert (dead.body, dead.tags, dead.properties["RETRY_TOPIC"]) == (b"x" * 100, "a", "T")
        assert dead.properties["ORIGIN_MESSAGE_ID"] == sim.broker.store.message_id(0)
        assert dead_letters(sim) == 1

    play(tmp_path, scene)


def test_a_message_given_back_with_too_long_properties_keeps_its_own(tmp_path: Path) -> None:
    """A retry has more of them: where it came from, and when it is to come again."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        long = "P\x01" + "p" * 32_740
        await client.send("T", b"x", properties=long)
        back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=0)
        (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
        [dead] = messages(sim, "%DLQ%g")
        assert dead.raw_properties == long.encode() + b"\x02CLUSTER\x01C"

    play(tmp_path, scene)


def test_a_refusal_that_passes_is_told_who_gives_back(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"x")
        sim.broker.store._writer.refusal = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark="full")
        back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=0)
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        assert (answer.code, answer.remark, dead_letters(sim)) == (1, "SERVICE_NOT_AVAILABLE", 0)

    play(tmp_path, scene)


@pytest.mark.parametrize("why", ["too large now", "no room for a counter"])
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_half_message_that_cannot_be_copied_does_not_end_the_checks(
    tmp_path: Path, why: str, rounds: int
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        padding = "\x02P\x01" + "p" * (32_610 if why == "no room for a counter" else 0)
        bad = await half(sim, client, "long " + "x" * 50, more=padding)
        await half(sim, client, "K")
        if why == "too large now":
            lower_limit(sim, 50)
        for _ in range(rounds):
            await checked(sim)
        assert {request.msg_id for request, _ in asked(client)} == {"K"}
        [given_up] = stored(sim, GIVEN_UP)
        assert given_up.properties["UNIQ_KEY"].startswith("long")
        assert (dead_letters(sim), sim.broker.storage.transactions.halves.undecided) == (1, 1)
        lower_limit(sim, 4 << 20)
        await end(client, bad, COMMIT)  # a late word counts, as for others that were given up
        assert len(stored(sim, "T", 1)) == 1

    play_transactions(tmp_path, scene)


def test_a_commit_that_is_refused_for_good_is_told_and_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        sent = await half(sim, client, "long " + "x" * 50)
        lower_limit(sim, 50)
        answer = await client.ask(RequestCode.END_TRANSACTION, word(sent, COMMIT))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "a commit is refused for good" in caplog.text
        await checked(sim)
        assert [dead.body for dead in stored(sim, GIVEN_UP)] == [b"body long " + b"x" * 50]

    play_transactions(tmp_path, scene)


def test_given_up_transactions_are_in_no_other_queue(tmp_path: Path) -> None:
    """Nobody has committed them."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.heartbeat("c1", producers=("pg",))
        await half(
            sim, client, more="\x02INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x010"
        )
        sim.broker.settings.broker.transaction_check_max = 0
        await checked(sim)
        [given_up] = stored(sim, GIVEN_UP)
        assert "INNER_MULTI_QUEUE_OFFSET" not in given_up.properties
        assert sim.broker.store.topics() == {HALF, GIVEN_UP}

    play(tmp_path, scene, **LIGHT)


def test_dead_letters_are_counted_where_administrators_look(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        no_place(sim)
        deliver(sim)
        answer = (await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).check()
        table = decode_body(KVTable, answer.body).table
        assert table["deadLetterMessages"] == "1"
        assert "skippedMessages" not in table

    play(tmp_path, scene)


def test_a_full_table_of_topics_stops_neither_dead_letters_nor_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are stored all the same, and can be read once somebody has made room for the topic."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.heartbeat("c1", producers=("pg",))
        await half(sim, client)
        monkeypatch.setattr(broker_topics, "MAX_TOPICS", len(sim.broker.state.topics))
        no_place(sim)
        deliver(sim)
        assert (len(messages(sim, DELAYED)), dead_letters(sim)) == (1, 1)
        sim.broker.settings.broker.transaction_check_max = 0
        await checked(sim)
        assert len(stored(sim, GIVEN_UP)) == 1
        for topic in (DELAYED, GIVEN_UP):
            assert f"topic={topic} error=" in caplog.text

    play(tmp_path, scene)


def test_a_full_table_of_topics_does_not_stop_a_broker_without_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(sim: SimBroker, _client: SimClient) -> None:
        monkeypatch.setattr(broker_topics, "MAX_TOPICS", len(sim.broker.state.topics))
        await checked(sim)  # an error here would end the process

    play(tmp_path, scene)
