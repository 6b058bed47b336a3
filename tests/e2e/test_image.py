"""The Dockerfile without a container engine: what it says, and its steps in a root of their own.

The root has what Python's image has: interpreter and standard library without bytecode, which
nobody writes later. On top of it lies what ``pip install`` of the first stage leaves, and the step
that compiles is run as it stands in the file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from aiorocketmq.testing import LocalCluster

REPOSITORY = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PROGRAMS: dict[str, str] = PYPROJECT["project"]["scripts"]
LEFT_OUT = (
    *("test", "tests", "site-packages", "__pycache__", "*.pyc", "idlelib", "lib2to3"),
    *("tkinter", "turtledemo", "ensurepip", "config-*"),
)
SCRIPT = """\
import sys
from {module} import {function}
if __name__ == "__main__":
    sys.exit({function}())
"""
WITHOUT_BYTECODE = """\
import atexit, os, runpy, sys
def say():
    cached = [(m, getattr(m, "__cached__", None)) for m in list(sys.modules.values())]
    none = [m.__name__ for m, path in cached if path and not os.path.exists(path)]
    print("WITHOUT", len(cached), *none, file=sys.stderr)
atexit.register(say)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (REPOSITORY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [
        (name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines) if name
    ]


def of(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def test_what_the_image_says_of_itself() -> None:
    last = [number for number, (name, _) in enumerate(instructions()) if name == "FROM"][-1]
    final = instructions()[last:]
    assert of("STOPSIGNAL") == ["SIGTERM"], "what daemons end in good order by"
    (user,) = of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), (
        "by a number Kubernetes sees that it is no root"
    )
    assert any(f"useradd --uid {user.partition(':')[0]} " in rest for rest in of("RUN"))
    names = [name for name, _ in final]
    assert not {"RUN", "COPY"} & set(names[names.index("USER") :]), "he can write nothing of it"
    (labels,) = of("LABEL")
    found = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', labels))
    assert found["title"] == PYPROJECT["project"]["name"]
    assert found["licenses"] == PYPROJECT["project"]["license"]
    assert {"description", "version", "revision"} <= found.keys()
    (ports,) = of("EXPOSE")
    assert {"9876", "10911", "10909", "10912", "40911", "5557"} == set(ports.split())
    assert "'/src[prometheus]'" in of("RUN")[0], "it can tell its metrics"


def compiling_step() -> str:
    (step,) = (rest for rest in of("RUN") if "compileall" in rest)
    copied = instructions().index(("COPY", "--from=build /installed /usr/local"))
    assert instructions().index(("RUN", step)) > copied
    return step


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """``/usr/local``."""
    root = tmp_path_factory.mktemp("image") / "usr-local"
    python_root(root)
    install(root, site_of(root))
    yield root
    shutil.rmtree(root)


def site_of(root: Path) -> Path:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return root / "lib" / version / "site-packages"


def python_root(root: Path) -> None:
    """As the image of Python has it."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(stdlib, site_of(root).parent, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (root / "bin").mkdir()
    shutil.copy(Path(sys.executable).resolve(), root / "bin" / "python")


def install(root: Path, site: Path) -> None:
    """What pip leaves behind with ``--no-compile``."""
    site.mkdir()
    subprocess.run(
        [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "egg_info",
         "--egg-base", str(site), "build_py", "--build-lib", str(site)],
        cwd=REPOSITORY, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    for leaf in (REPOSITORY / "remoting/protocol/leaves").glob("_compiled*.so"):
        shutil.copy(leaf, site / "aiorocketmq/remoting/protocol/leaves")
    extras = PYPROJECT["project"]["optional-dependencies"]
    for name in required([*PYPROJECT["project"]["dependencies"], *extras["prometheus"]]):
        for file in distribution(name).files or ():
            target = site / file
            if ".." not in file.parts and file.suffix != ".pyc":
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), target)
    for name, entry in PROGRAMS.items():
        module, _, function = entry.partition(":")
        (root / "bin" / name).write_text(SCRIPT.format(module=module, function=function))


def required(requirements: list[str]) -> set[str]:
    """With what these require themselves."""
    found: set[str] = set()
    for each in map(Requirement, requirements):
        if (each.marker is None or each.marker.evaluate({"extra": ""})) and each.name not in found:
            found |= {each.name} | required(list(distribution(each.name).requires or ()))
    return found


def environment(root: Path) -> dict[str, str]:
    return {
        "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
        "PYTHONHOME": str(root),
        "LD_LIBRARY_PATH": f"{Path(sys.executable).resolve().parents[1] / 'lib'}",
        "HOME": str(root),
    }


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A program of the root by whoever cannot write to it."""
    return subprocess.run(
        ["python", "-c", WITHOUT_BYTECODE, str(root / "bin" / words[0]), *words[1:]],
        env={**environment(root), "PYTHONDONTWRITEBYTECODE": "1"},
        executable=root / "bin" / "python",
        cwd="/", capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def without_bytecode(done: subprocess.CompletedProcess[str]) -> tuple[int, list[str]]:
    """How many modules it had, and which of them were compiled only now."""
    (line,) = (each for each in done.stderr.splitlines() if each.startswith("WITHOUT"))
    number, *names = line.split()[1:]
    return int(number), names


def test_every_program_finds_all_its_modules_compiled(root: Path) -> None:
    """The figure: ``mqadmin`` takes a fifth of the CPU that it takes without."""
    assert len(without_bytecode(run(root, "mqadmin", "--version"))[1]) > 100, "the root is as bare"
    step = compiling_step()
    done = subprocess.run(
        ["sh", "-c", step], env=environment(root), cwd="/", capture_output=True, text=True,
        timeout=170, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    with LocalCluster() as cluster:
        for words, output in (
            (("mqadmin", "clusterList", "-n", cluster.namesrv_address), "DefaultCluster"),
            (("mqbroker", "-p"), "brokerName"),
            (("mqnamesrv", "-p"), "listenPort"),
            (("mqhealth", cluster.broker_address), ""),
            (("mqstore", "--version"), "mqstore"),
            (("mqcluster", "--help"), "--masters"),
            (("mqshutdown", "--help"), "--port"),
        ):
            found = run(root, *words)
            assert found.returncode == 0, found.stderr
            assert output in found.stdout
            assert without_bytecode(found)[1] == [], words


def test_the_image_has_what_metrics_need(root: Path) -> None:
    program = (
        "import aiorocketmq.broker.monitoring.prometheus as it, prometheus_client as client\n"
        "print(it.__file__, client.__file__)"
    )
    done = subprocess.run(
        ["python", "-c", program], env=environment(root), executable=root / "bin" / "python",
        cwd="/", capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(Path(file).is_relative_to(root) for file in done.stdout.split())
