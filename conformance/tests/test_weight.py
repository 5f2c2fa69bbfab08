"""
Every pytest run on a machine imports the plug-in: it must weigh nothing.
"""

from __future__ import annotations

import subprocess
import sys


def test_plugin_imports_pytest_and_the_standard_library_alone() -> None:
    """
    Neither the core, nor Hypothesis, nor another module of the kit comes with it.
    """
    program = (
        "import sys, pytest; before = set(sys.modules); import anarchon_conformance.plugin;"
        "new = {name for name in set(sys.modules) - before};"
        "tops = {name.partition('.')[0] for name in new} - set(sys.stdlib_module_names);"
        "print(sorted(tops), sorted(name for name in new if name.startswith('anarchon')))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout

    assert (
        "['anarchon_conformance'] ['anarchon_conformance', 'anarchon_conformance.plugin']\n" == told
    )
