"""``make release``: what is uploaded, built of the last commit, and tried as who installs it would.

    python .ci/release.py                              all, into dist/
    python .ci/release.py python3.12 python3.13        a wheel for these Pythons too

It builds a source distribution and of it a wheel for each Python, checks them (twine), installs
each wheel into an environment of its own, runs there, from an empty folder, the lines of the README
and the demo, and prints what is to be tagged. Nothing is tagged and nothing uploaded.

Only Python's own library is needed: the tools come from ``requirements/release.txt``, by their
hashes. A clone with changes that are not committed is refused: nobody could build that again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = "aiorocketmq"
README_WITHIN_S = 90
DEMO_WITHIN_S = 600


class ReleaseError(Exception):
    """One line that says why there is no release."""


class Release(NamedTuple):
    version: str
    programs: tuple[str, ...]
    commit: str
    committed_s: int
    """Also the time of every file in what is built, so that it is the same when built again."""

    @property
    def tag(self) -> str:
        return f"v{self.version}"


# --- may it be released


def release_of(repository: Path) -> Release:
    """Raises ReleaseError where the clone cannot be released as it is."""
    if changed := git(repository, "status", "--porcelain").splitlines():
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ReleaseError(f"commit or stash what is changed first: {changed[0].strip()}{more}")
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    version: str = project["version"]
    problem = changelog_problem((repository / "CHANGELOG.md").read_text("utf-8"), version)
    if problem:
        raise ReleaseError(f"CHANGELOG.md {problem}")
    commit = git(repository, "rev-parse", "HEAD")
    tagged = git(repository, "tag", "--list", f"v{version}", "--format=%(*objectname)%(objectname)")
    if tagged and not tagged.startswith(commit):
        raise ReleaseError(
            f"v{version} is tagged already, elsewhere: raise version in pyproject.toml"
        )
    when = int(git(repository, "log", "-1", "--format=%ct"))
    return Release(version, tuple(project.get("scripts", ())), commit, when)


def changelog_problem(text: str, version: str) -> str | None:
    """What is wrong with the changelog for a release of that version."""
    parts = re.split(r"^## \[(.+?)\](.*)$", text, flags=re.MULTILINE)
    sections = {
        name: (rest, body)
        for name, rest, body in zip(*(parts[n::3] for n in (1, 2, 3)), strict=True)
    }
    if version not in sections:
        return f"has no heading '## [{version}] - <date>'"
    rest, body = sections[version]
    if not re.fullmatch(r" - \d{4}-\d\d-\d\d", rest):
        return f"has no date behind [{version}]: '## [{version}] - <date>'"
    if not body.strip():
        return f"says nothing of {version}"
    if sections.get("Unreleased", ("", ""))[1].strip():
        return f"has lines under [Unreleased] that belong under [{version}]"
    return None


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=repository, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip() or 'failed'}")
    return done.stdout.strip()


# --- building


def environment(folder: Path, python: str) -> Path:
    """A new virtual environment; its Python."""
    run([python, "-m", "venv", folder])
    return folder / "bin" / "python"


def with_tools(folder: Path, python: str) -> Path:
    made = environment(folder, python)
    pinned = REPOSITORY / "requirements" / "release.txt"
    pip(made, "install", "--require-hashes", "-r", pinned)
    return made


def with_programs_of(python: Path) -> dict[str, str]:
    return {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}


def tags_of(pythons: list[str]) -> dict[str, str]:
    """For each Python how a wheel for it is named, ``cp311``."""
    ask = "import sys; print('cp%d%d' % sys.version_info[:2])"
    tags = {python: run([python, "-c", ask]).strip() for python in pythons}
    if len(tags) < len(pythons) or len({*tags.values()}) < len(tags):
        raise ReleaseError(f"two of these are the same Python: {' '.join(pythons)}")
    return tags


def build(release: Release, pythons: list[str], work: Path) -> list[Path]:
    """Source distribution and wheels, checked; the source distribution first."""
    source, raw, good = work / "source", work / "raw", work / "good"
    for folder in (source, raw, good):
        folder.mkdir()
    archive = work / "source.tar"
    git(REPOSITORY, "archive", "--output", str(archive), release.commit)
    run(["tar", "-xf", archive, "-C", source])
    when = {"SOURCE_DATE_EPOCH": str(release.committed_s)}
    tools = with_tools(work / "tools", pythons[0])
    say("building the source distribution")
    run(
        [tools, "-m", "build", "--no-isolation", "--sdist", "--outdir", good, source],
        variables=when,
    )
    (sdist,) = good.glob("*.tar.gz")
    for number, python in enumerate(pythons):
        say(f"building a wheel with {python}")
        builder = with_tools(work / f"tools-{number}", python) if number else tools
        pip(builder, "wheel", "--no-deps", "--no-build-isolation", "-w", raw, sdist, variables=when)
    wheels = sorted(raw.glob("*.whl"))
    for wheel in wheels:
        if not any("/_compiled." in name for name in zipfile.ZipFile(wheel).namelist()):
            raise ReleaseError(f"{wheel.name} has no compiled leaves: is there a C compiler?")
        if sys.platform == "linux":  # where a plain wheel is for this machine only
            repair = ["-m", "auditwheel", "repair", "--wheel-dir", good, wheel]
            run([tools, *repair], variables=with_programs_of(tools))
        else:
            shutil.copy(wheel, good)
    built = [sdist, *sorted(good.glob("*.whl"))]
    run([tools, "-m", "twine", "check", "--strict", *built])
    return built


# --- trying


def try_wheel(release: Release, wheel: Path, python: str, work: Path) -> None:
    """As somebody who has never seen the repository."""
    say(f"trying {wheel.name}: installed, README, demo")
    installed = environment(work / "user", python)
    pip(installed, "install", wheel)
    pip(installed, "check")
    empty = work / "empty"
    empty.mkdir()
    home = {"HOME": str(work), **with_programs_of(installed)}
    for program in release.programs:
        printed = run([installed.parent / program, "--version"], empty, home)
        if printed.strip() != f"{program} {release.version}, leaves: compiled":
            raise ReleaseError(f"{program} --version of {wheel.name} says {printed.strip()!r}")
    shell, program = blocks_of_readme((REPOSITORY / "README.md").read_text("utf-8"), free_ports())
    with cluster(shell, empty, home):
        printed = run([installed, "-c", program], empty, home, within_s=README_WITHIN_S)
    if "one coffee" not in printed:
        raise ReleaseError(f"the README's program with {wheel.name} prints {printed!r}")
    shutil.copytree(REPOSITORY / "examples", empty / "examples")
    printed = run([installed, "-m", "examples.demo"], empty, home, within_s=DEMO_WITHIN_S)
    for line in re.findall(r"^.*\b(?:received|lost|duplicated)\b.*$", printed, re.MULTILINE):
        say(f"    {line.strip()}")


def blocks_of_readme(text: str, ports: tuple[int, int]) -> tuple[str, str]:
    """The lines that start name server and broker and make a topic, and the first program; on these
    ports instead of the usual ones, which may be taken."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shells = [code for _, code in blocks if "mqnamesrv &" in code]
    programs = [code for language, code in blocks if language == "python"]
    if not shells or not programs:
        raise ReleaseError("README.md has no block with 'mqnamesrv &', or no Python program")
    namesrv, broker = ports
    shell, program = shells[0], programs[0]
    shell = shell.replace("mqnamesrv &", f"mqnamesrv --listenPort={namesrv} &")
    shell = shell.replace("mqbroker ", f"mqbroker --listenPort={broker} --brokerIP1=127.0.0.1 ")
    shell = shell.replace("localhost:10911", f"localhost:{broker}")
    return tuple(
        each.replace("localhost:9876", f"localhost:{namesrv}") for each in (shell, program)
    )


