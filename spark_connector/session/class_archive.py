"""An archive of Spark's classes, with which a session on this machine starts in half the time.

Before a first small query is done, Java has found, checked and linked some 12,000 classes; that is
half of the work. It can leave them in a file when it ends (``-XX:ArchiveClassesAtExit``), and later
ones map that file into memory. ::

    python -m aiorocketmq.spark_connector.session.class_archive

makes it, once per environment: 200 MB and up to a minute. ``local_session()`` uses it when it is
there. Java itself looks whether an archive fits (the same build of Java, the same jars at the same
place) and goes on without when it does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from ...client.errors import ConfigError
from .java import java_build, java_command
from .owned import owned

__all__ = ["class_archive", "make_class_archive", "with_archive"]

FOLDER: Final[Path] = Path(sys.prefix) / "share" / "aiorocketmq"
_QUIET: Final = "-Xlog:cds*=off"
_WITHIN_S: Final = 300.0
_LAST_LINES: Final = 10


def class_archive() -> Path | None:
    """The archive of this environment for this pyspark and this Java; ``None`` when there is
    none."""
    archive = archive_file()
    return archive if archive is not None and archive.is_file() else None


def with_archive(java_options: str) -> str:
    """These options for Java, and the archive when there is one."""
    archive = class_archive()
    return (
        java_options
        if archive is None
        else f'{java_options} "-XX:SharedArchiveFile={archive}" -Xshare:auto {_QUIET}'
    )


def make_class_archive() -> Path:
    """Runs a small job in a Java that leaves its classes; in the place of the archives that were
    there.

    Raises ``ConfigError`` where Spark does not run, nothing can be written, or this Java makes no
    archive.
    """
    archive = archive_file()
    if archive is None:
        raise ConfigError(
            "no archive of classes without Spark: see python -m "
            "aiorocketmq.spark_connector.session.java"
        )
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="making-") as folder:
            made = Path(folder) / archive.name
            _run_job(made)
            _save(made)
            for other in archive.parent.glob("*.jsa"):
                other.unlink()
            return made.rename(archive)
    except OSError as error:
        raise ConfigError(
            f"the archive of classes cannot be written, sessions start as before: {error}"
        ) from error


def archive_file() -> Path | None:
    """Where it belongs; ``None`` where there is no pyspark, or no Java that tells its build."""
    command = java_command()
    build = None if command is None else java_build(command)
    try:
        from pyspark import __version__ as spark
    except ImportError:
        return None
    return None if build is None else FOLDER / f"spark-{spark}-java-{build}.jsa"


def _run_job(archive: Path) -> None:
    """The pipe ends with Java, which writes the archive when the program that started it has
    ended."""
    options = f'"-XX:ArchiveClassesAtExit={archive}" {_QUIET}'
    command = [sys.executable, "-m", "aiorocketmq.spark_connector.class_archive_job", options]
    try:
        with owned(command, archive.parent) as job:
            output, _ = job.communicate(timeout=_WITHIN_S)
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"the job for the archive of classes did not end within {_WITHIN_S:.0f} s"
        ) from None
    if job.returncode or not archive.is_file():
        said = "\n".join(output.decode(errors="replace").splitlines()[-_LAST_LINES:])
        what = "its job failed" if job.returncode else "this Java has left none"
        raise ConfigError(
            f"no archive of classes was made, sessions start as before: {what}. The end of what "
            f"was said:\n{said}"
        )


def _save(file: Path) -> None:
    """Java goes on without a file that is none of its archives, but it dies of one that is cut
    short."""
    with file.open("rb") as content:
        os.fsync(content.fileno())


def main() -> str | None:
    """The command; returns what went wrong. ``--if-missing``: only when there is no archive yet."""
    if "--if-missing" in sys.argv[1:] and class_archive() is not None:
        return None
    try:
        archive = make_class_archive()
    except ConfigError as error:
        return str(error)
    sys.stdout.write(f"made {archive} ({archive.stat().st_size >> 20} MiB)\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
