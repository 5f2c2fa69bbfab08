"""
Give tests the fixture ``simulation``.

Every pytest run on a machine where the simulation is installed imports this module, so
that it imports pytest alone; the rest comes when the fixture is asked for.
"""

from __future__ import annotations
