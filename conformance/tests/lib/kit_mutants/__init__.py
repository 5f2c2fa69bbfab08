"""
Deliberately broken backends, one fault each: what the conformance kit has to find out.

A clause that none of them trips is not yet a check.
"""

from __future__ import annotations

from kit_mutants import (
    batches,
    claim_only,
    claims,
    closing,
    histories,
    lives,
    names,
    overlaps,
    registrations,
    takeovers,
)
from kit_mutants.base import MUTANTS, Mutant, Sound, SoundClaimOnly, SoundForgetful, profile_of
from kit_mutants.lives import LosesHints

__all__ = [
    "MUTANTS",
    "LosesHints",
    "Mutant",
    "Sound",
    "SoundClaimOnly",
    "SoundForgetful",
    "profile_of",
]

FAMILIES = (
    batches,
    claim_only,
    claims,
    closing,
    histories,
    lives,
    names,
    overlaps,
    registrations,
    takeovers,
)
"""
The modules that define mutants; importing them fills the list.
"""
