"""
What a handler is, judged on what it is; and how it is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from anarchon.context import RunContext
from anarchon.errors import InvalidJobError

__all__ = ["Handler", "HandlerCall", "inspect_handler"]

_CALL = "__call__"

Handler: TypeAlias = Callable[[RunContext], object] | Callable[[], object]
"""
A function of one RunContext or of nothing, plain or async.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerCall:
    """
    A handler with what is known of it before it is called.

    ``is_async`` says that calling it only makes a coroutine, so that it is called
    on the event loop; a plain function is called in a worker thread, and what it
    returns is awaited on the loop if it is awaitable.
    """

    function: Callable[..., Any]
    wants_context: bool
    is_async: bool

    def __call__(self, context: RunContext) -> Any:
        """
        Call the handler as its signature asks for.
        """
        return self.function(context) if self.wants_context else self.function()


def inspect_handler(job: str, function: object) -> HandlerCall:
    """
    Look at a handler once, when its job is defined.

    Raises:
        InvalidJobError: It is not callable, is an async generator, or its
            signature fits neither a RunContext nor nothing.
    """
    if not callable(function):
        msg = f"job {job!r}: a handler must be callable with a RunContext or with nothing; got {function!r}"
        raise InvalidJobError(msg)
    core: Any = function
    while isinstance(core, functools.partial):
        core = core.func
    called = core if inspect.isroutine(core) else getattr(core, _CALL, core)
    if inspect.isasyncgenfunction(called) or inspect.isgeneratorfunction(called):
        msg = (
            f"job {job!r}: the handler {_name(core)} is a generator function, whose body would never run;"
            " use a plain or an async function"
        )
        raise InvalidJobError(msg)
    if inspect.isclass(core):
        called = core
    return HandlerCall(
        function=function,
        wants_context=_wants_context(job, function),
        is_async=inspect.iscoroutinefunction(core) or inspect.iscoroutinefunction(called),
    )


def _wants_context(job: str, function: Callable[..., Any]) -> bool:
    """
    Say whether the handler takes the RunContext.

    A parameter with a default stays at it: ``lambda item=item: …`` in a loop is a
    handler of nothing.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True  # A builtin that tells no signature is given the context.
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in positional if p.default is p.empty]
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(required) > 1 or keywords:
        names = ", ".join([*required, *keywords])
        msg = (
            f"job {job!r}: the handler {_name(function)} requires the parameters {names};"
            " a handler takes one RunContext, or nothing"
        )
        raise InvalidJobError(msg)
    return bool(required) or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _name(function: object) -> str:
    return getattr(function, "__qualname__", repr(function))
