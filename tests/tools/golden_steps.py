"""What ``mqadmin`` of the original printed, step by step, out of ``client-clean.out.txt``."""

import re

from ..golden_files import golden_bytes

_STEP = re.compile(r"### ([^\n]*)\n")


def golden_steps() -> dict[str, str]:
    """Step name to everything printed until the next step; skips the caller without the whole set
    of captured files."""
    text = golden_bytes("client-clean.out.txt").decode()
    # A callback of the client under test printed into the middle of a table.
    text = re.sub(r"^CHECK MessageExt .*\n", "", text, flags=re.MULTILINE)
    names = _STEP.findall(text)
    return dict(zip(names, _STEP.split(text)[2::2], strict=True))


def step(name: str) -> str:
    """The output of one command, ``mqadmin`` left out of its name."""
    return golden_steps()[f"mqadmin {name}"]
