"""
Where the broker is: what a URL says of hosts, virtual host, login and TLS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from anarchon.errors import InvalidOptionError
from anarchon.registry import split_url

__all__ = ["Address", "read_address"]

_PORTS: Final = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """
    The nodes that a URL names, and how to get in. Any of ``hosts`` will do.
    """

    hosts: tuple[tuple[str, int], ...]
    vhost: str = "/"
    username: str = "guest"
    password: str = field(default="guest", repr=False)
    tls: bool = False

    @property
    def shown(self) -> str:
        """
        The place in words, without the login.
        """
        hosts = ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts
        )
        vhost = "" if self.vhost == "/" else f" (vhost {self.vhost!r})"
        return f"{'amqps' if self.tls else 'amqp'}://{hosts}{vhost}"


def read_address(url: str) -> Address:
    """
    Read ``amqp://user:password@host:port/vhost`` or ``amqps://…``.

    Args:
        url: The URL, without a query. A cluster's nodes are named with commas between
            them; a virtual host's name is percent-encoded.

    Raises:
        InvalidOptionError: The URL cannot be read; the message leaves the login out.
    """
    text: object = url  # callers without a type checker hand in anything
    if not isinstance(text, str):
        msg = f"the URL of the broker must be a str, not {url!r}"
        raise InvalidOptionError(msg)
    parts = split_url(url)
    if parts.scheme not in _PORTS or parts.fragment or parts.query:
        msg = (
            "the URL of the broker must be amqp://user:password@host:port/vhost or amqps://…, not of scheme"
            f" {parts.scheme!r}; options are keyword arguments here, and parameters in backend_from_url()"
        )
        raise InvalidOptionError(msg)
    login, _, place = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    path = parts.path.removeprefix("/")
    if "/" in path:
        msg = (
            f"the URL's path is the name of a virtual host, not {parts.path!r}; a slash within it is"
            " written %2F"
        )
        raise InvalidOptionError(msg)
    return Address(
        hosts=tuple(_host(each, _PORTS[parts.scheme]) for each in place.split(",")),
        # Without a path, and with an empty one, it is the virtual host that every broker has.
        vhost=unquote(path) or "/",
        username=unquote(user) if login else "guest",
        password=unquote(password) if login else "guest",
        tls=parts.scheme == "amqps",
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
