"""The console's pages on a real cluster, and whom they let do what."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("starlette")

from aiorocketmq import (
    Admin,
    BrokerError,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    RetryLater,
    StartFrom,
    TransactionProducer,
    TransactionState,
)
from aiorocketmq.console import lookups
from aiorocketmq.console.sessions import IDLE_S
from aiorocketmq.console.starting import forget_accounts
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.signature import Credentials
from aiorocketmq.remoting.transport.client import RemotingClient

from ..sim import ManualClock
from .cluster import Cluster, asynchronous, create_topic, until
from .console_client import ORIGIN, TOKEN, a_changing_console, a_console

PAGES = ("/", "/topics", "/groups", "/messages", "/dead-letters", "/tail", "/send", "/accounts")
STREAMS = ("/live/overview", "/live/topics", "/live/groups", "/live/topic?name=T",
           "/live/group?name=G", "/live/tail?topic=T")  # fmt: skip
CHANGES = ("/topic/change", "/group/reset", "/dead-letters/send-again", "/send")


async def sent(cluster: Cluster, topic: str, body: bytes, *keys: str, tags: str = "A") -> str:
    async with Producer("p", namesrv=cluster.namesrv) as producer:
        return (await producer.send(Message(topic, body, tags=tags, keys=keys))).msg_id


def consumer_of(
    cluster: Cluster, group: str, topic: str, handle: Any, tags: str = "*"
) -> PushConsumer:
    consumer = PushConsumer(group, namesrv=cluster.namesrv, start_from=StartFrom.FIRST)
    consumer.subscribe(topic, tags)
    consumer.on_message(handle)
    return consumer


def links(page: str, path: str) -> list[str]:
    return re.findall(rf'href="({re.escape(path)}\?[^"]+)"', page)


# --- who may what
# --------------------------------------------------------------------------------------------------


@asynchronous
async def test_it_only_reads_unless_told_otherwise(shared: Cluster) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in PAGES:
            page = await asked.page(path)
            assert "read-only" in page
            assert "csrf" not in page or 'value=""' in page
        for path in CHANGES:
            answer = await asked.post(path, csrf="", topic="T", name="T")
            assert answer.status_code == 403
            assert "--allow-changes" in answer.text


@asynchronous
async def test_every_answer_has_the_policy(shared: Cluster) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in (*PAGES, "/static/console.css", "/nowhere", "/sign-in"):
            answer = await asked.client.get(path)
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            assert " style=" not in answer.text
            assert not re.search(r"<script(?! src=)", answer.text)
            assert not re.search(r"\son\w+=", answer.text)


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"},
                                     {"sec-fetch-site": "same-site"}])  # fmt: skip
@asynchronous
async def test_another_page_of_the_browser_reads_nothing(
    shared: Cluster, headers: dict[str, str]
) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in (*PAGES, *STREAMS, "/static/console.js"):
            answer = await asked.client.get(path, headers=headers)
            assert (answer.status_code, answer.text[:8]) == (403, "Refused:"), path
        for path in CHANGES:
            answer = await asked.client.post(path, headers={"origin": ORIGIN} | headers)
            assert (answer.status_code, answer.text[:8]) == (403, "Refused:"), path


@asynchronous
async def test_a_change_takes_a_session_and_its_own_form(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    async with a_console(shared.namesrv, allow_changes=True, token=TOKEN) as asked:
        answer = await asked.post("/send", csrf="x", topic=topic, body="x")
        assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
        assert (await asked.sign_in(token="another")).status_code == 403
        assert not asked.client.cookies
        answer = await asked.sign_in(token=TOKEN, next="/topics")
        assert answer.headers["location"] == "/topics"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        for csrf in ("", "x"):
            answer = await asked.post("/send", csrf=csrf, topic=topic, body="x")
            assert answer.status_code == 403
            assert "not of this session" in answer.text
        assert "SEND_OK" in await asked.change("/send", topic=topic, body="x")
        await asked.post("/sign-out")
        answer = await asked.post("/send", csrf="x", topic=topic, body="x")
        assert answer.status_code == 303


@pytest.mark.parametrize("there", ["//evil.example", "https://evil.example", "/\\evil.example"])
@asynchronous
async def test_signing_in_leads_nowhere_else(shared: Cluster, there: str) -> None:
    async with a_console(shared.namesrv, allow_changes=True, token=TOKEN) as asked:
        answer = await asked.sign_in(token=TOKEN, next=there)
        assert answer.headers["location"] == "/"


@asynchronous
async def test_a_guarded_console_asks_before_it_shows_anything(shared: Cluster) -> None:
    async with a_console(shared.namesrv, token=TOKEN, token_to_read=True) as asked:
        for path in PAGES:
            answer = await asked.client.get(path)
            assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
        for path in STREAMS:
            assert (await asked.client.get(path)).status_code in (303, 403)
        await asked.sign_in(token=TOKEN)
        await asked.page("/")


@asynchronous
async def test_guessing_is_stopped(shared: Cluster) -> None:
    async with a_console(shared.namesrv, token=TOKEN, token_to_read=True) as asked:
        for _ in range(10):
            await asked.sign_in(token="wrong")
        answer = await asked.sign_in(token=TOKEN)
        assert answer.status_code == 429
        assert "wait a minute" in answer.text


@asynchronous
async def test_sessions_expire(shared: Cluster) -> None:
    async with a_changing_console(shared.namesrv) as asked:
        await asked.csrf()
        (session,) = asked.console.sessions._sessions.values()
        session.used -= IDLE_S + 1
        answer = await asked.client.get("/send")
        assert "csrf" not in answer.text


@asynchronous
async def test_every_change_is_one_line(shared: Cluster, topic: str, tmp_path: Path) -> None:
    await create_topic(shared.namesrv, topic, 1)
    path = tmp_path / "audit.log"
    async with a_changing_console(shared.namesrv, audit_file=str(path)) as asked:
        await asked.change("/send", topic=topic, body="the-body\r\nof two lines", keys="k")
        await asked.change("/send", topic="No-such\ntopic", body="x")
    lines = path.read_text().splitlines()
    assert [re.sub(r"^\S+ ", "", line) for line in lines][:2] == [
        "AUDIT who=token from=127.0.0.1 action=sign-in subject=console outcome=done",
        f'AUDIT who=token from=127.0.0.1 action=send subject="{topic},bytes=21" outcome=done',
    ]
    assert len(lines) == 3
    assert "refused" in lines[2]
    assert "the-body" not in path.read_text()
    assert TOKEN not in path.read_text()


# --- pages
# --------------------------------------------------------------------------------------------------


@asynchronous
async def test_a_message_by_key_is_text_never_html(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    body = b"<script>alert(1)</script>"
    msg_id = await sent(shared, topic, body, "key<1>", "other")
    async with a_console(shared.namesrv) as asked:

        async def found() -> str | None:
            page = await asked.page("/messages", topic=topic, way="key", text="key<1>")
            return next(iter(links(page, "/message")), None)

        await until(found, "the message is found by its key")
        page = await asked.page(await found() or "")
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "key&lt;1&gt;" in page
        assert msg_id in page
        by_id = await asked.page("/messages", topic=topic, way="id", text=msg_id)
        assert len(links(by_id, "/message")) == 1
        by_time = await asked.page("/messages", topic=topic, way="time")
        assert msg_id in by_time
        looking: dict[str, object] = {"topic": topic, "way": "key", "text": "key<1>"}
        async with Admin(namesrv=shared.namesrv) as admin:
            (stored,) = await admin.query_by_unique_key(topic, msg_id)
        then = stored.store_timestamp
        for begin, end, count in ((then, then, 1), (then + 1, "", 0), ("", then - 1, 0)):
            page = await asked.page("/messages", **looking, begin=begin, end=end)
            assert len(links(page, "/message")) == count
        nothing = await asked.page("/messages", topic=topic, way="key", text="nothing")
        assert "No message was found" in nothing


@asynchronous
async def test_what_cannot_be_used_is_said(shared: Cluster) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in ("/topic", "/group", "/message?id=x", "/topics?page=x",
                     "/messages?topic=T&way=time&begin=soon", "/group/reset?name=g",
                     "/topic/change?name=T&read_queues=x",
                     "/live/tail?topic=T&kind=x"):  # fmt: skip
            answer = await asked.client.get(path)
            assert answer.status_code in (400, 502), path
            assert "outcome" in answer.text


@asynchronous
async def test_queues_are_changed_with_a_preview(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 2)
    wish = {"name": topic, "read_queues": 4, "write_queues": 3, "perm": 4}
    async with a_changing_console(shared.namesrv) as asked:
        preview = await asked.page("/topic/change", **wish)
        assert "nothing has been sent yet" in preview
        assert "2 → 4" in preview
        async with Admin(namesrv=shared.namesrv) as admin:
            assert len((await admin.topic_stats(topic)).offset_table) == 2
            assert "done" in await asked.change("/topic/change", **wish)

            async def changed() -> bool:
                (data,) = (await admin.topic_route(topic)).queue_datas
                return (data.read_queue_nums, data.write_queue_nums, data.perm) == (4, 3, 4)

            await until(changed, "the topic is as it was wished")


@asynchronous
async def test_a_group_is_moved_with_a_preview(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    for number in range(3):
        await sent(shared, topic, b"%d" % number)
    seen: list[bytes] = []

    async def handle(message: Any) -> None:
        seen.append(message.body)

    async with consumer_of(shared, group, topic, handle):
        await until(lambda: len(seen) == 3, "all are consumed")
    async with a_changing_console(shared.namesrv) as asked:
        wish = {"name": group, "topic": topic, "time": "2020-01-01 00:00"}
        for _ in range(2):  # looking does not move it
            preview = await asked.page("/group/reset", **wish)
            assert "3 messages once more" in preview
            assert "Nothing has been moved yet" in preview
        assert "its offsets were moved" in await asked.change("/group/reset", **wish)
        page = await asked.page("/group", name=group)
        assert f"Nobody of {group} is connected, and 3 messages wait." in page
        assert "where it is" not in await asked.page("/group/reset", **wish | {"time": "end"})


@asynchronous
async def test_dead_letters_are_sent_again_to_their_group_alone(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    msg_id = await sent(shared, topic, b"poison", "k")
    seen: list[tuple[str, bool]] = []
    good = False

    async def handle(message: Any) -> None:
        seen.append((message.topic, good))
        if not good:
            raise RetryLater(delay_level=-1)

    async with consumer_of(shared, group, topic, handle), Admin(namesrv=shared.namesrv) as admin:
        async with a_changing_console(shared.namesrv) as asked:

            async def dead() -> list[str]:
                page = await asked.page("/dead-letters", group=group)
                return re.findall(r'name="id" value="(\w+)"', page)

            await until(dead, "the message is a dead letter")
            assert f"Dead letter of {group}" in await asked.page("/message", id=(await dead())[0])
            assert msg_id not in await asked.page("/dead-letters", group=group, q="nonsense")
            good = True
            report = await asked.change(
                "/dead-letters/send-again", group=group, to="group", id=[*await dead(), "nonsense"]
            )
            assert "1 of 2 were sent again" in report
            assert "nonsense" in report
            (stored,) = await admin.query_by_unique_key(topic, msg_id)
            report = await asked.change(
                "/dead-letters/send-again", group=group, to="group", id=stored.offset_msg_id
            )
            assert "0 of 1 were sent again" in report
            assert f"is no dead letter and no retry of {group}" in report
            await until(lambda: (topic, True) in seen, "the group gets it once more")
            journey = await asked.page("/message", topic=topic, id=msg_id)
            assert f"Sent again to {group} alone" in journey


@asynchronous
async def test_members_that_disagree(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 2)

    async def handle(_message: Any) -> None: ...

    async with (
        consumer_of(shared, group, topic, handle, "TagA"),
        consumer_of(shared, group, topic, handle, "TagB"),
        a_console(shared.namesrv) as asked,
    ):

        async def told() -> bool:
            """At first no name server may know the group."""
            answer = await asked.client.get("/group", params={"name": group})
            return f"Members of {group} disagree about {topic}" in answer.text

        await until(told, "the page says that members disagree")


@asynchronous
async def test_a_transaction_with_its_half_its_check_and_its_end(tmp_path: Path) -> None:
    checked: list[str] = []

    async def check(message: MessageExt) -> TransactionState:
        checked.append(message.msg_id)
        return TransactionState.COMMIT

    with Cluster(tmp_path) as cluster:
        await asyncio.to_thread(
            cluster.start_broker, transactionCheckInterval=200, transactionTimeOut=200
        )
        await create_topic(cluster.namesrv, "Payments", 1)
        async with (
            TransactionProducer(
                "payers", checker=check, namesrv=cluster.namesrv, trace=True
            ) as producer,
            a_console(cluster.namesrv) as asked,
        ):

            async def undecided(_message: Message) -> TransactionState:
                return TransactionState.UNKNOWN

            result = await producer.send_in_transaction(Message("Payments", b"10"), undecided)
            msg_id = result.sent.msg_id

            async def journey() -> list[str]:
                found = await asked.client.get(
                    "/message", params={"topic": "Payments", "id": msg_id}
                )
                return re.findall("<strong>([^<]+)</strong>", found.text)

            async def ended() -> bool:
                return "The transaction ended: committed" in await journey()

            await until(ended, "the page tells the end of the transaction")
            titles = await journey()
            assert titles[0] == "Half message stored"
            assert "Stored" in titles
            assert checked


@asynchronous
async def test_all_groups_of_a_message_are_on_its_page(
    shared: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [f"{topic}-{number}" for number in range(60)]
    await create_topic(shared.namesrv, topic, 1)
    msg_id = await sent(shared, topic, b"x")
    async with Admin(namesrv=shared.namesrv) as admin, a_console(shared.namesrv) as asked:
        (queue,) = await admin.read_queues(topic)
        for group in groups:
            await admin.update_consumer_offset(group, queue, 1)

        async def found() -> bool:
            page = await asked.client.get("/message", params={"topic": topic, "id": msg_id})
            return all(f"<strong>{group} " in page.text for group in groups)

        await until(found, "the page tells of every group")
        monkeypatch.setattr(lookups, "MOST_GROUPS", 10)
        page = await asked.page("/message", topic=topic, id=msg_id)
        assert "The topic has 60 groups: only the first 10, by name, were looked at." in page
        assert sum(f"<strong>{group} " in page for group in groups) == 10


# --- a cluster that does not know everything
# --------------------------------------------------------------------------------------------------

EVERYBODY_KNOWS = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
)


@asynchronous
async def test_a_cluster_that_knows_none_of_it(
    shared: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 3 for every request but those that make a cluster."""
    await create_topic(shared.namesrv, topic, 1)
    await sent(shared, topic, b"x", "k")
    invoke = RemotingClient.invoke
    refused: set[RequestCode] = set()

    async def old(
        self: RemotingClient, address: str, code: RequestCode, *args: Any, **kwargs: Any
    ) -> Response:
        answer = await invoke(self, address, code, *args, **kwargs)
        if code in EVERYBODY_KNOWS:
            return answer
        refused.add(code)
        return msgspec.structs.replace(answer, code=3, remark="not supported", body=b"")

    monkeypatch.setattr(RemotingClient, "invoke", old)
    async with a_console(shared.namesrv) as asked:
        for path in PAGES:
            await asked.page(path)
        page = await asked.page("/topic", name=topic)
        assert "it does not know this request" in page
        assert "gives no figures: it does not know this request" in await asked.page("/")
        for path, query in (("/group", {"name": "g"}), ("/messages", {"topic": topic, "way": "key",
                            "text": "k"})):  # fmt: skip
            answer = await asked.client.get(path, params=query)
            assert answer.status_code in (200, 502)
    assert len(refused) > 8


