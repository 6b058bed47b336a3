"""The archive of Spark's classes: which one is used, and that nothing is worse with one that does
not fit."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.session import class_archive as archives
from aiorocketmq.spark_connector.session.class_archive import (
    class_archive,
    main,
    make_class_archive,
    with_archive,
)
from aiorocketmq.spark_connector.session.java import java_command, java_problem

from .processes import wait_until, wait_until_gone

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a shell script as a program")

MAIN = "org.apache.spark.launcher.Main"
"""A small program in Spark's jars."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archives are."""
    pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
    folder = tmp_path / "the share"
    monkeypatch.setattr(archives, "FOLDER", folder)
    return folder


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a Java of this build the one that is found."""

    def install(build: str) -> None:
        home = tmp_path / f"java-{build}"
        program(home / "bin" / "java", f'echo "OpenJDK Runtime Environment (build {build})" >&2')
        monkeypatch.setenv("JAVA_HOME", str(home))

    return install


def run_instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """Instead of the job."""
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", text)))


MAKES_ONE = 'file=${3#*=}; echo classes > "${file%%\\"*}"'


def test_one_for_each_java(
    folder: Path, java: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java("17.0.1+5-x")
    assert class_archive() is None
    assert with_archive("-Xmx1g") == "-Xmx1g"
    run_instead(monkeypatch, tmp_path, MAKES_ONE)
    first = make_class_archive()
    assert [first] == list(folder.iterdir()), "nothing else is left"
    assert class_archive() == first
    assert shlex.split(with_archive("-Xmx1g"))[:3] == [
        "-Xmx1g",
        f"-XX:SharedArchiveFile={first}",
        "-Xshare:auto",
    ]
    java("17.0.2+1")
    assert class_archive() is None
    assert main() is None
    assert class_archive() not in (None, first)
    assert [class_archive()] == list(folder.iterdir()), "in the place of the old one"


def test_it_is_made_anew_or_only_when_there_is_none(
    folder: Path,
    java: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    java("17")
    run_instead(monkeypatch, tmp_path, MAKES_ONE)
    made = make_class_archive()
    made.write_text("mine")
    monkeypatch.setattr(sys, "argv", ["class_archive", "--if-missing"])
    assert main() is None
    assert made.read_text() == "mine"
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(sys, "argv", ["class_archive"])
    assert main() is None
    assert made.read_text() == "classes\n"
    assert capsys.readouterr().out == f"made {made} (0 MiB)\n"


def test_what_goes_wrong_is_told(
    folder: Path, java: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java("17")
    for does, problem in (
        ("echo not here", "left none.*not here"),
        (f"{MAKES_ONE}; echo oh; exit 1", "job failed.*oh"),
    ):
        run_instead(monkeypatch, tmp_path, does)
        with pytest.raises(ConfigError, match=f"(?s)sessions start as before: .*{problem}"):
            make_class_archive()
    assert list(folder.iterdir()) == []
    folder.rmdir()
    folder.touch()
    monkeypatch.setattr(sys, "argv", ["class_archive"])
    assert (
        f"cannot be written, sessions start as before: [Errno 17] File exists: '{folder}'"
        in str(main())
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "python -m aiorocketmq.spark_connector.session.java" in str(main())


HANGS = """
sleep 600 &
echo $! > "${0%/*}/pid.new"
mv "${0%/*}/pid.new" "${0%/*}/pid"
wait
"""
"""As Java, behind the job's Python."""


def test_a_job_that_takes_too_long_is_ended_with_all_that_it_has_started(
    folder: Path, java: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java("17")
    run_instead(monkeypatch, tmp_path, HANGS)
    archives.archive_file()  # asks Java for its version
    monkeypatch.setattr(archives, "_WITHIN_S", 0.0)
    communicate = subprocess.Popen.communicate

    def once_it_hangs(job: subprocess.Popen[bytes], *args: Any, **options: Any) -> Any:
        wait_until((tmp_path / "pid").exists)
        return communicate(job, *args, **options)

    monkeypatch.setattr(subprocess.Popen, "communicate", once_it_hangs)
    with pytest.raises(ConfigError, match="did not end within 0 s"):
        make_class_archive()
    wait_until_gone(int((tmp_path / "pid").read_text()))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("archive", ["fits", "other classes", "garbage", "empty"])
def test_an_archive_that_does_not_fit_is_not_used_and_not_spoken_of(
    folder: Path, archive: str
) -> None:
    """With the real Java, and a program that is smaller than Spark."""
    if (problem := java_problem()) is not None:
        pytest.skip(problem)
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    classes = os.pathsep.join(map(str, jars.glob("spark-launcher*.jar")))
    file = archives.archive_file()
    assert file is not None
    folder.mkdir()
    if archive in ("garbage", "empty"):
        file.write_bytes(b"garbage" * 10_000 if archive == "garbage" else b"")
    else:
        run_java(f'"-XX:ArchiveClassesAtExit={file}" -Xlog:cds*=off', classes)
        assert file.stat().st_size > 100_000
    if archive == "other classes":
        other = shutil.copy(classes, folder / "other.jar")
        classes = str(other)
    options = with_archive("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    assert run_java(options, classes) == run_java("", classes)
    log = folder / "log"
    run_java(f'{options} "-Xlog:class+load:file={log}"', classes)
    assert (f"{MAIN} source: shared objects file (top)" in log.read_text()) == (archive == "fits")


def run_java(options: str, classes: str) -> tuple[str, str]:
    """What it says when it is not told what to do."""
    command = [str(java_command()), *shlex.split(options), "-cp", classes, MAIN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "missing class name" in done.stderr
    return done.stdout, done.stderr
