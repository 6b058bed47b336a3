"""``python -m examples.demo`` as its users run it: real processes, the whole way, and pleasant when
it fails. Its last step, with Spark, is in test_spark_demo.py."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from examples.demo.daemons import free_port

from .. import forked

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "examples.demo", "--no-spark"]
WITHIN = 60.0

if os.name == "nt":
    pytest.skip("needs signals", allow_module_level=True)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Where the demo may put its data; empty again when it has cleaned up."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEMO, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )


def fails_with(problem: str, *arguments: str | Path) -> None:
    """It fails, says so in one line, and shows no traceback."""
    done = forked.run("examples.demo", "--no-spark", *map(str, arguments), cwd=ROOT, timeout=WITHIN)
    assert done.returncode == 1
    assert re.fullmatch(rf"demo: .*{problem}.*\n", done.stderr)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(("words", "without"), [(["SPARK=no"], True), ([], False)])
def test_make_without_spark_runs_none(words: list[str], without: bool) -> None:
    """Whether it is installed or not."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "SPARK"))}
    done = subprocess.run(
        ["make", "-n", *words, "INPUT=rows.csv", "demo"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WITHIN, check=True,
    )  # fmt: skip
    line = done.stdout.splitlines()[-1]
    assert line.endswith(' --input "rows.csv"')
    assert ("--no-spark" in line, "pyspark" in line) == (without, False)


def table_row(output: str, name: str) -> list[str]:
    """Cells of the row of a table that begins with that name."""
    row = next(
        line for line in output.splitlines() if re.match(rf"[│|] {re.escape(name)} +[│|]", line)
    )
    return [cell.strip() for cell in re.split("[│|]", row)[1:-1]]


def daemon_pids(output: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"^Started the .*, pid (\d+)\.$", output, re.MULTILINE)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.01)


# --- it works
# --------------------------------------------------------------------------------------------------


def test_every_row_of_a_csv_file_arrives(tmp_path: Path, data: Path) -> None:
    rows = [
        f"{number},{['red', 'green', 'blue', 'red'][number % 4]},text {number}"
        for number in range(1000)
    ]
    rows[500] = "500,red"
    path = tmp_path / "colours.csv"
    path.write_text("\n".join(["number,colour,text", *rows]), encoding="utf-8")

    done = demo("--input", path, "--data", data)

    assert (done.returncode, done.stderr) == (0, "")
    output = done.stdout
    assert "colours.csv: 999 rows" in output
    assert "Tags come from the column colour (3 different)." in output
    assert "Keys come from the column number." in output
    assert "  line 502: 2 fields where the header has 3\n" in output
    assert re.search(r"A has the queues (0-3, B has 4-7|4-7, B has 0-3)\.", output)
    assert table_row(output, "A + B")[3:] == ["999", "999", "0", "0", "0"]
    assert table_row(output, "C") == ["C", "red", "0-7", "499", "499", "0", "0", "0"]
    assert table_row(output, "green") == ["green", "250", "250", "0"]
    assert "rows sent   999; 1 of the file left out\nlost        0\n" in output
    progress = output.partition("$ mqadmin consumerProgress")[2]
    queues = re.findall(
        r"^colours +demo-broker +(\d) +(\d+) +(\d+) +(\d+) +", progress, re.MULTILINE
    )
    assert [int(queue) for queue, *_ in queues[:8]] == list(range(8))
    assert sum(int(offset) for _, offset, *_ in queues[:8]) == 999
    assert all(offset == consumed and diff == "0" for _, offset, consumed, diff in queues[:8])
    pids = daemon_pids(output)
    assert len(pids) == 2
    assert not any(map(is_alive, pids))
    assert list(data.iterdir()) == []


class Kept(NamedTuple):
    """A demo of a file with JSON lines and a broken one, whose columns and ports were chosen and
    whose data stays."""

    done: subprocess.CompletedProcess[str]
    ports: tuple[int, int]
    data: Path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("kept")
    (data := folder / "data").mkdir()
    ports = free_port(), free_port(-2, 1)
    path = folder / "rows.jsonl"
    lines = [
        f'{{"kind": "k{number % 2}", "other": "o{number % 3}", "id": {number}}}'
        for number in range(30)
    ]
    path.write_text("\n".join([*lines, "{broken"]), encoding="utf-8")
    chosen = (
        "--tags",
        "other",
        "--keys",
        "kind",
        "--namesrv-port",
        str(ports[0]),
        "--broker-port",
        str(ports[1]),
    )
    return Kept(demo("--input", path, *chosen, "--data", data, "--keep"), ports, data)


