"""
The scheduler and its parts. `Scheduler` is public; the rest is for reading.
"""

from __future__ import annotations

from anarchon.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
