"""``make picture``: what a terminal shows when the commands of the README run, as a picture.

The commands are started one after the other on a terminal of their own, with a real cluster, and
what they print is drawn as they print it, colours included. Daemons listen on free ports, which are
drawn as the usual ones. The picture plays once, in the time that it took, light or dark as whoever
looks at it has it; without animation all of it is there at once.

    python docs/picture.py [FILE.svg]
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from rich.text import Text

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = REPOSITORY / "docs" / "picture.svg"
PROGRAM: Final = "orders.py"
"""The first program of the README."""
COMMANDS: Final = (
    "mqnamesrv > namesrv.log 2>&1 &",
    "mqbroker -n localhost:9876 > broker.log 2>&1 &",
    "mqadmin updateTopic -n localhost:9876 -c DefaultCluster -t Orders -r 2 -w 2",
    f"python {PROGRAM}",
    "mqadmin queryMsgByKey -n localhost:9876 -t Orders -k 42 --body",
    "mqadmin consumerProgress -n localhost:9876 -g billing",
)
_AT_THE_END: Final = "mqshutdown broker && mqshutdown namesrv"
COLUMNS: Final = 100
_WITHIN_S: Final = 60


class Shown(NamedTuple):
    """One command, what it printed (with the terminal's escape sequences), and how long it took."""

    command: str
    output: str
    seconds: float


# --- recording
# --------------------------------------------------------------------------------------------------


def record(programs: str, folder: Path) -> list[Shown]:
    """Run the commands in an empty folder; ``programs`` is the folder that has them. What goes on
    in the background is ended. Raises ``SystemExit`` where a command fails."""
    ports = {"9876": _free_port(2000, 9000), "10911": _free_port(20000, 29000)}
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[:1]
    (folder / PROGRAM).write_text(_replaced(program, ports), encoding="utf-8")
    groups: list[int] = []
    try:
        shown = [_run(command, programs, folder, ports, groups) for command in COMMANDS]
        _run(_AT_THE_END, programs, folder, ports, groups)
        return shown
    finally:
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)


def _run(
    command: str, programs: str, folder: Path, ports: dict[str, str], groups: list[int]
) -> Shown:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    here = "--bindAddress=127.0.0.1 --listenPort"
    small = "--brokerIP1=127.0.0.1 --brokerName=broker-a --mappedFileSizeCommitLog=16777216"
    shell = (
        f'mqnamesrv() {{ command mqnamesrv {here}={ports["9876"]} "$@"; }}\n'
        f'mqbroker() {{ command mqbroker {here}={ports["10911"]} {small} "$@"; }}\n'
        f"{_replaced(command, ports)}"
    )
    environment = {
        **{name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "ROCKETMQ_HOME": str(folder),
        "TERM": "xterm-256color",
        "MQADMIN_WAIT": str(_WITHIN_S),
    }
    begun = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-e", "-c", shell],  # noqa: S607 - wherever it is
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    groups.append(process.pid)
    output = b"".join(_all_of(ours)).decode()
    code = process.wait(_WITHIN_S)
    for usual, port in ports.items():
        output = output.replace(port, usual)
    output = output.replace(f"up to {_WITHIN_S} s", "up to 5 s")
    if code != 0:
        raise SystemExit(f"{command}: exit code {code}\n{output}")
    return Shown(command, output, time.monotonic() - begun)


def _all_of(terminal: int) -> Iterator[bytes]:
    """What is printed until nobody has the other end any more."""
    with open(terminal, "rb", buffering=0) as reader:
        while True:
            try:
                part = reader.read(65536)
            except OSError:  # so Linux says that it is over
                return
            if not part:
                return
            yield part


def _replaced(text: str, ports: dict[str, str]) -> str:
    return re.sub(r"(?<=localhost:)\d+", lambda found: ports.get(found[0], found[0]), text)


def _free_port(first: int, last: int) -> str:
    """With as many digits as the one that it stands for: tables keep their width."""
    for port in range(first + os.getpid() % 97, last, 97):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)
    raise SystemExit("no port is free")


