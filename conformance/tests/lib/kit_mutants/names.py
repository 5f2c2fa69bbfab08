"""
Backends that take one name, namespace, label or slot for another.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any

from anarchon.backend import ClaimAnswer, ClaimRequest
from anarchon.protocol import Change, Now
from kit_mutants.base import Sound, State, trips


@trips("NAM-1")
class FoldsCase(Sound):
    """
    Names that differ in case are one job.
    """

    def key(self, job: str) -> str:
        return job.casefold()


@trips("NAM-1")
class NormalisesNames(Sound):
    """
    Names that differ in their Unicode form are one job.
    """

    def key(self, job: str) -> str:
        return unicodedata.normalize("NFC", job)


@trips("NAM-1")
class StripsNames(Sound):
    """
    Names that differ in blanks are one job.
    """

    def key(self, job: str) -> str:
        return job.strip()


@trips("NAM-2")
class CutsNames(Sound):
    """
    A name that is too long is cut, and is then another's.
    """

    def key(self, job: str) -> str:
        limit = self.capabilities.name_bytes_max
        return job.encode()[:limit].decode(errors="ignore")


@trips("NAM-3")
class IgnoresNamespaces(Sound):
    """
    Every prefix is the same one.
    """

    @staticmethod
    def store_key(namespace: str) -> object:
        return None


@trips("NAM-4")
class AsciiLabels(Sound):
    """
    An instance id loses what is not ASCII.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        label = request.instance_id.encode("ascii", "replace").decode()
        return super().on_claim(state, replace(request, instance_id=label), now)


@trips("NAM-5")
class CountsSlotsInSeconds(Sound):
    """
    Slots within one second are one run.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        cut: Any = replace(request, slot=request.slot // 1_000 * 1_000)
        return super().on_claim(state, cut, now)
