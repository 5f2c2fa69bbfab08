"""
Where the server is: what a URL says of hosts, database, login and TLS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from anarchon.errors import InvalidOptionError
from anarchon.registry import split_url

__all__ = ["Address", "read_address"]

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_SCHEMES: Final = ("redis", "rediss", "unix")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """
    The servers that a URL names, and how to get in.

    ``hosts`` are several for Cluster and Sentinel, and none with a Unix socket,
    whose ``path`` is set instead.
    """

    hosts: tuple[tuple[str, int], ...] = ()
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False

    @property
    def shown(self) -> str:
        """
        The place in words, without the password.
        """
        if self.path is not None:
            return f"{self.path}/{self.db}"
        hosts = ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts
        )
        return f"{'rediss' if self.tls else 'redis'}://{hosts}/{self.db}"


def read_address(url: str, *, db: int | None = None, sentinel: bool = False) -> Address:
    """
    Read ``redis://user:password@host:port/db``, ``rediss://…`` or ``unix:///path``.

    Args:
        url: The URL, without a query. Cluster and Sentinel may name several hosts,
            separated by commas.

        db: The number of the database, if the URL does not say it.

        sentinel: The hosts are those of Sentinels, which listen on another port.

    Raises:
        InvalidOptionError: The URL cannot be read; the message leaves the login out.
    """
    text: object = url  # callers without a type checker hand in anything
    if not isinstance(text, str):
        msg = f"the URL of the server must be a str, not {url!r}"
        raise InvalidOptionError(msg)
    parts = split_url(url)
    if parts.scheme not in _SCHEMES or parts.fragment or parts.query:
        msg = (
            f"the URL of the server must be redis://host:port/db, rediss://host:port/db or unix:///path,"
            f" not of scheme {parts.scheme!r}; options are keyword arguments here, and parameters in"
            " backend_from_url()"
        )
        raise InvalidOptionError(msg)
    login, _, place = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    username, secret = unquote(user) or None, unquote(password) or None
    if parts.scheme == "unix":
        if place or parts.path in ("", "/"):
            msg = "the URL of a Unix socket must be unix:///path/of/socket (three slashes, no host)"
            raise InvalidOptionError(msg)
        return Address(
            path=unquote(parts.path), db=_checked_db(db), username=username, password=secret
        )
    port = _SENTINEL_PORT if sentinel else _PORT
    return Address(
        hosts=tuple(_host(each, port) for each in place.split(",")),
        db=_db(parts.path, db),
        username=username,
        password=secret,
        tls=parts.scheme == "rediss",
    )


def _host(text: str, default_port: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port:
        host, port = text, str(default_port)
    host = host.removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        msg = f"host {text!r}: the port must be a number from 1 to 65535"
        raise InvalidOptionError(msg)
    return host or "localhost", int(port)


def _db(path: str, given: int | None) -> int:
    text = path.strip("/")
    if not text:
        return _checked_db(given)
    if not text.isascii() or not text.isdigit():
        msg = f"the URL's path must be the number of a database, not {path!r}"
        raise InvalidOptionError(msg)
    if given is not None and given != int(text):
        msg = f"the URL says database {text}, and the option db says {given}"
        raise InvalidOptionError(msg)
    return _checked_db(int(text))


def _checked_db(db: int | None) -> int:
    number: object = 0 if db is None else db
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
        msg = f"db must be the number of a database, not {db!r}"
        raise InvalidOptionError(msg)
    return number
