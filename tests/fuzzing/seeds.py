"""``python -m tests.fuzzing.seeds``: write the first inputs of every target into ``corpus``.

They come from our own encoders, so they change with these: run it when a format or a target does.
"""

from __future__ import annotations

import shutil

from .registry import CORPUS, PARSERS


def main() -> None:
    """The folders of targets that are no more go."""
    shutil.rmtree(CORPUS, ignore_errors=True)
    total = 0
    for parser in PARSERS.values():
        folder = CORPUS / parser.name
        folder.mkdir(parents=True)
        for number, data in enumerate(parser.seeds()):
            (folder / f"{number:03d}").write_bytes(data)
            total += len(data)
    print(f"{len(PARSERS)} targets, {total:,} bytes")


if __name__ == "__main__":
    main()
