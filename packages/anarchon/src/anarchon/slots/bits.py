"""
Sets of small numbers as bit masks: bit n stands for the value n.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["closest", "highest", "lowest", "mask_of", "values_of"]


def mask_of(values: Iterable[int]) -> int:
    """
    Return the set of some values.
    """
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


def values_of(mask: int) -> list[int]:
    """
    List the values of a set, smallest first.
    """
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def lowest(mask: int) -> int:
    """
    Return the smallest value of a set that is not empty.
    """
    return (mask & -mask).bit_length() - 1


def highest(mask: int) -> int:
    """
    Return the largest value of a set, or -1 for the empty set.
    """
    return mask.bit_length() - 1


def closest(mask: int) -> int | None:
    """
    Return the smallest distance between two values of a set, or None below two values.
    """
    for distance in range(1, mask.bit_length()):
        if mask & mask >> distance:
            return distance
    return None
