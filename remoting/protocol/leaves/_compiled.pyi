from typing import Any

BUILT_FROM: int

def __getattr__(name: str) -> Any:
    """The leaves have the types of their twins: see ``__init__``."""
