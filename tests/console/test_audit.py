"""A line for each change, one, whatever is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.console.audit import AuditLog

from ..sim import ManualClock


def lines_of(path: Path, who: str, subject: str) -> list[str]:
    audit = AuditLog(str(path), ManualClock())
    audit.note(who, "127.0.0.1", "send", subject, "done")
    audit.close()
    return path.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    "text",
    ["a\nb", "a\r\nAUDIT who=b", "\x1b[31ma", "a\u2028b", "\u202eab", 'a" outcome="b', "\x00"],
)
def test_what_a_peer_wrote_stays_one_value_of_one_line(tmp_path: Path, text: str) -> None:
    (line,) = lines_of(tmp_path / "audit", text, text)
    assert line.isprintable()
    assert line.count('"') % 2 == 0
    outside = "".join(line.split('"')[::2])
    assert outside.count("outcome=") == 1
    assert outside.count("who=") == 1


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path / "audit", "me", "x" * 10_000)
    assert len(line) < 500
    assert line.startswith("1970-01-01T00:00:") or "AUDIT who=me" in line


def test_lines_are_added(tmp_path: Path) -> None:
    assert len(lines_of(tmp_path / "audit", "a", "b")) == 1
    assert len(lines_of(tmp_path / "audit", "a", "b")) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk here is always full")
def test_what_a_full_disk_does_not_take_stands_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The change was made: its page tells so, and its line is somewhere."""
    audit = AuditLog("/dev/full", ManualClock())
    for subject in ("one", "two"):
        audit.note("me", "127.0.0.1", "send", subject, "done")
    audit.close()
    one, two = capsys.readouterr().err.splitlines()
    assert "subject=one outcome=done (not in the audit file: No space left on device)" in one
    assert "subject=two" in two


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        AuditLog(str(tmp_path), ManualClock())
