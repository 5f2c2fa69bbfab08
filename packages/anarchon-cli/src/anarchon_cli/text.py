"""
Text that is safe to show.
"""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """
    Write what a terminal would obey or hide as an escape, so that a job's name cannot move the cursor.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
