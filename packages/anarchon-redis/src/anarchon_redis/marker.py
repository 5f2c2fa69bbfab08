"""
The marker of a prefix: strategies keep claims in different places, and must never share one.
"""

from __future__ import annotations

from anarchon.errors import ProtocolVersionError, StoreRefusedError
from anarchon_redis.keys import Keys
from anarchon_redis.options import Options
from anarchon_redis.wire import Wire

__all__ = ["LAYOUT", "check_marker", "read_marker"]

LAYOUT = 1
"""
The version of how keys are laid out.
"""


async def check_marker(wire: Wire, keys: Keys, options: Options, where: str) -> None:
    """
    Leave a marker under the prefix, or read the one that is there.

    Raises:
        StoreRefusedError: Another strategy has this prefix.

        ProtocolVersionError: Another version of this distribution has laid it out.
    """
    _compare(await wire.set_if_absent(keys.marker, _mine(options)), keys, options, where)


async def read_marker(wire: Wire, keys: Keys, options: Options, where: str) -> None:
    """
    Look at the marker that is there; leave none.

    Raises:
        StoreRefusedError, ProtocolVersionError: As check_marker() does.
    """
    _compare(await wire.command("GET", keys.marker), keys, options, where)


def _mine(options: Options) -> str:
    return f"{LAYOUT} {options.strategy}"


def _compare(found: bytes | None, keys: Keys, options: Options, where: str) -> None:
    told = _mine(options) if found is None else found.decode("utf-8", "replace")
    layout, _, strategy = told.partition(" ")
    if layout != str(LAYOUT):
        msg = (
            f"{where}: the keys under prefix {options.prefix!r} are laid out in version {layout!r}, and this"
            f" anarchon-redis reads version {LAYOUT}; upgrade it, or use another prefix"
        )
        raise ProtocolVersionError(msg)
    if strategy != options.strategy:
        msg = (
            f"{where}: prefix {options.prefix!r} belongs to strategy {strategy!r}, and two strategies on one"
            f" prefix would each have a winner; use another prefix, or delete {keys.marker!r} once nobody uses it"
        )
        raise StoreRefusedError(msg)
