"""The console of a cluster with ACL: it asks for an account, signs as who signed in, and keeps
secrets no longer than their sessions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from aiorocketmq import Admin, BrokerError
from aiorocketmq.console.sessions import IDLE_S
from aiorocketmq.console.starting import forget_accounts
from aiorocketmq.remoting.signature import Credentials

from ..sim import ManualClock
from .cluster import Cluster, asynchronous, until
from .console_client import PAGES, STREAMS, TOKEN, a_console

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
