"""
Find the profiles that a run names: entry points, or MODULE:ATTRIBUTE.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from anarchon_conformance.clauses import CLAUSES
from anarchon_conformance.profile import BackendProfile, ProfileError

__all__ = ["installed_profiles", "load_profile", "load_profiles"]

_GROUP = "anarchon.conformance"


def installed_profiles() -> dict[str, EntryPoint]:
    """
    Return the entry points of all profiles that are installed, by name.
    """
    points = sorted(entry_points(group=_GROUP), key=lambda point: point.name)
    return {point.name: point for point in points}


def load_profiles(chosen: Sequence[str], *, folder: str) -> list[BackendProfile]:
    """
    Load every profile that was chosen.

    Args:
        chosen: Names of entry points, or MODULE:ATTRIBUTE.

        folder: Where the run was started; modules are also found there.

    Raises:
        ProfileError: None was chosen, one cannot be loaded, or two have one name.
    """
    if not chosen:
        msg = (
            "no backend was chosen. Name one with --anarchon-backend=NAME|MODULE:ATTRIBUTE, or under"
            f" anarchon_backends in your pytest configuration. {_installed()}"
        )
        raise ProfileError(msg)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    profiles = [load_profile(name) for name in chosen]
    names = [profile.name for profile in profiles]
    for name in names:
        if names.count(name) > 1:
            msg = f"two of the chosen profiles are named {name!r}; each needs a name of its own"
            raise ProfileError(msg)
    return profiles


def load_profile(origin: str) -> BackendProfile:
    """
    Load one profile, and check its waivers against the clauses.

    Raises:
        ProfileError: It cannot be found, imported or understood.
    """
    module, colon, attribute = origin.partition(":")
    found: Any
    if colon:
        found = _imported(origin, module, attribute)
    else:
        point = installed_profiles().get(origin)
        if point is None:
            msg = f"no installed profile is named {origin!r}. {_installed()}"
            raise ProfileError(msg)
        module, _, attribute = point.value.partition(":")
        found = _imported(origin, module, attribute)
    profile = _understood(found, origin)
    unknown = [clause for clause in profile.waivers if clause not in CLAUSES]
    if unknown:
        msg = (
            f"profile {profile.name!r} waives {', '.join(unknown)}, which is no clause of this kit"
        )
        raise ProfileError(msg)
    return replace(profile, origin=origin)


def _imported(origin: str, module: str, attribute: str) -> Any:
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        msg = f"the profile {origin!r} cannot be imported: {type(error).__name__}: {error}"
        raise ProfileError(msg) from error
    return found


def _understood(found: Any, origin: str) -> BackendProfile:
    """
    Take a profile as it is, and make one of a bare `open`.
    """
    if isinstance(found, BackendProfile):
        return found
    if callable(found):
        name = origin.replace(":", "-")
        return BackendProfile(name=name, open=found)
    msg = f"{origin!r} is neither a BackendProfile nor a function that opens a backend: {found!r}"
    raise ProfileError(msg)


def _installed() -> str:
    names = ", ".join(installed_profiles()) or "none"
    return f"Installed: {names}."
