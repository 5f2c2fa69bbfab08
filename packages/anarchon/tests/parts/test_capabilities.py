"""
Capabilities, handlers and definitions as data: asked, demanded, refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from anarchon import Capabilities, InvalidJobError, UnsupportedByBackendError
from anarchon.handler import inspect_handler
from anarchon.job import JobSpec
from anarchon.jobs import JobDefinitions


def test_capabilities_are_asked_by_name() -> None:
    """
    There is no capability but those that are declared.
    """
    capabilities = Capabilities(leases=True)

    assert capabilities.offers("leases")
    assert not capabilities.offers("hints")
    with pytest.raises(KeyError, match="laeses"):
        capabilities.offers("laeses")


def test_capability_that_is_there_is_granted_and_another_refused_with_a_sentence() -> None:
    """
    The message says what needs it, what this backend is, and which backends have it.
    """
    capabilities = Capabilities(leases=True)
    capabilities.require("leases", needed_for="it", backend="Mine", alternatives="Others do.")
    with pytest.raises(
        UnsupportedByBackendError,
        match=r"^it needs a backend with hints; Mine has none\. Others do\.$",
    ):
        capabilities.require("hints", needed_for="it", backend="Mine", alternatives="Others do.")


class Job:
    """
    A class that takes a context: calling it makes an object.
    """

    def __init__(self, ctx: object) -> None:
        self.ctx = ctx


class Opaque:
    """
    A callable that tells no signature.
    """

    __signature__ = "none"

    def __call__(self, *args: Any) -> Any:
        """
        Give back what came in.
        """
        return args


def test_class_may_be_a_handler() -> None:
    """
    It is called with the context, in a thread.
    """
    call = inspect_handler("job", Job)

    assert (True, False) == (call.wants_context, call.is_async)
    context: Any = object()

    assert context is call(context).ctx


def test_callable_without_a_signature_is_given_the_context() -> None:
    """
    Some builtins tell none.
    """
    call = inspect_handler("job", Opaque())
    context: Any = object()

    assert (context,) == call(context)


def test_name_of_a_handler_without_one_is_its_representation() -> None:
    """
    The message of an object that fits nothing still says which it is.
    """

    class Two:
        """
        Requires two.
        """

        def __call__(self, one: object, two: object) -> None:
            """
            Require two.
            """

    with pytest.raises(
        InvalidJobError, match=r"the handler <.*Two object at .*> requires the parameters one, two"
    ):
        inspect_handler("job", Two())


def test_definitions_alone_take_no_jobs_in() -> None:
    """
    A scheduler and a collection do; what they share does not.
    """
    with pytest.raises(TypeError, match="JobDefinitions takes no jobs in: 'job'"):
        JobDefinitions().every("job", "1s", print)
    spec = JobSpec.__slots__

    assert "handler" in spec
