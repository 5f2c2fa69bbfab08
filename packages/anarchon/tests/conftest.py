"""
Async tests run without a plug-in: with the fixture `world` on virtual time, without it on a real loop.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest
from hypothesis import settings
from virtual import World

# A busy machine may take long for an example, the first one of a time zone above all; that is no failure.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")


@pytest.fixture
def world() -> World:
    """
    Make a store, a time and room for instances.
    """
    return World()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """
    Run an async test.
    """
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    story = function(**arguments)
    world = arguments.get("world")
    if isinstance(world, World):
        world.run(story)
    else:
        asyncio.run(story)
    return True
