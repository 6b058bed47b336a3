"""What older versions of Spark cannot do: a line that says so, before anything fails in their own
code.

====  =======================================================================================
4.0   knows Python data sources: batch reads, batch writes
4.1   hands the rows of a stream to a sink as Arrow
4.2   asks a stream how much it wants to read (``pyspark.sql.streaming.datasource``); reads
      JSON out of a DataFrame
====  =======================================================================================
"""

from __future__ import annotations

import re
from typing import Final

from ...client.errors import ConfigError

__all__ = ["OLDEST_FOR_STREAM_READS", "OLDEST_FOR_STREAM_WRITES", "is_older", "problem_with"]

OLDEST_FOR_STREAM_WRITES: Final = (4, 1)
OLDEST_FOR_STREAM_READS: Final = (4, 2)


def is_older(than: tuple[int, int], version: str | None = None) -> bool:
    """Whether this Spark (or ``version``) is; one that has no number is not.

    >>> is_older((4, 2), "4.1.4"), is_older((4, 2), "4.10.0.dev1")
    (True, False)
    """
    numbers = re.match(r"(\d+)\.(\d+)", version or _this())
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < than


def problem_with(
    what: str, oldest: tuple[int, int], version: str | None = None
) -> ConfigError | None:
    """Why ``what`` is not possible with this Spark (or ``version``); None when it is.

    >>> print(problem_with("readStream", (4, 2), "4.1.4"))
    readStream needs Spark 4.2 or newer, this is 4.1.4
    """
    if not is_older(oldest, version):
        return None
    needed = f"{oldest[0]}.{oldest[1]} or newer"
    return ConfigError(f"{what} needs Spark {needed}, this is {version or _this()}")


def _this() -> str:
    import pyspark

    return str(pyspark.__version__)
