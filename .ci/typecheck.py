"""mypy --strict over the installed copy in .typecheck, with the paths of the repository in its
messages."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def copied_folders(package_dir: dict[str, str]) -> list[tuple[str, str]]:
    """(folder in the copy, folder in the repository), the most specific first."""
    pairs = [
        (f".typecheck/{name.replace('.', '/')}/", f"{folder}/")
        for name, folder in package_dir.items()
    ]
    return sorted(pairs, key=lambda pair: -len(pair[0]))


def main() -> int:
    folders = copied_folders(
        tomllib.loads(PYPROJECT.read_text())["tool"]["setuptools"]["package-dir"]
    )
    command = [sys.executable, "-m", "mypy", *sys.argv[1:]]
    result = subprocess.run(
        command, cwd=PYPROJECT.parent, stdout=subprocess.PIPE, text=True, check=False
    )
    for line in result.stdout.splitlines():
        found = next((pair for pair in folders if line.startswith(pair[0])), None)
        print(re.sub(re.escape(found[0]), found[1], line, count=1) if found else line)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
