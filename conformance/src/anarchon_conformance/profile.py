"""
What the author of a backend writes: one value that tells the kit how to open it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from anarchon.backend import Backend
from anarchon.records import Retention

__all__ = [
    "BackendProfile",
    "Line",
    "LineOpener",
    "Loss",
    "Opener",
    "ProfileError",
    "Proxy",
    "ProxyOpener",
]


class ProfileError(ValueError):
    """
    A profile says something that cannot be meant.
    """


class Opener(Protocol):
    """
    Opens a client of a namespace.

    Each call gives a new client with a connection of its own. The same namespace
    is the same state, another one shares nothing with it. Leaving the context
    closes the client and deletes nothing. The kit calls it many times at once, from
    several event loops and, where the declared reach allows it, from processes.
    """

    def __call__(
        self, namespace: str, /, *, retention: Retention | None = None
    ) -> AbstractAsyncContextManager[Backend]:
        """
        Return an async context manager that gives an open backend.
        """


class Loss(Protocol):
    """
    Loses the next request to the store, or the next reply from it.
    """

    def lose_request(self) -> None:
        """
        Let the next request vanish before the store sees it.
        """

    def lose_reply(self) -> None:
        """
        Let the store commit the next request, and let its reply vanish.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """
    A client whose connection runs through something that loses messages on demand.
    """

    backend: Backend
    loss: Loss


ProxyOpener = Callable[[str], AbstractAsyncContextManager[Proxy]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """
    A client whose store can fall silent.

    After ``fall_silent()`` the store answers nothing any more, and nobody tells the
    client so: connections stay open, new ones are taken or not, as it comes. Leaving
    the context ends the silence.
    """

    backend: Backend
    fall_silent: Callable[[], None]


LineOpener = Callable[[str], AbstractAsyncContextManager[Line]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendProfile:
    """
    One backend as the kit sees it.

    Args:
        name: What the certificate calls it.

        open: See Opener.

        service: The server in words, or a function that tells it. By default
            what the backend itself says.

        time_scale: Stretches every wait of the kit, for a store that is slow.

        waivers: Clauses that are known to fail, each with the reason. A waiver that
            is no longer needed is an error.

        proxy: Opens a client whose messages can be lost; None if there is none.

        line: Opens a client whose store can fall silent; None if there is none.

        endpoint: Host and port of a namespace's server, for tests that put a proxy
            of their own between.

        origin: Where a spawned process finds this profile: the name of an entry
            point or MODULE:ATTRIBUTE. The kit fills it in when it loads a profile.

    Raises:
        ProfileError: An argument cannot be meant.
    """

    name: str
    open: Opener
    service: str | Callable[[], str] | None = None
    time_scale: float = 1.0
    waivers: Mapping[str, str] = field(default_factory=dict)
    proxy: ProxyOpener | None = None
    line: LineOpener | None = None
    endpoint: Callable[[str], tuple[str, int]] | None = None
    origin: str = ""

    def __post_init__(self) -> None:
        name: Any = self.name  # callers without a type checker hand in anything
        if not isinstance(name, str) or not name.strip():
            msg = f"a profile's name is a text that is not empty, not {name!r}"
            raise ProfileError(msg)
        opener: Any = self.open
        if not callable(opener):
            msg = f"profile {name!r}: open is an async context manager function, not {opener!r}"
            raise ProfileError(msg)
        if not 0 < self.time_scale < float("inf"):
            msg = f"profile {name!r}: time_scale is a number above 0, not {self.time_scale!r}"
            raise ProfileError(msg)
        for clause, reason in self.waivers.items():
            text: Any = reason
            if not isinstance(text, str) or not text.strip():
                msg = f"profile {name!r}: the waiver of {clause} needs its reason in words"
                raise ProfileError(msg)
