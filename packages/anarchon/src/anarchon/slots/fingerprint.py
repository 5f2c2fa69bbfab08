"""
Fingerprints: what the definition of a schedule comes down to.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

__all__ = ["RULES_VERSION", "fingerprint"]

RULES_VERSION: Final = 1
"""
The version of the rules in specs/slots.md; it rises when a rule gives other slots.
"""


def fingerprint(kind: str, **facts: object) -> str:
    """
    Digest what decides the slots of a schedule: SHA-256 in hexadecimal digits.

    The facts are written as JSON with sorted keys and no blanks, which any
    language can repeat (specs/slots.md, Fingerprints).
    """
    text = json.dumps(
        {"rules": RULES_VERSION, "kind": kind, **facts}, sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()
