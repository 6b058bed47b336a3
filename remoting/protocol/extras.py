"""What the package does only with packages that an extra brings: one form of the advice."""

from __future__ import annotations

import sys

__all__ = ["install_command"]


def install_command(extra: str) -> str:
    """Installs what an extra names, for the Python that runs, whichever environment is active:
    where this package came from an index, a wheel or a clone, editable or not, it is there already,
    and only what is missing is fetched."""
    return f"{sys.executable or 'python'} -m pip install 'aiorocketmq[{extra}]'"
