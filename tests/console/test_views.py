"""Who gets a view of their own: brokers are asked whether a secret is right."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from aiorocketmq import Admin
from aiorocketmq.console.settings import ConsoleSettings
from aiorocketmq.console.views import NotAllowed, Views
from aiorocketmq.remoting.errors import BrokerError, ConnectError, RequestTimeout, RocketMQError
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, ClusterInfo
from aiorocketmq.remoting.signature import Credentials
from aiorocketmq.remoting.system_clock import SystemClock

GIVEN = Credentials("alice", "the secret that is given")
WRONG = BrokerError(16, "AclException: wrong signature")
NO_KEY = BrokerError(1, "org.apache.rocketmq.acl.common.AclException: No accessKey is configured")
ILL = BrokerError(1, "OSError: [Errno 5] Input/output error")
BUSY = BrokerError(2, "[REJECTREQUEST]system busy, start flow control for a while")
LATE = RequestTimeout("no answer in time")
AWAY = ConnectError("nobody listens")
Answers = Mapping[str, tuple[RocketMQError | None, RocketMQError | None]]
"""Of each broker: to a wrong secret, and to the one that is given; ``None``: it takes it."""


class SomeAdmin:
    """An ``Admin`` of these brokers, as far as a sign-in asks."""

    def __init__(self, answers: Answers, credentials: Credentials | None) -> None:
        self._answers = answers
        self._is_given = credentials == GIVEN

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def producers_of_broker(self, address: str) -> None: ...

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={
                each: BrokerData(cluster="C", broker_name=each, broker_addrs={0: each})
                for each in self._answers
            },
            cluster_addr_table={"C": tuple(self._answers)},
        )

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        error = self._answers[address][self._is_given]
        if error is not None:
            raise error
        return {}

    async def acl_version(self, address: str) -> None:
        raise BrokerError(1, "acl is not enabled")


class SomeViews(Views):
    def __init__(self, answers: Answers) -> None:
        super().__init__(ConsoleSettings(), SystemClock())
        self._answers = answers

    def _admin(self, credentials: Credentials | None) -> Admin:
        return cast(Admin, SomeAdmin(self._answers, credentials))


def sign_in(answers: Answers) -> None:
    async def main() -> None:
        views = SomeViews(answers)
        try:
            await views.check(GIVEN)
        finally:
            await views.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "answers",
    [
        {"a:1": (WRONG, None)},
        {"a:1": (WRONG, None), "b:1": (WRONG, None)},
        {"a:1": (WRONG, None), "b:1": (AWAY, AWAY)},
        {"a:1": (WRONG, None), "b:1": (None, LATE)},
    ],
)
def test_a_secret_is_right_that_all_take_who_look_at_it(answers: Answers) -> None:
    sign_in(answers)


@pytest.mark.parametrize("silence", [LATE, AWAY])
@pytest.mark.parametrize("others", [{}, {"b:1": (WRONG, None)}])
def test_no_answer_is_no_yes(silence: RocketMQError, others: Answers) -> None:
    with pytest.raises(NotAllowed, match=r"a:1 could not be asked.*no"):
        sign_in({"a:1": (WRONG, silence), **others})


def test_a_secret_that_somebody_turns_down_is_wrong_whoever_is_silent() -> None:
    with pytest.raises(NotAllowed, match="wrong signature"):
        sign_in({"a:1": (WRONG, LATE), "b:1": (WRONG, WRONG)})


def test_a_broker_that_is_ill_meanwhile_has_not_turned_anybody_down() -> None:
    with pytest.raises(NotAllowed, match="a:1 could not be asked, try again: SYSTEM_BUSY"):
        sign_in({"a:1": (WRONG, BUSY)})


@pytest.mark.parametrize("answer", [None, AWAY, BUSY, ILL])
def test_nobody_is_let_in_where_no_broker_looks_at_secrets(answer: RocketMQError | None) -> None:
    with pytest.raises(NotAllowed, match="no broker looks at the secret"):
        sign_in({"a:1": (answer, None)})


@pytest.mark.parametrize(
    ("answer", "is_on"), [(None, False), (AWAY, False), (BUSY, False), (ILL, False),
                          (WRONG, True), (NO_KEY, True)],
)  # fmt: skip
def test_access_control_is_on_where_a_broker_says_so(
    answer: RocketMQError | None, is_on: bool
) -> None:
    """What else goes wrong tells nothing of it."""

    async def main() -> None:
        views = SomeViews({"a:1": (answer, None), "b:1": (None, None)})
        try:
            assert await views.acl_is_on() is is_on
        finally:
            await views.close()

    asyncio.run(main())
