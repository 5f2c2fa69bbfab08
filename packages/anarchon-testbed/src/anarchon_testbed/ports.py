"""
A free port of the loopback address for a server.
"""

from __future__ import annotations

import random
import socket

__all__ = ["HOST", "free_port"]

HOST = "127.0.0.1"

_LOWEST = 10_000
_HIGHEST = 22_000
"""
Below the ports that the system hands to clients: one that tries to reach a server which is down may else be given that
very port and connect to itself. And 10,000 more is a port too, where a cluster's nodes meet.
"""

_TRIES_MAX = 200


def free_port() -> int:
    """
    Find a port that nobody listens on now. Somebody may before the server does: a start is tried on several ports.
    """
    draw = random.SystemRandom()
    for _ in range(_TRIES_MAX):
        port = draw.randrange(_LOWEST, _HIGHEST)
        with socket.socket() as probe:
            # As servers do: a port whose last connections only wait to be forgotten is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {_LOWEST} and {_HIGHEST} in {_TRIES_MAX} tries")
