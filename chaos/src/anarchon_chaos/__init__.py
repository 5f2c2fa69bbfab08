"""
Real faults on real servers and processes, judged by what handlers wrote.
"""

from __future__ import annotations

__all__: list[str] = []