# --- drawing
# --------------------------------------------------------------------------------------------------

_CHARACTER: Final = 7.8
_LINE: Final = 19
_GAP: Final = 0.5
"""Lines between what is printed and the next command."""
_MARGIN: Final = 20
_TOP: Final = 44
_LONGEST_S: Final = 1.6
_STYLE: Final = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
       fill: #1f2328; white-space: pre }
.frame { fill: #f6f8fa; stroke: #d0d7de } .dot { fill: #d0d7de }
.prompt { fill: #1a7f37 } .command { font-weight: 600 } .heading { fill: #0550ae }
.error { fill: #9a6700 }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d7e0 } .frame { fill: #0d1117; stroke: #3d444d } .dot { fill: #3d444d }
  .prompt { fill: #3fb950 } .heading { fill: #79c0ff } .error { fill: #d29922 }
}
@keyframes appear { from { opacity: 0 } to { opacity: 1 } }
g { animation: appear 0.1s both }
@media (prefers-reduced-motion: reduce) { g { animation: none } }
""".strip()


def drawn(shown: list[Shown]) -> str:
    """The picture as SVG, which refers to nothing outside of it."""
    rows, body, second = 0.0, [], 0.4
    for command, output, seconds in shown:
        body.append(_group(second, [_command(command, _y(rows))]))
        rows += 1
        lines = list(_lines(output))
        second += 0.5
        if lines:
            second += min(seconds, _LONGEST_S)
            drawings = [_line(line, _y(rows + number)) for number, line in enumerate(lines)]
            body.append(_group(second, drawings))
            rows += len(lines) + _GAP
            second += 0.7
    width, height = round(COLUMNS * _CHARACTER) + 2 * _MARGIN, _y(rows - _GAP) + 4
    dots = "".join(f'<circle class="dot" cx="{x}" cy="20" r="5"/>' for x in (22, 40, 58))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            "<title>A cluster is started, a message sent, received and looked up</title>",
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="frame" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" '
            'rx="8"/>',
            dots,
            *body,
            "</svg>\n",
        ]
    )


def _y(row: float) -> int:
    return round(_TOP + 14 + row * _LINE)


def _group(second: float, drawings: list[str]) -> str:
    inside = "\n".join(drawings)
    return f'<g style="animation-delay: {second:.1f}s">\n{inside}\n</g>'


def _command(command: str, y: int) -> str:
    return _words("$", 0, y, "prompt") + _words(command, 2, y, "command")


def _lines(output: str) -> Iterator[Text]:
    """As the terminal has them in the end: progress that was wiped out is not there, and long ones
    go on in the next line."""
    for line in output.replace("\r\n", "\n").rstrip("\n").split("\n") if output.strip() else ():
        text = Text.from_ansi(line.rpartition("\r\x1b[K")[2])
        starts = range(0, max(len(text), 1), COLUMNS)
        yield from (text[start : start + COLUMNS] for start in starts)


def _line(line: Text, y: int) -> str:
    """The words of a line, each run of one style at its column."""
    kind = "error" if re.match(r"mqadmin \w+: ", line.plain) else ""
    spans = line.spans or []
    heading = any(span.style and "bold" in str(span.style) for span in spans)
    return _words(line.plain, 0, y, "heading" if heading else kind)


def _words(text: str, column: int, y: int, kind: str) -> str:
    """Where the font has other widths, columns still stand below each other."""
    return "".join(
        f"<text{f' class={chr(34)}{kind}{chr(34)}' if kind else ''} "
        f'x="{_MARGIN + (column + found.start()) * _CHARACTER:.1f}" y="{y}" '
        f'textLength="{len(found[0]) * _CHARACTER:.1f}">{escape(found[0], quote=False)}</text>'
        for found in re.finditer(r"\S+(?: \S+)*", text)
    )


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shown = record(str(Path(sys.executable).parent), Path(folder))
    target.write_text(drawn(shown), encoding="utf-8")
    sys.stdout.write(f"{target} written\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
