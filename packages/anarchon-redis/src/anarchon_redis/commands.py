"""
Commands as they go over the wire.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["packed_command"]


def packed_command(words: Sequence[str]) -> bytes:
    """
    Write a command in the server's protocol: an array of bulk strings.

    redis-py's own packer looks at the type and the size of each word, which costs a
    batch of claims more than all else that is done for it here.
    """
    parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
    text = f"*{len(words)}\r\n{''.join(parts)}"
    if text.isascii():
        # One encoding for all of them: a character is a byte.
        return text.encode()
    encoded = [word.encode() for word in words]
    return b"*%d\r\n%b" % (
        len(words),
        b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]),
    )
