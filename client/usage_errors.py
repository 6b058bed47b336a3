"""Slips of a program, told in its own words: looked for when a client is made, or when something
has failed already. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from ..remoting.protocol.message.message import Message
from ..remoting.protocol.message.message_queue import MessageQueue
from ..remoting.protocol.message.topic_names import group_error, topic_error
from .errors import ConfigError

__all__ = [
    "check_handler",
    "check_plain",
    "check_several",
    "checked_group",
    "checked_topic",
    "chosen",
    "is_async",
    "message_problem",
    "positive",
    "queue_problem",
]

E = TypeVar("E", bound=Enum)


def checked_group(group: str) -> str:
    """The group name if it may be used. Raises ``ConfigError``."""
    _check_text("a group", group)
    if (why := group_error(group)) is not None:
        raise ConfigError(why)
    if group in ("DEFAULT_PRODUCER", "DEFAULT_CONSUMER"):
        raise ConfigError(
            f"the group name {group} is reserved; choose one that names what the program does"
        )
    return group


def checked_topic(topic: str) -> str:
    """The topic name if it may be used. Raises ``ConfigError``."""
    _check_text("a topic", topic)
    if (why := topic_error(topic)) is not None:
        raise ConfigError(why)
    return topic


def _check_text(what: str, name: object) -> None:
    if not isinstance(name, str):
        raise ConfigError(f"{what} has a name, which is text, not {_shown(name)}")


def number(name: str, value: float) -> float:
    """The value of an option that is one. Raises ``ConfigError`` naming it."""
    if not isinstance(value, (int, float)):
        raise ConfigError(f"{name} must be a number, not {value!r}")
    return value


def positive(name: str, value: float) -> float:
    """The value of an option that must be above zero. Raises ``ConfigError`` naming it."""
    if not number(name, value) > 0:
        raise ConfigError(f"{name} must be greater than 0, not {value!r}")
    return value


def chosen(name: str, value: E, kind: type[E]) -> E:
    """The value of an option that is one of an enum: its text would mean something else without a
    word. Raises ``ConfigError``."""
    if not isinstance(value, kind):
        choices = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise ConfigError(f"{name} is one of {choices}, not {value!r}")
    return value


def check_several(name: str, values: object) -> None:
    """Raises ``ConfigError`` for the value of an option that is not a list, a tuple or the like."""
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise ConfigError(f"{name} is a list, perhaps of one, not {_shown(values)}")


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await: a coroutine function, or an object whose
    ``__call__`` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  (not a question of being callable)
    )


def check_plain(what: str, function: Any) -> None:
    """Raises ``ConfigError`` for an ``async def``, which nobody would await."""
    if is_async(function):
        raise ConfigError(
            f"{what} is a plain function, which nobody awaits: def, not async def, for "
            f"{_shown(function)}"
        )


def check_handler(
    handler: object, what: str, *, arguments: int = 1, role: str = "a handler"
) -> None:
    """Raises ``ConfigError`` when it cannot be called with so many arguments: every message would
    fail, and end as a dead letter."""
    if not callable(handler):
        raise ConfigError(f"{role} is a function that takes {what}, not {_shown(handler)}")
    try:
        signature = inspect.signature(handler)
    except ValueError:  # some builtins have none
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as error:
        name = getattr(handler, "__name__", type(handler).__name__)
        raise ConfigError(
            f"{role} is called with {what} and nothing else, {name}{signature}: {error}"
        ) from None


def message_problem(message: object) -> str | None:
    """What keeps this from being sent whoever looks at it: it is no message, or something in it is
    of another type."""
    if not isinstance(message, Message):
        return f"what is sent is a Message(topic, body) or a list of them, not {_shown(message)}"
    wrong = [
        f"the {name} must be {text}, not {_shown(value)}"
        for name, value, text, good in (
            ("topic", message.topic, "text", isinstance(message.topic, str)),
            (
                "tags",
                message.tags,
                "one text",
                message.tags is None or isinstance(message.tags, str),
            ),
            (
                "delay_level",
                message.delay_level,
                "a whole number",
                isinstance(message.delay_level, int),
            ),
            ("flag", message.flag, "a whole number", isinstance(message.flag, int)),
        )
        if not good
    ]
    if not isinstance(message.keys, Iterable):
        wrong.append(f"keys are a list of texts, or one text, not {_shown(message.keys)}")
    else:
        wrong += [
            f"a key must be text, not {_shown(key)}"
            for key in message.keys
            if not isinstance(key, str)
        ]
    if not isinstance(message.properties, Mapping):
        wrong.append(f"the properties must be a dict, not {_shown(message.properties)}")
    else:
        texts = [each for pair in message.properties.items() for each in pair]
        wrong += [
            f"names and values of properties must be text, not {_shown(e)}"
            for e in texts
            if not isinstance(e, str)
        ]
    return wrong[0] if wrong else None


def queue_problem(queue: object, *, by_selector: bool = False) -> str | None:
    """That it is none: its number is not enough. ``by_selector``: the user's function has
    chosen it."""
    if isinstance(queue, MessageQueue) or (queue is None and not by_selector):
        return None
    if by_selector:
        return f"a selector chooses one of the queues, not {_shown(queue)}"
    return (
        "queue is a MessageQueue(topic, broker_name, queue_id), one of producer.queues(topic), "
        f"not {_shown(queue)}"
    )


def checked_queues(queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
    """What a consumer is told to do something with. Raises ``ConfigError``: a topic's name is not
    enough."""
    if isinstance(queues, Iterable) and not isinstance(queues, str):
        queues = tuple(queues)
        wrong = next((each for each in queues if not isinstance(each, MessageQueue)), None)
        if wrong is None:
            return queues
    else:
        wrong = queues
    raise ConfigError(
        "a queue is a MessageQueue(topic, broker_name, queue_id), one of consumer.assignment or of "
        f"await consumer.queues(topic), not {_shown(wrong)}"
    )


def checked_offsets(offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
    """What a consumer is told to commit. Raises ``ConfigError``."""
    if not isinstance(offsets, Mapping):
        raise ConfigError(
            "what is committed is a dict, the next offset to read for each queue, or without "
            f"arguments all that was handed out, not {_shown(offsets)}"
        )
    checked_queues(offsets)
    for offset in offsets.values():
        number("an offset", offset)
    return offsets


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:60] + '...'} ({type(value).__name__})"