def test_json_lines_with_columns_that_were_asked_for(kept: Kept) -> None:
    done = kept.done
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "Tags come from the column other (3 different).\nKeys come from the column kind.\n"
        in done.stdout
    )
    assert "  line 31: broken JSON: " in done.stdout
    assert table_row(done.stdout, "C")[3:] == ["10", "10", "0", "0", "0"]


def test_data_that_is_kept(kept: Kept) -> None:
    (folder,) = kept.data.iterdir()
    assert str(folder) in kept.done.stdout
    assert next((folder / "store" / "commitlog").iterdir()).stat().st_size > 0
    assert {"broker.log", "namesrv.log", "broker.conf", "demo.log"} <= {
        path.name for path in folder.iterdir()
    }


def test_ports_can_be_chosen(kept: Kept) -> None:
    assert f"name server on 127.0.0.1:{kept.ports[0]}," in kept.done.stdout
    assert f"broker on 127.0.0.1:{kept.ports[1]}," in kept.done.stdout


# --- it fails
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "there is no file"),
        (b"", "it is empty"),
        (b"id,name\n", "it has no rows"),
        (b"id,name\n1\n", "line 2: 1 fields where the header has 2"),
        (b"\x1f\x8b\x08\x00\x00\x00", "it is not text"),
        (b"1,2\n3,4\n", "must name the columns"),
    ],
)
def test_input_that_is_no_use(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "input.csv"
    if content is not None:
        path.write_bytes(content)
    fails_with(problem, "--input", path)


def test_input_that_is_a_folder(tmp_path: Path) -> None:
    fails_with("is no file", "--input", tmp_path)


@pytest.mark.parametrize("option", ["--namesrv-port", "--broker-port"])
def test_a_port_in_use(data: Path, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        fails_with(
            f"port {port} is in use; name another one with {option}",
            option,
            str(port),
            "--data",
            data,
        )
    assert list(data.iterdir()) == []


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.touch()
    fails_with("cannot write to .*file", "--data", no_folder)


# --- it is interrupted
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def running(tmp_path: Path, data: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A demo in the middle of its work, and the file that has its output."""
    path = tmp_path / "many.csv"
    path.write_text(
        "id,kind\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(50_000)), encoding="utf-8"
    )
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*DEMO, "--input", str(path), "--data", str(data)], cwd=ROOT, stdout=file, stderr=file,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    try:
        until(lambda: "Consumer C is" in output.read_text() or process.poll() is not None)
        yield process, output
    finally:
        process.kill()
        process.wait()
        for pid in filter(is_alive, daemon_pids(output.read_text())):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything(
    running: tuple[subprocess.Popen[bytes], Path], data: Path, number: signal.Signals
) -> None:
    process, output = running
    process.send_signal(number)
    assert process.wait(WITHIN) == 128 + number
    text = output.read_text()
    assert text.endswith(f"\ndemo: interrupted by {number.name}, everything is stopped\n")
    assert "Traceback" not in text
    assert not any(map(is_alive, daemon_pids(text)))
    assert list(data.iterdir()) == []


def test_a_broker_that_dies_is_told_with_the_end_of_its_log(
    running: tuple[subprocess.Popen[bytes], Path], data: Path
) -> None:
    process, output = running
    namesrv, broker = daemon_pids(output.read_text())
    os.kill(broker, signal.SIGKILL)
    assert process.wait(WITHIN) == 1
    _, told, log = output.read_text().partition(
        "\ndemo: the broker was ended by SIGKILL; the end of its log:\n"
    )
    assert told
    assert re.search(r"^\d{4}-\d\d-\d\dT.* INFO +broker\.", log, re.MULTILINE)
    assert "Traceback" not in log
    assert not is_alive(namesrv)
    assert list(data.iterdir()) == []
