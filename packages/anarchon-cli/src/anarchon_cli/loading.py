"""
Find the scheduler that MODULE:SCHEDULER names.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from anarchon import Scheduler
from anarchon.errors import AnarchonError
from anarchon_cli.failing import CommandError, UsageError

__all__ = ["load_scheduler"]


def load_scheduler(target: str) -> Scheduler:
    """
    Import the module from the current folder or from what is installed, and return the scheduler.

    The attribute is a Scheduler, or a function without arguments that returns one;
    dots lead into objects, as in "app.jobs:services.scheduler".

    Raises:
        UsageError: There is no such module or attribute, or it is no scheduler.

        CommandError: The module or the function raised.

        AnarchonError: The module or the function defined something that cannot be.
    """
    name, _, attribute = target.partition(":")
    if not name or not attribute:
        msg = f"{target!r} names no scheduler: write MODULE:SCHEDULER, for example app.jobs:scheduler."
        raise UsageError(msg)
    if "/" in name or name.endswith(".py"):
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        msg = f"{name!r} is a file, and a module is named with dots: write {dotted}:{attribute}."
        raise UsageError(msg)
    value = _attribute(_module(name), attribute)
    if isinstance(value, Scheduler):
        return value
    if not callable(value):
        msg = f"{target!r} is no Scheduler and no function that returns one, but {_kind(value)}."
        raise UsageError(msg)
    return _made(value, target)


def _module(name: str) -> ModuleType:
    here = os.getcwd()  # noqa: PTH109 - the import system wants a text
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            msg = f"there is no module {name!r}, neither in {here} nor among what is installed."
            raise UsageError(msg) from error
        msg = f"module {name!r} cannot be imported: it needs {missing!r}, which is not installed."
        raise CommandError(msg) from error
    except AnarchonError:
        raise
    except Exception as error:
        msg = f"module {name!r} cannot be imported: {_told(error)}"
        raise CommandError(msg) from error


def _attribute(module: ModuleType, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            there = [name for name, found in vars(module).items() if isinstance(found, Scheduler)]
            hint = f"schedulers there: {', '.join(there)}" if there else "it has no scheduler"
            msg = f"module {module.__name__!r} has no attribute {path!r}; {hint}."
            raise UsageError(msg) from None
    return value


def _made(function: Callable[..., object], target: str) -> Scheduler:
    """
    Call a function that returns a scheduler.
    """
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        msg = f"{target!r} is no Scheduler, and cannot be called without arguments to return one."
        raise UsageError(msg) from error
    try:
        value = function()
    except AnarchonError:
        raise
    except Exception as error:
        msg = f"{target!r} returned no scheduler: {_told(error)}"
        raise CommandError(msg) from error
    if inspect.iscoroutine(value):
        value.close()
        msg = f"{target!r} is an async function; a plain one that returns a Scheduler is needed."
        raise UsageError(msg)
    if not isinstance(value, Scheduler):
        msg = f"{target!r} returned no Scheduler, but {_kind(value)}."
        raise UsageError(msg)
    return value


def _kind(value: object) -> str:
    return f"an object of type {type(value).__qualname__}"


def _told(error: Exception) -> str:
    """
    Say what was raised and where.
    """
    what = f"{type(error).__qualname__}: {error}"
    if isinstance(error, SyntaxError):  # Its message names the place already.
        return what
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{what} ({last.filename}, line {last.lineno}; --traceback shows all of it)"
