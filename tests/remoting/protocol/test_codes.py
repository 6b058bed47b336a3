"""Names of versions."""

from __future__ import annotations

from aiorocketmq.remoting.protocol.codes import version_name


def test_every_version_has_the_name_of_the_original() -> None:
    first = (
        "SNAPSHOT ALPHA1 BETA1 BETA2 BETA3 BETA4 BETA5 BETA6_SNAPSHOT BETA6 BETA7_SNAPSHOT BETA7 "
        "BETA8_SNAPSHOT BETA8"
    )
    names = [f"V3_0_0_{part}" for part in (*first.split(), "BETA9_SNAPSHOT", "BETA9", "FINAL")]
    releases = [(3, 0, patch) for patch in range(1, 16)]
    releases += [(3, minor, patch) for minor in (1, 2) for patch in range(10)]
    releases += [(3, minor, patch) for minor in range(3, 10) for patch in range(1, 10)]
    releases += [
        (major, minor, patch) for major in (4, 5) for minor in range(10) for patch in range(10)
    ]
    names += [
        f"V{major}_{minor}_{patch}{end}"
        for major, minor, patch in releases
        for end in ("_SNAPSHOT", "")
    ]
    names += ["HIGHER_VERSION"] * 2
    assert [version_name(ordinal) for ordinal in range(len(names))] == names
    assert (names[409], names[479], version_name(-1)) == ("V4_9_8", "V5_3_3", "V3_0_0_SNAPSHOT")
