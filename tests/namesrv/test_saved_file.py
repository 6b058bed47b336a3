"""A file that follows something in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiorocketmq.namesrv.saved_file import SavedFile


def test_saves_that_wait_for_each_other_are_one(tmp_path: Path) -> None:
    """A hundred changes at once write the file twice, and whoever was told so finds his own in
    it."""
    path = tmp_path / "file"
    lines: list[str] = []
    writes = 0

    def text() -> str:
        nonlocal writes
        writes += 1
        return "\n".join(lines)

    async def main() -> None:
        file = SavedFile(str(path), text)

        async def change(number: int) -> None:
            lines.append(str(number))
            await file.save()
            assert str(number) in path.read_text().split("\n")

        await asyncio.gather(*(change(number) for number in range(100)))
        assert writes == 2
        await change(100)
        assert writes == 3

    asyncio.run(main())


def test_a_save_that_failed_is_made_up_for_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.write_text("in the way")

    async def main() -> None:
        file = SavedFile(str(folder / "file"), lambda: "text")
        outcomes = await asyncio.gather(file.save(), file.save(), return_exceptions=True)
        assert all(isinstance(outcome, OSError) for outcome in outcomes)
        folder.unlink()
        await file.save()
        assert (folder / "file").read_text() == "text"

    asyncio.run(main())
