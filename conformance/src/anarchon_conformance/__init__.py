"""
Judge a backend for anarchon, clause by clause.

A backend's author writes one `BackendProfile` and runs ``pytest --pyargs anarchon_conformance``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anarchon_conformance.profile import BackendProfile as BackendProfile
    from anarchon_conformance.running import ClauseRun as ClauseRun
    from anarchon_conformance.running import run_clause as run_clause

__all__ = ["BackendProfile", "ClauseRun", "run_clause"]

_HOMES = {"BackendProfile": "profile", "ClauseRun": "running", "run_clause": "running"}


def __getattr__(name: str) -> object:
    """
    Load a public name when it is asked for.

    Every pytest run on a machine imports this package through the plug-in, so that
    it must not import more than it has to.
    """
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(f"{__name__}.{home}"), name)
