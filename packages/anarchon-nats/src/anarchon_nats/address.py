"""
Where the servers are: what URLs say of hosts, logins and TLS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from anarchon.errors import InvalidOptionError

__all__ = ["Address", "read_addresses"]

_PORT: Final = 4222
_SCHEMES: Final = ("nats", "tls")
_FORM: Final = "nats://host:port or tls://host:port, several separated by commas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """
    One server. A login without a password is a token.
    """

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: bool = False

    @property
    def shown(self) -> str:
        """
        The place in words, without the login.
        """
        return f"{'tls' if self.tls else 'nats'}://{self.place}"

    @property
    def place(self) -> str:
        """
        Host and port.
        """
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_addresses(url: str | Sequence[str]) -> tuple[Address, ...]:
    """
    Read ``nats://user:password@host:port``, ``nats://token@host:port`` or ``tls://…``.

    Several servers of one cluster are separated by commas, or stand in a list. One that
    says no scheme has that of the first, and one that says no login has the first's.

    Raises:
        InvalidOptionError: A URL cannot be read; the message leaves the login out.
    """
    given: object = url  # callers without a type checker hand in anything
    texts = [url] if isinstance(url, str) else list(url) if isinstance(given, Sequence) else []
    if not texts or not all(isinstance(each, str) for each in texts):
        msg = f"the servers must be a URL or a list of URLs ({_FORM}), not {type(given).__name__}"
        raise InvalidOptionError(msg)
    parts = [part.strip() for text in texts for part in text.split(",")]
    first = _address(parts[0], None)
    return (first, *(_address(part, first) for part in parts[1:]))


def _address(text: str, first: Address | None) -> Address:
    if first is not None and "://" not in text:
        text = f"{'tls' if first.tls else 'nats'}://{text}"
    try:
        parts = urlsplit(text)
    except ValueError as error:
        msg = f"a server's URL must be {_FORM}: {error}"
        raise InvalidOptionError(msg) from error
    if parts.scheme not in _SCHEMES:
        msg = f"a server's URL must be {_FORM}, not of scheme {parts.scheme!r}"
        raise InvalidOptionError(msg)
    if parts.path.strip("/") or parts.query or parts.fragment:
        msg = (
            f"a server's URL must be {_FORM}, and nothing behind it; options are keyword arguments here, and"
            " parameters in backend_from_url()"
        )
        raise InvalidOptionError(msg)
    tls = parts.scheme == "tls"
    if first is not None and first.tls is not tls:
        msg = "the servers of one cluster must all be nats:// or all tls://"
        raise InvalidOptionError(msg)
    login, at, place = parts.netloc.rpartition("@")
    host, port = _host(place)
    if not at and first is not None:
        return Address(
            host=host,
            port=port,
            username=first.username,
            password=first.password,
            token=first.token,
            tls=tls,
        )
    user, colon, password = login.partition(":")
    return Address(
        host=host,
        port=port,
        username=unquote(user) if colon else None,
        password=unquote(password) if colon else None,
        token=unquote(user) or None if not colon else None,
        tls=tls,
    )


def _host(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port:
        host, port = text, str(_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        msg = f"host {text!r}: the port must be a number from 1 to 65535"
        raise InvalidOptionError(msg)
    return host or "localhost", int(port)