@asynchronous
async def test_a_broker_that_takes_no_messages_is_not_asked_for_rates(
    shared: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of fifty topics on a page, one by one."""
    await create_topic(shared.namesrv, topic, 1)
    invoke = RemotingClient.invoke
    asked_for: set[RequestCode] = set()
    rates = b"0.0 0.0 0.0"

    async def noted(
        self: RemotingClient, address: str, code: RequestCode, *args: Any, **kwargs: Any
    ) -> Response:
        asked_for.add(code)
        answer = await invoke(self, address, code, *args, **kwargs)
        if code is RequestCode.GET_BROKER_RUNTIME_INFO:
            body = re.sub(rb'"putTps":"[^"]*"', b'"putTps":"%b"' % rates, bytes(answer.body))
            return msgspec.structs.replace(answer, body=body)
        return answer

    monkeypatch.setattr(RemotingClient, "invoke", noted)
    async with a_console(shared.namesrv) as asked:
        view = await asked.console.views.of(None)
        await view.put_rate.of(topic).get()
        assert RequestCode.GET_BROKER_RUNTIME_INFO in asked_for
        assert RequestCode.VIEW_BROKER_STATS_DATA not in asked_for
        rates = b"0.0 0.1 0.1"
        view.overview.forget()
        view.put_rate.of(topic).forget()
        await view.put_rate.of(topic).get()
        assert RequestCode.VIEW_BROKER_STATS_DATA in asked_for


@asynchronous
async def test_no_name_server_at_all() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # nothing else can listen there meanwhile
        async with a_console(f"127.0.0.1:{nobody.getsockname()[1]}") as asked:
            answer = await asked.client.get("/")
            assert answer.status_code == 502
            assert "no name server answers" in answer.text


# --- accounts
# --------------------------------------------------------------------------------------------------

ACCOUNTS = """\
accounts:
  - {accessKey: the-admin, secretKey: secret-of-admin, admin: true}
  - {accessKey: the-reader, secretKey: secret-of-reader,
     topicPerms: ["Orders=SUB"], groupPerms: ["readers=SUB"]}
  - {accessKey: the-white, secretKey: secret-of-white, whiteRemoteAddress: 127.0.0.1}
"""
SECRETS = re.compile("secret-of")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    folder = tmp_path_factory.mktemp("console-acl")
    accounts = folder / "broker-a" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    with Cluster(folder) as cluster:
        cluster.start_broker(aclEnable="true")
        yield cluster, accounts


@asynchronous
async def test_with_acl_reading_needs_an_account(guarded: tuple[Cluster, Path]) -> None:
    async with a_console(guarded[0].namesrv) as asked:
        for path in PAGES:
            answer = await asked.client.get(path)
            assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
        for path in STREAMS:
            assert (await asked.client.get(path)).status_code in (303, 403)
        assert 'name="secret_key"' in await asked.page("/sign-in")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"access_key": "the-admin", "secret_key": "guessed-secret"}, "Check signature failed"),
        ({"access_key": "nobody", "secret_key": "guessed-secret"}, "No acl config for nobody"),
        ({"access_key": "the-admin", "secret_key": ""}, "ask for an account"),
        ({"access_key": "the-white", "secret_key": "guessed-too"}, "white address"),
    ],
)
@asynchronous
async def test_who_cannot_sign_in(
    guarded: tuple[Cluster, Path], fields: dict[str, str], why: str
) -> None:
    async with a_console(guarded[0].namesrv) as asked:
        answer = await asked.sign_in(**fields)
        assert answer.status_code == 403
        assert why in answer.text
        assert "guessed" not in answer.text
        assert not asked.client.cookies


@asynchronous
async def test_secrets_are_not_guessed_side_by_side(guarded: tuple[Cluster, Path]) -> None:
    """Brokers are asked about each attempt: while they answer, no others are made."""
    async with a_console(guarded[0].namesrv) as asked:
        answers = await asyncio.gather(
            *(asked.sign_in(access_key="the-admin", secret_key=f"guess-{n}") for n in range(40))
        )
        codes = [answer.status_code for answer in answers]
        assert (codes.count(403), codes.count(429)) == (10, 30)


@asynchronous
async def test_a_token_and_an_account(guarded: tuple[Cluster, Path]) -> None:
    """Each asked for by who wants it: the console, and the brokers."""
    account = {"access_key": "the-reader", "secret_key": "secret-of-reader"}
    async with a_console(guarded[0].namesrv, token=TOKEN, token_to_read=True) as asked:
        page = await asked.page("/sign-in")
        assert ('name="token"' in page, 'name="secret_key"' in page) == (True, True)
        for fields in ({"token": TOKEN}, account, account | {"token": "another"}):
            assert (await asked.sign_in(**fields)).status_code == 403
        assert (await asked.client.get("/")).status_code == 303
        assert (await asked.sign_in(**account, token=TOKEN)).status_code == 303
        await asked.page("/")


@asynchronous
async def test_a_secret_goes_with_its_session(guarded: tuple[Cluster, Path]) -> None:
    """Also where nobody comes any more."""
    clock = ManualClock()
    async with a_console(guarded[0].namesrv, clock) as asked:
        await asked.sign_in(access_key="the-reader", secret_key="secret-of-reader")
        clock.advance(IDLE_S / 2)
        await asked.page("/")
        assert len(asked.console.views._open) == 2  # everybody's, and the reader's
        clock.advance(IDLE_S / 2)
        await until(lambda: clock.next_due == clock.monotonic() + IDLE_S / 2, "it was looked at")
        assert len(asked.console.views._open) == 2
        clock.advance(IDLE_S / 2)
        await until(lambda: list(asked.console.views._open) == [None], "the secret is gone")
        assert len(asked.console.sessions) == 0
        assert (await asked.client.get("/")).status_code == 303
        await asked.sign_in(access_key="the-reader", secret_key="secret-of-reader")
        await asked.page("/")
        clock.advance(IDLE_S)
        await until(lambda: list(asked.console.views._open) == [None], "the second one, too")


@asynchronous
async def test_nobody_waits_until_anothers_connections_are_closed(
    guarded: tuple[Cluster, Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, may_end = ManualClock(), asyncio.Event()
    async with a_console(guarded[0].namesrv, clock) as asked:
        await asked.sign_in(access_key="the-reader", secret_key="secret-of-reader")
        await asked.page("/")
        admin = asked.console.views._open[Credentials("the-reader", "secret-of-reader")].admin
        stop = admin.stop

        async def slow() -> None:
            await may_end.wait()
            await stop()
            raise OSError("it was gone already")

        monkeypatch.setattr(admin, "stop", slow)
        clock.advance(IDLE_S + 1)
        try:
            async with asyncio.timeout(10):
                assert (await asked.client.get("/")).status_code == 303
        finally:
            may_end.set()
        await until(lambda: "it was gone already" in caplog.text, "the failure is told")
        assert "secret-of" not in caplog.text


@asynchronous
async def test_no_view_is_opened_for_who_signs_out_meanwhile(
    guarded: tuple[Cluster, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page asks the brokers for ACL first."""
    may_answer, asks = asyncio.Event(), asyncio.Event()
    async with a_console(guarded[0].namesrv) as asked:
        await asked.sign_in(access_key="the-reader", secret_key="secret-of-reader")
        views = asked.console.views
        look = views.acl_is_on

        async def slow() -> bool:
            asks.set()
            await may_answer.wait()
            return await look()

        monkeypatch.setattr(views, "acl_is_on", slow)
        page = asyncio.create_task(asked.client.get("/"))
        await asks.wait()
        (session,) = asked.console.sessions._sessions.values()
        await asked.console._door.sign_out(session)
        may_answer.set()
        assert (await page).status_code == 303
        assert list(views._open) == [None]


@asynchronous
async def test_the_console_signs_as_who_signed_in(
    guarded: tuple[Cluster, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And no secret is anywhere."""
    cluster, accounts = guarded
    audit = tmp_path / "audit.log"
    texts: list[str] = []
    settings: dict[str, Any] = {"allow_changes": True, "token": TOKEN, "audit_file": str(audit)}
    async with a_console(cluster.namesrv, acl_files=(str(accounts),), **settings) as asked:

        async def noted(response: Any) -> None:
            await response.aread()
            texts.append(f"{response.url} {response.headers} {response.text}")

        asked.client.event_hooks["response"] = [noted]
        wish = {"name": "Orders", "read_queues": "2", "write_queues": "2", "perm": "6"}
        for name, allowed in (("reader", False), ("admin", True)):
            signed = {"access_key": f"the-{name}", "secret_key": f"secret-of-{name}"}
            assert (await asked.sign_in(**signed)).status_code == 303
            for path in PAGES:
                await asked.page(path)
            assert f"the-{name}" in await asked.page("/")
            await asked.client.get("/topic", params={"name": "TBW102"})
            said = await asked.change("/send", topic="Orders", body="x")
            assert ("SEND_OK" in said) is allowed
            assert ("No default permission for topic:Orders" in said) is not allowed
            if allowed:
                async with Admin(namesrv=cluster.namesrv) as admin:
                    await until(lambda: admin.topic_route("Orders"), "the topic is known")
                assert "done" in await asked.change("/topic/change", **wish)
            await asked.post("/sign-out")
        accounts_page = next(text for text in texts if "Administrator" in text)
        assert "Orders=SUB" in accounts_page
        assert 'data-label="Topics">all</td>' in accounts_page  # of the administrator
    texts += [audit.read_text(), caplog.text, repr(asked.console.__dict__)]
    assert not SECRETS.search("\n".join(texts))
    assert "who=the-reader" in audit.read_text()


@asynchronous
async def test_an_account_in_the_environment_is_nobodys(
    guarded: tuple[Cluster, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "the-admin")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "secret-of-admin")
    forget_accounts()
    async with a_console(guarded[0].namesrv) as asked:
        assert (await asked.client.get("/")).status_code == 303
        unsigned = (await asked.console.views.of(None)).admin
        with pytest.raises(BrokerError, match="No accessKey is configured"):
            await unsigned.broker_runtime_info(guarded[0].brokers["broker-a"].address)
