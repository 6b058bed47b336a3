"""The console as somebody uses it: a real browser, a real cluster, nothing in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from aiorocketmq import Admin, Message, MessageExt, RetryLater, StartFrom, sync
from aiorocketmq.remoting.protocol.message.topic_names import dlq_topic

from .cluster import Cluster, asynchronous, create_topic, until
from .console_browser import (
    Complaints,
    ConsoleProcess,
    a_page,
    accessibility_of,
    chromium,
    overflow_of,
    sign_in,
)

# Retries after a second, not after ten: the second and third level of delay.
QUICK = {"messageDelayLevel": "1s 1s 1s 1s 1s 1s"}
DEAD = "dead" + "x" * 110
"""A group whose name is as long as one may be."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    chromium()
    with Cluster(tmp_path_factory.mktemp("console-cluster")) as cluster:
        cluster.start_broker(**QUICK)
        yield cluster


@pytest.fixture(scope="module")
def console(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    process = ConsoleProcess(cluster.namesrv, tmp_path_factory.mktemp("console"), "--allow-changes")
    yield process
    assert process.end() == 0


def make_topic(cluster: Cluster, topic: str, queues: int = 1) -> None:
    asyncio.run(create_topic(cluster.namesrv, topic, queues))


def send(cluster: Cluster, topic: str, *bodies: bytes, keys: tuple[str, ...] = ()) -> list[str]:
    with sync.Producer("p", namesrv=cluster.namesrv, trace=True) as producer:
        return [producer.send(Message(topic, body, tags="A", keys=keys)).msg_id for body in bodies]


@contextmanager
def consumer(
    cluster: Cluster, group: str, topic: str, handle: Callable[[MessageExt], None]
) -> Iterator[None]:
    member = sync.PushConsumer(
        group, namesrv=cluster.namesrv, start_from=StartFrom.FIRST, trace=True,
        max_reconsume_times=2,
    )  # fmt: skip
    member.subscribe(topic)
    member.on_message(handle)
    with member:
        yield


def elsewhere(work: Callable[[], object]) -> None:
    """In a thread: this one has the loop of the browser."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def reload_until(page: Any, text: str) -> None:
    """What comes by itself in time, on a page that is made once."""
    for _ in range(240):
        if page.get_by_text(text).count():
            return
        page.wait_for_timeout(250)
        page.reload()
    raise AssertionError(f"{text!r} is not on the page:\n{page.inner_text('main')}")


def test_a_message_through_two_retries_into_the_dead_letters_and_back(
    cluster: Cluster, console: ConsoleProcess, topic: str, group: str
) -> None:
    make_topic(cluster, topic)
    (msg_id,) = send(cluster, topic, b'{"order": {"id": 7}}', keys=("order-7",))
    good = threading.Event()
    consumed = threading.Event()

    def handle(_message: MessageExt) -> None:
        if not good.is_set():
            raise RetryLater
        consumed.set()

    with consumer(cluster, group, topic, handle), a_page(console.url) as (page, _):
        sign_in(page, console.token)
        page.goto("/messages")
        page.get_by_label("Topic").fill(topic)
        page.get_by_label("Key or id").fill("order-7")
        page.get_by_role("button", name="Look").click()
        page.get_by_role("link", name=msg_id).click()
        assert page.get_by_role("heading", level=1).inner_text() == msg_id
        assert page.get_by_text("order: object, 1 fields").is_visible()
        reload_until(page, f"Dead letter of {group}")
        titles = page.locator("ol.journey strong").all_inner_texts()
        steps = [
            "Stored",
            f"Retry 1 for {group}",
            f"Retry 2 for {group}",
            f"Dead letter of {group}",
        ]
        assert titles[:4] == steps
        reload_until(page, "consumption failed")
        assert page.locator("ol.spans li.bad").count() >= 1

        good.set()
        page.goto(f"/dead-letters?group={group}")
        page.get_by_label(f"Choose {msg_id}").check()
        page.get_by_role("button", name="Send again").click()
        page.get_by_text("1 of 1 were sent again.").wait_for()  # rows come one by one
        assert consumed.wait(60)
        page.goto(f"/message?topic={topic}&id={msg_id}")
        reload_until(page, f"Sent again to {group} alone")


def test_a_group_is_moved_after_a_preview(
    cluster: Cluster, console: ConsoleProcess, topic: str, group: str
) -> None:
    make_topic(cluster, topic)
    send(cluster, topic, b"1", b"2", b"3")
    seen = threading.Semaphore(0)

    def handle(_message: MessageExt) -> None:
        seen.release()

    with consumer(cluster, group, topic, handle):
        for _ in range(3):
            assert seen.acquire(timeout=60)
    with a_page(console.url) as (page, _):
        sign_in(page, console.token)
        page.goto(f"/group?name={group}")
        page.get_by_label("Topic").select_option(topic)
        page.get_by_label("Time (UTC)").fill("2020-01-01 00:00")
        page.get_by_role("button", name="Preview").click()
        assert page.get_by_text("Nothing has been moved yet").is_visible()
        assert page.get_by_text("3 messages once more").is_visible()
        page.get_by_role("button", name="Move the group").click()
        assert page.get_by_text("its offsets were moved").is_visible()
        page.goto(f"/group?name={group}")
        assert page.get_by_text(f"Nobody of {group} is connected, and 3 messages").is_visible()


def test_lag_that_moves_while_somebody_looks(
    cluster: Cluster, console: ConsoleProcess, topic: str, group: str
) -> None:
    make_topic(cluster, topic)
    send(cluster, topic, b"1")
    seen = threading.Semaphore(0)
    with consumer(cluster, group, topic, lambda _message: seen.release()):
        assert seen.acquire(timeout=60)
    with a_page(console.url) as (page, _):
        page.goto(f"/group?name={group}")
        chart = page.locator("#lag")
        page.wait_for_selector("#lag canvas")
        before = shifts_of(page)
        send(cluster, topic, *(b"%d" % number for number in range(5)))
        page.wait_for_selector("#lag[data-total='5']")
        page.get_by_text("5 messages behind").wait_for()
        with consumer(cluster, group, topic, lambda _message: seen.release()):
            page.wait_for_selector("#lag[data-total='0']")
        points = int(chart.get_attribute("data-points") or "0")
        assert points > 2
        assert shifts_of(page) - before < 0.1
        page.reload()  # what was seen is not lost
        page.wait_for_selector("#lag canvas")
        assert int(chart.get_attribute("data-points") or "0") >= points


@pytest.mark.parametrize("width", [1280, 400])
def test_the_chart_of_many_queues(
    cluster: Cluster, console: ConsoleProcess, topic: str, group: str, width: int
) -> None:
    """One point is one of half a minute; nothing lies over what comes below."""
    make_topic(cluster, topic, 12)
    send(cluster, topic, *(b"%d" % number for number in range(12)))
    seen = threading.Semaphore(0)
    with consumer(cluster, group, topic, lambda _message: seen.release()):
        for _ in range(12):
            assert seen.acquire(timeout=60)
    with a_page(console.url, width=width) as (page, _):
        reload_group(page, group)
        page.wait_for_selector("#lag canvas")
        assert len(page.locator("#legend li").all()) == 9
        low, high = page.evaluate(CHART_RANGE)
        assert high - low >= 30
        bottom = page.evaluate(
            "[...document.querySelectorAll('section[aria-labelledby=lag-heading] *')]"
            ".reduce((most, each) => Math.max(most, each.getBoundingClientRect().bottom), 0)"
        )
        below = page.locator("#queues-heading").bounding_box()
        assert bottom <= below["y"]


CHART_RANGE = """() => {
    const chart = document.getElementById("lag").chart;
    return [chart.scales.x.min, chart.scales.x.max];
}"""


def reload_group(page: Any, group: str) -> None:
    """Its offsets come in time."""
    for _ in range(240):
        if (
            page.goto(f"/group?name={group}").status == 200
            and page.locator("#legend li").count() > 1
        ):
            return
        page.wait_for_timeout(250)
    raise AssertionError(page.inner_text("main"))


def shifts_of(page: Any) -> float:
    """How much of the page has moved by itself (cumulative layout shift)."""
    shift: float = page.evaluate(
        """() => new Promise((resolve) => {
            let sum = 0;
            new PerformanceObserver((list) => {
                for (const entry of list.getEntries()) sum += entry.value;
            }).observe({type: "layout-shift", buffered: true});
            setTimeout(() => resolve(sum), 50);
        })"""
    )
    return shift


def test_a_broker_that_dies_while_the_page_is_open(tmp_path: Path) -> None:
    chromium()
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start_broker("broker-a")
        console = ConsoleProcess(cluster.namesrv, tmp_path / "console")
        try:
            with a_page(console.url) as (page, complaints):
                page.goto("/")
                page.get_by_text("Nothing is wrong").wait_for()
                cluster.kill_broker("broker-a")
                page.get_by_text("broker-a").first.wait_for()
                page.locator("ul.troubles li.bad").first.wait_for()
                elsewhere(lambda: cluster.start_broker("broker-a"))
                page.get_by_text("Nothing is wrong").wait_for()
                dies_and_comes_back(page, complaints, console, cluster, tmp_path)
        finally:
            console.end()


def dies_and_comes_back(
    page: Any, complaints: Complaints, console: ConsoleProcess, cluster: Cluster, folder: Path
) -> None:
    """The console itself: the page says so, and the cluster does not notice."""
    complaints.expected = ("Failed to load resource", "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE")
    console.process.kill()
    console.process.wait(60)
    page.get_by_text("The console does not answer").wait_for()

    @asynchronous
    async def cluster_is_well() -> None:
        async with Admin(namesrv=cluster.namesrv) as admin:
            await until(admin.cluster_info, "the cluster answers")
            await admin.create_topic("After", queues=1)

    elsewhere(cluster_is_well)
    again = ConsoleProcess(cluster.namesrv, folder / "again", "--port", str(console.port))
    try:
        page.wait_for_selector("#live-problem:empty", state="attached")
    finally:
        again.end()


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (400, False), (400, True)]
)
def test_everybody_can_use_every_page(
    cluster: Cluster, console: ConsoleProcess, width: int, dark: bool
) -> None:
    topic, group = "Everybody", "everybody"
    make_topic(cluster, topic, 2)
    make_dead_letter(cluster)
    (msg_id,) = send(cluster, topic, b'{"a": [1, {"b": "c"}]}', keys=("k",))
    seen = threading.Event()
    with (
        consumer(cluster, group, topic, lambda _message: seen.set()),
        a_page(console.url, width=width, dark=dark) as (page, complaints),
    ):
        complaints.expected = ("status of 400",)  # the browser's word for the last page
        assert seen.wait(60)
        sign_in(page, console.token)
        problems = []
        for path in (
            "/", "/topics", f"/topic?name={topic}", "/groups", f"/group?name={group}",
            f"/messages?topic={topic}&way=time", f"/message?topic={topic}&id={msg_id}",
            "/dead-letters", f"/dead-letters?group={group}", f"/dead-letters?group={DEAD}",
            f"/tail?topic={topic}", "/send", "/accounts",
            f"/topic/change?name={topic}&read_queues=4&write_queues=4&perm=6",
            f"/group/reset?name={group}&topic={topic}&time=2020-01-01", "/sign-in", "/topic",
        ):  # fmt: skip
            page.goto(path)
            problems += [f"{path}: {each}" for each in accessibility_of(page)]
            if overflow_of(page):
                problems.append(f"{path}: {overflow_of(page)} pixels wider than the window")
            problems += [f"{path}: {each} is cut off" for each in cut_off(page)]
        assert problems == []


def make_dead_letter(cluster: Cluster) -> None:
    """Where there is one, its page has more to show."""
    make_topic(cluster, dlq_topic(DEAD))
    with sync.Producer("p", namesrv=cluster.namesrv) as producer:
        producer.send(Message(dlq_topic(DEAD), b"x", keys=("k",)))


def cut_off(page: Any) -> list[str]:
    """Areas, buttons and figures of which a reader sees a part, or a number in two lines."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("nav a, td.n, button")].filter((each) => {
            const right = each.getBoundingClientRect().right;
            const area = each.closest("nav");
            const text = document.createRange();
            text.selectNodeContents(each.firstChild || each);
            return right > innerWidth || (area && right > area.getBoundingClientRect().right + 1)
                || (each.matches("td.n") && text.getClientRects().length > 1);
        }).map((each) => each.innerText)"""
    )
    return found


def test_by_keyboard_and_without_scripts(cluster: Cluster, console: ConsoleProcess) -> None:
    make_topic(cluster, "Keyboard")
    with a_page(console.url) as (page, _):
        while not page.get_by_role("link", name="Keyboard").is_visible():
            page.goto("/topics")  # it may know the topics of some seconds ago
        page.keyboard.press("/")
        page.keyboard.type("keyb")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=keyb**")
        page.get_by_role("link", name="Keyboard").wait_for()
        without = page.context.browser.new_context(java_script_enabled=False, base_url=console.url)
        plain = without.new_page()
        for path in ("/", "/topics", "/groups", "/topic?name=Keyboard"):
            answer = plain.goto(path)
            assert answer.status == 200
            assert plain.locator("table.rows").first.is_visible()


def test_a_topic_is_watched(cluster: Cluster, console: ConsoleProcess, topic: str) -> None:
    make_topic(cluster, topic, 2)
    with a_page(console.url) as (page, _):
        page.goto(f"/tail?topic={topic}")
        page.get_by_text("watching 2 queues").wait_for()
        send(cluster, topic, b"<b>bold</b>")
        page.get_by_text("<b>bold</b>").wait_for()
