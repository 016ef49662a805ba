"""The incidents execute the procedures and rules of the core, so that a comparison sees changes."""

import sys
from typing import Final

import pytest

from replay.diff.core_source import CoreSource, read_core
from replay.diff.logs import open_logs
from replay.diff.messages import FoldLog
from replay.diff.processes import VersionProcess
from replay.diff.references import Version
from replay.diff.uncovered import changes_between, uncovered
from replay.diff.version.executed_lines import CORE
from tests.replay.diff.versions import INCIDENTS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

NOT_EXECUTED: Final = {
    "only refold agree calls it": ("procedures/elections/alter_partition.py:accepted_partitions",),
    "no incident has an unreadable registration, or a fenced write of /feature": (
        "deviations.py:EVERY_WRITE_GUARDED",
        "deviations.py:UNREADABLE_SKIPPED",
    ),
}
"""The code that no incident executes, by reason."""


def is_procedure_or_rule(file: str, name: str) -> bool:
    """Whether this is a public function of the procedures or elections, a strategy of an election,
    a deviation, or the name of a rule."""
    is_public_function = name[0].islower()
    if file.startswith("procedures/"):
        return is_public_function or (name.isupper() and "RULE" in name)
    if file == "election.py":
        return is_public_function or (name.isupper() and name[0] != "_")
    return file == "deviations.py" and name.isupper()


@pytest.mark.long
def test_every_procedure_and_rule_is_executed_by_an_incident() -> None:
    source = read_core(CORE)
    executed: dict[str, set[int]] = {}
    version = Version("this version", ROOT, sys.executable)
    with open_logs([INCIDENTS]) as logs, VersionProcess(version) as process:
        for log in logs:
            folded = process.fold(FoldLog(str(log.path), with_executed=True)).folded
            for file, lines in (folded.executed or {}).items():
                executed.setdefault(file, set()).update(lines)
    everything = changes_between(CoreSource((), ()), source)
    lines_of = {file: frozenset(lines) for file, lines in executed.items()}
    missing = {
        f"{one.file}:{one.name}"
        for one in uncovered(everything, source, {}, lines_of)
        if not one.lines and is_procedure_or_rule(one.file, one.name)
    }
    exceptions = {name for names in NOT_EXECUTED.values() for name in names}
    assert sorted(missing - exceptions) == []
    assert sorted(exceptions - missing) == [], "executed now: remove these from NOT_EXECUTED"
