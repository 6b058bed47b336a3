"""The console as a process of its own, and the system's Chromium in front of it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from .cluster import DaemonProcess

INSTALL: Final = "apt-get install -y chromium"
AXE: Final = Path(__file__).parent / "axe" / "axe.min.js"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
_READY: Final = re.compile(r"console      https?://localhost:(\d+)/")
_TOKEN: Final = re.compile(r"token        (\S+)")


def chromium() -> str:
    """Its path; skips the test where there is none."""
    pytest.importorskip("playwright", reason="no playwright: pip install playwright")
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    pytest.skip(f"no Chromium: {INSTALL}")


class ConsoleProcess(DaemonProcess):
    """``mqconsole`` on a free port."""

    def __init__(self, namesrv: str, folder: Path, *options: str, scheme: str = "http") -> None:
        self._scheme = scheme
        super().__init__(
            "aiorocketmq.console", _READY, folder, "-n", namesrv, "--port", "0", *options
        )

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self.port}"

    @property
    def token(self) -> str:
        """That it printed."""
        return self._wait_for(_TOKEN)[1]


class Complaints:
    """What a page did that it must not do."""

    def __init__(self, page: Any, url: str) -> None:
        self.texts: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Of the browser's own words, while something is down."""
        self._url = url
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("pageerror", lambda error: self.texts.append(f"error: {error}"))
        page.on("request", self._asked)

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(each in text for each in self.expected):
            self.texts.append(f"{kind}: {text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self._url + "/", "data:", "blob:")):
            self.texts.append(f"another host: {request.url}")


@contextmanager
def a_page(
    url: str, *, width: int = 1280, dark: bool = False, trusting: bool = False
) -> Iterator[tuple[Any, Complaints]]:
    """A page of a browser that says what is wrong with it at its end. ``trusting``: of every
    certificate."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            page = browser.new_page(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
                base_url=url,
                ignore_https_errors=trusting,
            )
            page.set_default_timeout(60_000)
            complaints = Complaints(page, url)
            yield page, complaints
            assert complaints.texts == []
        finally:
            browser.close()


def sign_in(page: Any, token: str) -> None:
    page.goto("/sign-in")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()


def accessibility_of(page: Any) -> list[str]:
    """What axe-core finds that is serious or worse. It is run beside the page's policy, which would
    rightly keep it out."""
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate(
        "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
    )
    return [
        f"{each['id']}: {each['help']} {[node['html'][:120] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def overflow_of(page: Any) -> int:
    """Pixels by which the page is wider than its window."""
    width: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width
