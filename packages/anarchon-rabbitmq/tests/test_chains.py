"""
What a client raises may stand in a circle.
"""

from __future__ import annotations

from aiormq.exceptions import AMQPConnectionError as ClientError

from anarchon import StoreUnavailableError
from anarchon_rabbitmq.trouble import store_error


def test_an_error_that_is_its_own_cause_is_trouble_like_any_other() -> None:
    """
    An effect is raised from a cause that was itself raised while the effect was handled: the walk along them ends.

    Found by the scenario store-crash of chaos, on RabbitMQ: the event loop of every instance stood still for ever.
    """
    cause, effect = OSError("reset by peer"), ClientError("the connection is gone")
    effect.__cause__, cause.__context__ = cause, effect

    trouble = store_error(effect, "the store")

    assert StoreUnavailableError is type(trouble)
    assert "the connection is gone" in str(trouble)