def free_ports() -> tuple[int, int]:
    """For a name server, and for a broker with its neighbours: two below and one above."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


@contextmanager
def cluster(shell: str, folder: Path, home: Mapping[str, str]) -> Iterator[None]:
    """What the lines start runs until the end; they have ended themselves when this begins."""
    log = folder.parent / "cluster.log"
    with log.open("w") as output:
        started = subprocess.Popen(
            ["bash", "-ec", shell], cwd=folder, env=os.environ | home, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            if started.wait(README_WITHIN_S):
                raise ReleaseError(f"the README's lines fail:\n{log.read_text()}")
            yield
        finally:
            os.killpg(started.pid, signal.SIGTERM)


# --- saying


def run(
    command: list[object],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    within_s: float = 1800,
) -> str:
    """Its standard output. Raises ReleaseError with all that it said."""
    words = [str(word) for word in command]
    ours = ("PYTHON", "ROCKETMQ", "NAMESRV", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    try:
        done = subprocess.run(
            words, cwd=folder or Path(tempfile.gettempdir()), env=kept | dict(variables or {}),
            capture_output=True, text=True, timeout=within_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"{' '.join(words)} is not done within {within_s:.0f} s") from None
    if done.returncode:
        raise ReleaseError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def pip(python: Path, *arguments: object, variables: Mapping[str, str] | None = None) -> None:
    quiet = ["--disable-pip-version-check", "--quiet"]
    run([python, "-m", "pip", *quiet, *arguments], variables=variables)


def say(text: str) -> None:
    print(text, flush=True)


def told(release: Release, files: list[Path]) -> str:
    lines = ["", f"{PACKAGE} {release.version}, built and tried:", ""]
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines += [
            f"  {path.relative_to(REPOSITORY)}  {path.stat().st_size:,} bytes",
            f"    {digest}",
        ]
    names = " ".join(str(path.relative_to(REPOSITORY)) for path in files)
    return "\n".join([
        *lines, "", "To be tagged, then uploaded:", "",
        f"  git tag -a {release.tag} -m '{PACKAGE} {release.version}' {release.commit}",
        f"  git push origin {release.tag}",
        f"  twine upload {names}",
    ])  # fmt: skip


def main(pythons: list[str]) -> int:
    try:
        release = release_of(REPOSITORY)
        with tempfile.TemporaryDirectory(prefix=f"{PACKAGE}-release-") as folder:
            work = Path(folder)
            tags = tags_of([sys.executable, *pythons])
            built = build(release, list(tags), work)
            for python, tag in tags.items():
                (wheel,) = (path for path in built if f"-{tag}-" in path.name)
                (work / tag).mkdir()
                try_wheel(release, wheel, python, work / tag)
            (REPOSITORY / "dist").mkdir(exist_ok=True)
            files = [Path(shutil.copy(path, REPOSITORY / "dist")) for path in built]
    except ReleaseError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    say(told(release, files))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
