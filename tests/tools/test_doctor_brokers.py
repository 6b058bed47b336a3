"""What the doctor says of brokers that answer: clocks, disks, versions, access control, and what
they do not tell."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from aiorocketmq.remoting.errors import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RequestTimeout,
    RocketMQError,
    broker_error,
)
from aiorocketmq.tools.doctor.of_brokers import CLOCK_MS, clock_ahead_ms
from aiorocketmq.tools.doctor.seen import Kind, Trouble, trouble_of

from .doctor_world import A0, ADDRESS, NOW, SLAVE, broker, runtime, said


# --- clocks, disks, versions
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ahead_ms", "what"),
    [
        (0, None),
        (CLOCK_MS, None),
        (-CLOCK_MS, None),
        (CLOCK_MS + 5, "5 s ahead of"),
        (3_600_000, "3600 s ahead of"),
        (-7_200_000, "7200 s behind"),
    ],
)
def test_clocks(ahead_ms: int, what: str | None) -> None:
    found = said(broker(runtime=runtime(ahead_ms)))
    assert found == ([] if what is None else [f"WRONG {A0}: its clock is {what} this machine's"])


def test_a_question_that_took_long_says_less_of_the_clock() -> None:
    slow = broker(runtime=runtime(8_000), answered_ms=NOW + 4_000)
    assert clock_ahead_ms(slow) == (4_000, 9_000)
    assert said(slow) == []


@pytest.mark.parametrize("table", [{}, {"runtime": "long"}, {"bootTimestamp": "-1"}])
def test_a_broker_that_tells_no_time(table: Mapping[str, str]) -> None:
    whole: dict[str, str] = {**(runtime() if table else {}), **table}
    assert said(broker(runtime=whole)) == [
        f"UNSEEN {A0}: its clock: it does not tell since when it runs"
    ]


def test_a_full_disk() -> None:
    for name in ("commitLogDiskRatio", "consumeQueueDiskRatio"):
        assert said(broker(runtime={**runtime(), name: "0.93"})) == [
            f"WRONG {A0}: its disk is 93% full: it refuses messages, or will soon"
        ]
    assert said(broker(runtime=runtime(commitLogDiskRatio="-1.0"))) == []


def test_a_member_that_began_with_another_log() -> None:
    assert said(broker(runtime=runtime(raftOldLogDiffers="true"))) == [
        f"WRONG {A0}: its commit log from before the group is not that of its leader: messages of "
        "it come and go with who leads"
    ]
    assert said(broker(runtime=runtime(raftOldLogDiffers="false"))) == []


def test_mixed_and_old_versions() -> None:
    old = broker("b", 0, SLAVE, runtime=runtime(brokerVersion="373"))
    assert said(broker(), old) == [
        "NOTE versions: they are mixed: V4_8_0 (1), V4_9_8 (2)",
        f"NOTE broker b 0, {SLAVE}: its version is V4_8_0, and this client speaks as 4.9 does",
    ]
    assert said(broker(runtime=runtime(brokerVersion="393")))[1:] == []


# --- access control, and what is not told
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("signed", "remark", "what"),
    [
        (False, "No accessKey is configured", "it wants an account, and requests are not signed"),
        (True, "No accessKey is configured", "it wants an account, and requests are not signed"),
        (False, "whatever", "it wants an account, and requests are not signed"),
        (True, "No acl config for KEY", "it does not know this access key"),
        (
            True,
            "Check signature failed for accessKey=KEY",
            "it knows this access key, but the signature is wrong: the secret key is another one "
            "there",
        ),
        (True, "no way", "its access control refuses this account (no way)"),
    ],
)
def test_access_control(signed: bool, remark: str, what: str) -> None:
    remark = f"org.apache.rocketmq.acl.common.AclException: {remark}"
    trouble = trouble_of(broker_error(1, remark, ADDRESS))
    assert said(broker(runtime=trouble, config=trouble), signed=signed) == [f"WRONG {A0}: {what}"]


def test_what_only_administrators_are_told() -> None:
    trouble = Trouble(Kind.ACCESS, "Need admin permission for request code=26 ...")
    assert said(broker(config=trouble), signed=True) == [
        f"UNSEEN {A0}: whether it is the one that is registered: it tells that to administrators "
        "only"
    ]


def test_what_a_broker_does_not_know() -> None:
    trouble = trouble_of(broker_error(3, "no", ADDRESS))
    assert said(broker(runtime=trouble)) == [
        f"UNSEEN {A0}: its version, clock and disk: it does not know that request"
    ]


def test_an_account_that_is_only_half_there() -> None:
    assert said(trouble_of_account="~/conf/tools.yml has no secretKey") == [
        "NOTE this machine: ~/conf/tools.yml has no secretKey"
    ]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RequestTimeout("t"), Kind.SILENT),
        (ConnectionLostError("l"), Kind.CLOSED),
        (ProtocolError("p"), Kind.NONSENSE),
        (ConnectError("c"), Kind.OTHER),
        (broker_error(206, "nobody"), Kind.OFFLINE),
        (BrokerError(1, "busy"), Kind.OTHER),
    ],
)
def test_errors_as_troubles(error: RocketMQError, kind: Kind) -> None:
    assert trouble_of(error).kind is kind
