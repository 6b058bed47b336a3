"""The command line of a daemon: where values come from, what is printed, how it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from aiorocketmq.daemon.launch import (
    Daemon,
    LaunchError,
    Settings,
    SettingsError,
    describe,
    main,
    report,
)
from aiorocketmq.remoting.errors import AddressInUseError
from aiorocketmq.remoting.protocol.java_properties import PropertyError
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.transport.tls import TlsSettingsError


class Role(Enum):
    MASTER = 0
    SLAVE = 1


class Mode(Enum):
    OFF = "off"
    ON = "on"


class ToyConfig(Record, kw_only=True):
    listen_port: Annotated[int, msgspec.Meta(ge=0, le=65535, description="the port to serve")] = (
        9876
    )
    rocketmq_home: str = "/opt/rocketmq"
    namesrv_addr: str | None = None
    file_size: int = 1024
    role: Role = Role.MASTER


class ToyTls(Record, frozen=True):
    mode: Mode = msgspec.field(name="tls.mode", default=Mode.OFF)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("aiorocketmq")
    before = root.handlers[:], root.level, own.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


def daemon(
    serve: Callable[[Settings], Awaitable[None]], important: frozenset[str] | None = None
) -> Daemon:
    return Daemon(
        name="mqtoy",
        summary="A toy.",
        records=(ToyConfig, ToyTls),
        serve=serve,
        aliases={"fleSize": "fileSize"},
        important=important,
        operating_errors=(OverflowError,),
        settings_errors=(OverflowError,),
    )


async def nothing(_settings: Settings) -> None:
    pass


def settings_of(*arguments: str) -> Settings:
    seen: list[Settings] = []

    async def serve(settings: Settings) -> None:
        report(settings)
        seen.append(settings)

    assert main(daemon(serve), arguments) == 0
    return seen[0]


def test_the_command_line_goes_before_the_file_before_the_default(tmp_path: Path) -> None:
    file = tmp_path / "toy.conf"
    file.write_text("listenPort=1\nfileSize=2\ntls.mode=on\n")
    settings = settings_of("-c", str(file), "--listenPort=3", "--role", "SLAVE")
    assert settings[ToyConfig] == ToyConfig(listen_port=3, file_size=2, role=Role.SLAVE)
    assert settings[ToyTls] == ToyTls(mode=Mode.ON)
    assert settings.config_file == str(file)
    assert settings.file_properties_beyond(ToyConfig) == {"tls.mode": "on"}


def test_name_servers_have_a_short_option() -> None:
    assert settings_of("-n", "a:9876;b:9876")[ToyConfig].namesrv_addr == "a:9876;b:9876"
    assert settings_of("--namesrvAddr=c:1")[ToyConfig].namesrv_addr == "c:1"


def test_another_spelling_and_an_unknown_name_are_taken_and_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "toy.conf"
    file.write_text("fleSize=2\nfleetSize=3\n")
    assert settings_of("-c", str(file))[ToyConfig].file_size == 2
    assert settings_of("--fleSize=4")[ToyConfig].file_size == 4
    log = capsys.readouterr().err
    assert f"property taken under another spelling of its name name=fleSize place={file}:1" in log
    assert f"unknown property ignored name=fleetSize place={file}:2" in log


def test_all_properties_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(daemon(nothing), ["-p", "--fileSize=7"]) == 0
    assert capsys.readouterr().out == (
        "listenPort=9876\nrocketmqHome=/opt/rocketmq\nfileSize=7\nrole=MASTER\ntls.mode=off\n"
    )


def test_important_properties_are_printed_where_there_are_any(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(daemon(nothing, frozenset({"fileSize"})), ["-m"]) == 0
    assert capsys.readouterr().out == "fileSize=1024\n"
    assert main(daemon(nothing), ["-m"]) == 2


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(daemon(nothing), ["--version"]) == 0
    assert re.fullmatch(r"mqtoy \S+, leaves: (compiled|pure Python.*)\n", capsys.readouterr().out)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_property_with_what_it_takes(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(daemon(nothing), [option]) == 0
    shown = capsys.readouterr().out
    for part in (
        "-c, --configFile",
        "--listenPort N",
        "the port to serve [9876]",
        "--role MASTER|SLAVE",
        "--tls.mode off|on",
    ):
        assert part in shown
    assert "fleSize" not in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--listenPort=x"],
            "command line: listenPort must be a whole number from 0 to 65535, not 'x'",
        ),
        (["-c", "toy.conf"], "toy.conf:2: role must be MASTER or SLAVE, not 'KING'"),
        (["-c", "none.conf"], "there is no configuration file none.conf"),
        (["-c", "."], "Is a directory: ."),
        (["--listenProt=1"], "No such option '--listenProt'"),
        (["more"], "Got unexpected extra argument (more)"),
    ],
)
def test_settings_that_cannot_be_used_are_one_line_and_code_2(
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toy.conf").write_text("fileSize=1\nrole=KING\n")
    assert main(daemon(nothing), arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mqtoy: {problem}")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AddressInUseError("port 9876 is in use"), "port 9876 is in use"),
        (LaunchError("two\nlines"), "two lines"),
        (PermissionError(13, "Permission denied", "/root/x"), "Permission denied: /root/x"),
        (
            ExceptionGroup("", [AddressInUseError("a"), ExceptionGroup("", [LaunchError("b")])]),
            "a; b",
        ),
    ],
)
def test_an_operating_error_is_one_line_and_code_1(
    error: Exception, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def serve(_settings: Settings) -> None:
        raise error

    assert main(daemon(serve), ["--rocketmqHome=/x"]) == 1
    assert capsys.readouterr().err == f"mqtoy: {told}\n"


@pytest.mark.parametrize("kind", [SettingsError, TlsSettingsError, OverflowError])
def test_so_are_those_that_a_daemon_finds_wrong_when_it_looks_at_them_together(
    kind: type[Exception],
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def serve(_settings: Settings) -> None:
        raise kind("a slave needs a brokerId")

    assert main(daemon(serve), []) == 2
    assert capsys.readouterr().err == "mqtoy: a slave needs a brokerId\n"


def test_a_bug_is_loud() -> None:
    async def serve(_settings: Settings) -> None:
        raise ZeroDivisionError

    async def serve_group(_settings: Settings) -> None:
        raise ExceptionGroup("", [LaunchError("a"), ZeroDivisionError()])

    with pytest.raises(ZeroDivisionError):
        main(daemon(serve), [])
    with pytest.raises(ExceptionGroup) as caught:
        main(daemon(serve_group), [])
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]


@contextmanager
def handled(number: signal.Signals, how: Any) -> Iterator[None]:
    before = signal.signal(number, how)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_cleanly(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    steps = []

    async def serve(_settings: Settings) -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.get_running_loop().create_future()
        finally:
            steps.append("cleaned up")

    with handled(number, signal.SIG_DFL if number == signal.SIGHUP else signal.getsignal(number)):
        assert main(daemon(serve), []) == 0  # whoever runs the tests may have said nohup
    assert steps == ["cleaned up"]
    assert f"stopping signal={number.name}" in capsys.readouterr().err


def test_under_nohup_a_terminal_that_is_gone_stops_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def serve(_settings: Settings) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(3):
            await asyncio.sleep(0)

    with handled(signal.SIGHUP, signal.SIG_IGN):
        assert main(daemon(serve), []) == 0
    assert "stopping" not in capsys.readouterr().err


def test_a_cancellation_that_no_signal_asked_for_is_no_clean_stop() -> None:
    async def serve(_settings: Settings) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        main(daemon(serve), [])


def test_the_home_that_is_gone_on_with_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    settings_of()
    assert "ROCKETMQ_HOME is not set" in capsys.readouterr().err
    monkeypatch.setenv("ROCKETMQ_HOME", "/opt/rocketmq")
    settings_of()
    assert "ROCKETMQ_HOME" not in capsys.readouterr().err


def test_settings_without_a_command_line() -> None:
    settings = Settings([ToyConfig, ToyTls])
    assert settings[ToyConfig] == ToyConfig()
    assert settings.as_properties()["tls.mode"] == "off"


def test_errors_are_described_in_one_line() -> None:
    assert describe(OSError(28, "No space left on device")) == "No space left on device"
    assert describe(ValueError()) == "ValueError"
    assert issubclass(PropertyError, ValueError)
