"""
Instances as real processes on one file: start them, harm them, and judge them by what their handlers wrote.
"""

from __future__ import annotations

from anarchon_chaos.evidence import Mark, Told
from instances.plan import InstancePlan, JobPlan
from instances.stage import Instance, Stage

__all__ = ["Instance", "InstancePlan", "JobPlan", "Mark", "Stage", "Told"]
