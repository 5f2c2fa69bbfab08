"""
Count the outcomes that pytest wrote into JUnit files.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

NOT_APPLICABLE = "n/a"
"""
The outcome that the kit notes on a clause whose capability a backend does not declare: no skip of ours.
"""


NOTED = "note"
"""
The outcome of a SHOULD that a backend does not keep: told, and neither a failure nor a skip.
"""


WAIVED = "waived"
"""
The outcome of a clause that a profile waives, by name and with its reason; the certificate says so in its verdict.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """
    How many tests ended how.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    not_applicable: int = 0
    noted: int = 0
    waived: int = 0
    skips: tuple[str, ...] = field(default=())
    failures: tuple[str, ...] = field(default=())

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
            not_applicable=self.not_applicable + other.not_applicable,
            noted=self.noted + other.noted,
            waived=self.waived + other.waived,
            skips=self.skips + other.skips,
            failures=self.failures + other.failures,
        )

    def closing_line(self) -> str:
        """
        Say the three numbers in the form that readers and scripts look for.
        """
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count(junit: Path) -> Tally:
    """
    Count one JUnit file. A file that is not there, or is cut off, counts nothing: its run ended badly, and says so.
    """
    try:
        root = ET.parse(junit).getroot()
    except (FileNotFoundError, ET.ParseError):
        return Tally()
    return sum((_outcome(case) for case in root.iter("testcase")), Tally())


def note_failure(junit: Path, name: str) -> Tally:
    """
    Write a file of one failure, for a run that could not write its own, and count it.
    """
    suites = ET.Element("testsuites")
    case = ET.SubElement(ET.SubElement(suites, "testsuite"), "testcase", name=name)
    ET.SubElement(case, "failure", message=name)
    junit.parent.mkdir(exist_ok=True)
    ET.ElementTree(suites).write(junit, encoding="utf-8")
    return count(junit)


def _outcome(case: ET.Element) -> Tally:
    name = f"{case.get('classname')}::{case.get('name')}"
    for kind in ("failure", "error"):
        if (broken := case.find(kind)) is not None:
            first_line = (broken.get("message") or kind).splitlines()[0]
            return Tally(failed=1, failures=(f"{name}: {first_line[:300]}",))
    skipped = case.find("skipped")
    if skipped is None:
        return Tally(passed=1)
    noted = {prop.get("value") for prop in case.iter("property")}
    if NOT_APPLICABLE in noted:
        return Tally(not_applicable=1)
    if NOTED in noted:
        return Tally(noted=1)
    if WAIVED in noted:
        return Tally(waived=1)
    return Tally(skipped=1, skips=(f"{name}: {skipped.get('message')}",))
