"""What the user's code raises ends its block, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref

import pytest

from aiorocketmq.client.user_code import UserCode


def test_an_error_is_kept_once() -> None:
    with UserCode() as code:
        raise ValueError("wrong")
    assert str(code.failure()) == "wrong"
    assert code.failure() is None


def test_nothing_is_wrong() -> None:
    with UserCode() as code:
        pass
    assert code.failure() is None
    assert not code.log_failure(logging.getLogger("test"), "never")


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_passes_unless_it_is_named(error: type[BaseException]) -> None:
    with pytest.raises(error), UserCode():
        raise error
    with UserCode(error) as code:
        raise error
    assert type(code.failure()) is error


def test_a_failure_is_told_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with UserCode() as code:
        raise ValueError("wrong")
    assert code.log_failure(logging.getLogger("somebody"), "a hook failed group=%s", "g")
    [line] = caplog.records
    assert (line.name, line.levelname, line.getMessage()) == (
        "somebody",
        "ERROR",
        "a hook failed group=g",
    )
    assert "ValueError: wrong" in caplog.text


def test_a_failure_that_was_asked_for_keeps_nothing_alive() -> None:
    class Message:
        pass

    def call(_message: Message) -> str:
        with UserCode() as code:
            raise ValueError("wrong")
        return str(code.failure())

    message = Message()
    gone = weakref.ref(message)
    gc.disable()
    try:
        assert call(message) == "wrong"
        del message
        assert gone() is None
    finally:
        gc.enable()
