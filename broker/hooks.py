"""Your own code around every request (interface RPCHook).

``requestHooks=my.module:name;other.module:name`` names objects, or classes that are called without
arguments::

    class Audit:
        def before(self, ctx: Context, body: Body) -> Reply | None:
            '''Called before the handler; a Reply refuses the request. Raise RequestError for a code
            and a remark.'''

        def after(self, ctx: Context, reply: Reply) -> None:
            '''Called with the answer, also with one that comes later: that leaves whatever is
            raised here, which is logged.'''

Either method may be missing. They are called on the event loop: whatever blocks there stops the
broker. Without hooks nothing is called and nothing costs. The first ``before`` comes after the
access control.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from ..daemon.launch import SettingsError
from ..remoting.dispatch import Body, Context, Handler, Outcome, Reply
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.frames.frame import PREFIX_BYTES
from ..remoting.protocol.frames.serialization import decode_header

Before = Callable[[Context, Body], Reply | None]
After = Callable[[Context, Reply], None]


log: Final = logging.getLogger(__name__)


class HookError(SettingsError):
    """``requestHooks`` names something that cannot be used."""


class Hooks(NamedTuple):
    before: tuple[Before, ...] = ()
    after: tuple[After, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


def load_hooks(names: str) -> Hooks:
    """Import what the property names. Raises ``HookError``."""
    found = [_load(name.strip()) for name in names.split(";") if name.strip()]
    before = tuple(hook.before for hook in found if hasattr(hook, "before"))
    after = tuple(hook.after for hook in found if hasattr(hook, "after"))
    return Hooks(before, after)


def _load(name: str) -> Any:
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise HookError(f"requestHooks: {name!r} must be module:name")
    try:
        hook = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise HookError(f"requestHooks: {name!r} cannot be loaded: {error}") from error
    hook = hook() if inspect.isclass(hook) else hook
    if not any(callable(getattr(hook, method, None)) for method in ("before", "after")):
        raise HookError(f"requestHooks: {name!r} has neither before nor after")
    return hook


class _HookedContext(Context, gc=False):
    """A context that shows the answer to the hooks before it leaves."""

    hooks: Hooks = Hooks()

    def reply(self, reply: Reply | bytes) -> None:
        """The answer leaves whatever a hook raises: it was made already, and those of others may be
        behind it."""
        try:
            _show(self, reply, self.hooks)
        except Exception as error:  # noqa: BLE001 - somebody else's code; see the docstring
            self.connection.outages.occurs(
                log, ("hook", type(error).__name__), "a hook failed at the answer code=%d",
                self.code, level=logging.ERROR, exc_info=error,
            )  # fmt: skip
        Context.reply(self, reply)


def hooked(table: Mapping[RequestCode, Handler], hooks: Hooks) -> dict[RequestCode, Handler]:
    """The handlers with the hooks around them; the table as it is when there are none."""
    return {code: _hooked(handler, hooks) if hooks else handler for code, handler in table.items()}


def _hooked(handler: Handler, hooks: Hooks) -> Handler:
    if inspect.iscoroutinefunction(handler):
        slow = cast(Callable[..., Awaitable[Outcome]], handler)

        async def around_slow(request: Any, body: Body, ctx: Context) -> Outcome:
            refusal = _refusal(ctx, body, hooks)
            return _seen(refusal or await slow(request, body, ctx), ctx, hooks)

        return around_slow
    plain = cast(Callable[..., Outcome], handler)

    def around(request: Any, body: Body, ctx: Context) -> Outcome:
        refusal = _refusal(ctx, body, hooks)
        if refusal is not None:
            return _seen(refusal, ctx, hooks)
        return _seen(
            plain(request, body, _with_hooks(ctx, hooks) if hooks.after else ctx), ctx, hooks
        )

    return around


def _refusal(ctx: Context, body: Body, hooks: Hooks) -> Reply | None:
    for before in hooks.before:
        if (refusal := before(ctx, body)) is not None:
            return refusal
    return None


def _seen(outcome: Outcome, ctx: Context, hooks: Hooks) -> Outcome:
    if isinstance(outcome, (Reply, bytes)):
        _show(ctx, outcome, hooks)
    return outcome


def _show(ctx: Context, answer: Reply | bytes, hooks: Hooks) -> None:
    if isinstance(answer, bytes):  # made by a template: its fields are told as text
        command = decode_header(answer[4], answer[PREFIX_BYTES:])
        answer = Reply(command.code, remark=command.remark, ext_fields=command.ext_fields)
    if hooks.after and isinstance(
        answer.body, memoryview
    ):  # of a mapped file that has to be closed some day
        answer.body = bytes(answer.body)
    for after in hooks.after:
        after(ctx, answer)


def _with_hooks(ctx: Context, hooks: Hooks) -> Context:
    values = {name: getattr(ctx, name) for name in Context.__struct_fields__}
    return _HookedContext(**values, hooks=hooks)
