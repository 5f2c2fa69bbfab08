"""
What can go wrong with a server for tests, in three kinds.
"""

from __future__ import annotations

__all__ = ["NotOurServerError", "ServerFailedError", "ServerUnavailableError", "TestbedError"]


class TestbedError(Exception):
    """
    Something about a server for tests went wrong.
    """

    __test__ = False  # pytest would take the name for a test.


class ServerUnavailableError(TestbedError):
    """
    This machine has no such server. The message says where it was looked for and how to get it.
    """


class ServerFailedError(TestbedError):
    """
    A server did not start, or ended, or stayed silent. The message ends with the last lines of its log.
    """


class NotOurServerError(TestbedError):
    """
    The server was given by a URL: whoever started it may freeze, kill and restart it, the testbed may not.
    """
