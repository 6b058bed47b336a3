"""What producers and consumers of OpenMessaging have in common: their properties, their errors."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from ...remoting.errors import RocketMQError
from ..errors import MessageError, NoRouteError
from .messages import (
    KeyValue,
    MessageFormatError,
    OMSError,
    OMSTimeout,
    PropertyKeys,
)

Properties = Mapping[str, str] | None
R = TypeVar("R")
_numbers = itertools.count()


async def in_words_of_oms(work: Awaitable[R]) -> R:
    """The result; errors in the words of OpenMessaging."""
    try:
        return await work
    except MessageError as error:
        raise MessageFormatError(str(error)) from error
    except TimeoutError as error:
        raise OMSTimeout(str(error)) from error
    except NoRouteError as error:
        raise OMSError(f"the topic does not exist: {error}") from error
    except RocketMQError as error:
        raise OMSError(str(error)) from error


def name_servers_of(properties: KeyValue) -> Sequence[str]:
    return properties[PropertyKeys.ACCESS_POINTS].split(",")


def group_of(properties: KeyValue) -> str:
    group = properties.get(PropertyKeys.CONSUMER_GROUP)
    if not group:
        raise OMSError(f"a consumer needs its group: the property {PropertyKeys.CONSUMER_GROUP}")
    return group


def new_instance_name() -> str:
    return f"{os.getpid()}%OpenMessaging%{time.monotonic_ns() + next(_numbers)}"
