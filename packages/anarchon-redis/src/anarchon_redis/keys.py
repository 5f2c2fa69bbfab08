"""
The names of keys: injective in the job's name, and all keys of a job in one hash slot.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

__all__ = ["NAME_BYTES_MAX", "Keys"]

NAME_BYTES_MAX: Final = 255
"""
The longest name of a job, in bytes of UTF-8.
"""

# Cluster hashes what stands between the first brace and the next closing one. A brace of
# the job's own would end the tag early, so braces are encoded, and so is what encodes them.
_ENCODED = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Keys:
    """
    The keys under one prefix.

    Args:
        prefix: Checked by the options: no brace is in it, so that the first brace
            of a key is the one behind the prefix.
    """

    __slots__ = ("_stem", "index", "marker")

    def __init__(self, prefix: str) -> None:
        self._stem = f"{prefix}:{{"
        self.index = f"{prefix}:jobs"
        self.marker = f"{prefix}:strategy"

    def of(self, job: str, *names: str) -> tuple[str, ...]:
        """
        Name keys of a job.
        """
        stem = f"{self._stem}{self.encoded(job)}}}:"
        return tuple([stem + name for name in names])

    @staticmethod
    def encoded(job: str) -> str:
        """
        Write a name as it stands in keys and in the index of jobs.
        """
        if "{" in job or "}" in job or "%" in job:
            return job.translate(_ENCODED)
        return job

    @staticmethod
    def decoded(encoded: str) -> str:
        """
        Read a name as the index of jobs has it.
        """
        # Nothing but our own three escapes holds a percent sign.
        return unquote(encoded)
