"""``python -m tests.golden.make_data``: makes ``data``, the small set, of the whole one (see
``tests/golden_files.py``).

Left out are the large store of a broker that was killed, what the original's tools printed, and
single frames: answers that refuse or explain (their remarks are texts of the original), and those
that name a folder of the machine of the capture.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections.abc import Iterator
from typing import Any, Final

from tests.golden_files import SMALL_SET, whole_set

WIRES: Final = ("json-wire.jsonl", "rocketmq-wire.jsonl", "v6-wire.jsonl")
AS_THEY_ARE: Final = (
    "json-ha.jsonl",
    "store-clean-master.tar",
    "store-clean-master.dump.jsonl",
    "store-clean-slave.tar",
    "store-clean-slave.dump.jsonl",
    "store-clean.manifest.jsonl",
    "store-ipv6-master.tar",
    "store-ipv6-master.dump.jsonl",
    "store-ipv6.manifest.jsonl",
)
CONFIGURATIONS: Final = ("conf/golden-json-master.conf", "conf/golden-v6-master.conf")
LIMIT_BYTES: Final = 300_000
"""For all files together."""

_NAME: Final = re.compile(r"[A-Z_]*")
"""A remark that is no text: the name of a result, ``FOUND``."""
FOLDER_OF_A_MACHINE: Final = re.compile(
    rb"(?<![A-Za-z0-9])/(?:tmp|root|home|work|var|usr|mnt|srv|Users)\b"
)


def is_free(frame: dict[str, Any]) -> bool:
    """Whether a captured frame may be given to everybody."""
    if frame["kind"] == "resp" and (
        frame["code"] != 0 or not _NAME.fullmatch(frame["header"].get("remark") or "")
    ):
        return False
    return not FOLDER_OF_A_MACHINE.search(bytes.fromhex(frame["hex"]))


def free_lines(wire: bytes) -> Iterator[bytes]:
    """Those of a captured ``*-wire.jsonl``."""
    return (line for line in wire.splitlines(keepends=True) if is_free(json.loads(line)))


def small_set() -> Iterator[tuple[str, bytes]]:
    """Names and contents. Raises ``FileNotFoundError`` without the whole set."""
    for name in (*WIRES, *AS_THEY_ARE):
        content = gzip.decompress((whole_set() / f"{name}.gz").read_bytes())
        yield name, b"".join(free_lines(content)) if name in WIRES else content
    for name in CONFIGURATIONS:
        yield name, (whole_set() / name).read_bytes()


def main() -> None:
    for name, content in small_set():
        path = SMALL_SET / (name if name in CONFIGURATIONS else f"{name}.xz")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            content
            if path.suffix != ".xz"
            else lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
        )
    print(
        f"{sum(path.stat().st_size for path in SMALL_SET.rglob('*') if path.is_file())} bytes in "
        f"{SMALL_SET}"
    )


if __name__ == "__main__":
    main()
