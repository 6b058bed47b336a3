"""Whether Spark can run here, and what to do when it cannot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiorocketmq.spark_connector.session.java import java_problem, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_301"', 8),
        ("command not found", None),
    ],
)
def test_versions(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def java(folder: Path, text: str) -> None:
    """A ``java`` that says this when it is asked for its version."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    command.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="needs a shell script as a program")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('openjdk version "17.0.1"', None),
        ('openjdk version "11.0.2"', "is version 11. On Debian"),
        ("who knows", "does not tell its version"),
    ],
)
def test_the_java_of_java_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str | None
) -> None:
    java(tmp_path, text)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = java_problem()
    assert found is None if problem is None else problem in str(found)


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert (
        "there is no java here. On Debian and Ubuntu: apt install openjdk-17-jre-headless"
        in str(java_problem())
    )
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no java here" in str(java_problem())
