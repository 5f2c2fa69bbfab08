"""
The names of streams and subjects: injective in the prefix and in the job's name.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Final

from anarchon.errors import RequestError

__all__ = ["NAME_BYTES_MAX", "Subjects"]

NAME_BYTES_MAX: Final = 255
"""
The longest name of a job, in bytes of UTF-8.
"""

# Dots, stars, blanks and '>' mean something in a subject, and not every server takes what is
# not ASCII. What is not listed here is written as '=' and the byte in hexadecimal, '=' included.
_PLAIN: Final = frozenset((string.ascii_letters + string.digits + "_-").encode())


@dataclass(frozen=True, slots=True)
class Subjects:
    """
    The subjects under one prefix, all of which belong to one stream.

    A run has two of them, each of which takes one message for good: PREFIX.claim.JOB.SLOT
    is its claim, PREFIX.end.JOB.SLOT tells how it ended.

    Args:
        prefix: Tokens separated by dots; checked by the options.
    """

    prefix: str

    @property
    def stream(self) -> str:
        """
        The stream's name, in which no dot may stand.
        """
        return self.prefix.replace(".", "=")

    @property
    def all_of_stream(self) -> list[str]:
        """
        What the stream listens to. Two prefixes never overlap: they differ in a token, or in how many they have.
        """
        return [f"{self.prefix}.claim.*.*", f"{self.prefix}.end.*.*"]

    def claim(self, job: str, slot: int) -> str:
        """
        Name the subject of a run's claim.

        Raises:
            RequestError: The job's name is too long, or no text.
        """
        return f"{self.prefix}.claim.{_encoded(job)}.{slot}"

    def end(self, job: str, slot: int) -> str:
        """
        Name the subject of how a run ended. Raises as `claim` does.
        """
        return f"{self.prefix}.end.{_encoded(job)}.{slot}"

    def both(self, job: str, slot: int | None = None) -> str:
        """
        Write the filter of all that is kept for a run, or for a job.
        """
        return f"{self.prefix}.*.{_encoded(job)}.{'*' if slot is None else slot}"

    @property
    def everything(self) -> str:
        """
        The filter of all that is kept for all jobs.
        """
        return f"{self.prefix}.*.*.*"

    def parsed(self, subject: str) -> tuple[str, str, int] | None:
        """
        Read a subject: "claim" or "end", job, slot. None if somebody else has made it up.
        """
        kind, name, slot = subject[len(self.prefix) + 1 :].split(".")
        try:
            found = kind, _decoded(name), int(slot)
            ours = (_encoded(found[1]), str(found[2])) == (name, slot)
        except (ValueError, RequestError):
            return None
        return found if ours else None


def _encoded(job: str) -> str:
    """
    Write a name as one token of a subject.

    Raises:
        RequestError: It is too long, empty, or holds half of a surrogate pair.
    """
    try:
        name = job.encode()
    except UnicodeEncodeError as error:
        msg = f"job {job!r}: the name is no text that UTF-8 can write: {error.reason}"
        raise RequestError(msg) from error
    if not 0 < len(name) <= NAME_BYTES_MAX:
        msg = f"job {job[:40]!r}: a name has 1 to {NAME_BYTES_MAX} bytes in UTF-8, not {len(name)}"
        raise RequestError(msg)
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in name)


def _decoded(token: str) -> str:
    """
    Read a name from a token of a subject.
    """
    first, *others = token.split("=")
    parts = [first.encode()]
    for each in others:
        parts += [bytes.fromhex(each[:2]), each[2:].encode()]
    return b"".join(parts).decode()
